"""Display of `penstock top`: the sites of every subquery with bars, the hottest groups, the decisions. Pure
functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import compress

from rich.bar import Bar
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from penstock.api.progress_line import shown_mark
from penstock.cli.counted import counted
from penstock.control.status import DecisionStatus, GroupStatus, SiteStatus, Status, SubqueryStatus
from penstock.units import size_text

_BUSY, _OVERLOADED = 0.7, 0.9  # utilisation from which a site is yellow and red
_HOTTEST = 8  # groups that are shown
_STALE = 3.0  # seconds after which a status may be out of date
_SITE_COLUMNS = (
    *(("site", 4), ("rows/s", 9), ("out/s", 9), ("", None), ("busy", 6)),
    *(("", None), ("backlog", 10), ("delay", 6), ("state", 6), ("groups", 6)),
)
_WIDE, _WHERE_WIDE = 100, ("out/s", "delay")  # columns that are left out on a narrow terminal, to leave room for bars
_GROUP_COLUMNS = (("site", 4), ("rows/s", 9), ("hottest groups", None), ("busy", 6), ("pending", 10), ("state", 6))


def picture(status: Status, now: float, most: int | None = None) -> RenderableType:
    """Return the whole display. `most` limits the rows of each table to fit a terminal."""
    parts: list[RenderableType] = [_title(status, now), _facts(status)]
    for number, subquery in enumerate(status.subqueries):
        parts += [Text(), _heading(number, subquery), sites_table(subquery, most)]
        if hot := _by_load(subquery.hottest):
            parts.append(_groups(hot[: _HOTTEST if most is None else min(most, _HOTTEST)]))
        elif not status.has_group_statistics:
            parts.append(Text("groups are shown after the next epoch", "dim"))
    if status.decisions:
        newest = status.decisions[::-1][: None if most is None else max(1, most // 2)]  # each takes two lines
        parts += [Text("\ndecisions", "bold"), decision_lines(newest, len(status.subqueries) > 1)]
    return Group(*parts)


def rows_per_table(status: Status, height: int) -> int:
    """Return how many rows each table may have on a terminal of `height` lines."""
    tables = 2 * len(status.subqueries) + 1
    lines_around = 4 + 5 * len(status.subqueries) + 3  # the last 3: two of the heading, the second of a decision
    return max(1, (height - lines_around) // tables)


def _title(status: Status, now: float) -> Text:
    age = now - status.at
    since = Text(f"  no status for {_span(age)}", "yellow") if age > _STALE else Text()
    return _line(Text.assemble((plain(status.query), "bold"), since))


def _facts(status: Status) -> Text:
    facts = (
        ("epoch", f"{status.epoch:,}"),
        ("low-water mark", shown_mark(status.low_water_mark)),
        ("running for", _span(max(0.0, status.at - status.began))),
    )
    rates = (
        ("in", f"{status.rows_in_per_second:,.0f} rows/s"),
        ("out", f"{status.rows_out_per_second:,.0f} rows/s"),
        ("waiting", f"{status.waiting:,} rows"),
    )
    return Text("\n").join([_named(facts), _named(rates), _named([("disk", _disk(status))])])


def _disk(status: Status) -> str:
    limit = f" of {size_text(status.disk_limit)}" if status.disk_limit else ""
    return size_text(status.disk_bytes) + limit


def _named(facts: Sequence[tuple[str, str]]) -> Text:
    return Text("   ").join(Text.assemble((f"{name} ", "dim"), (value, "green")) for name, value in facts)


def _heading(number: int, subquery: SubqueryStatus) -> Text:
    groups = sum(site.groups for site in subquery.sites)
    about = f"  {counted(len(subquery.sites), 'site')}, {counted(groups, 'group')}"
    if subquery.spread_keys:
        about += f", {counted(subquery.spread_keys, 'key')} at several sites"
    if parked := sum(site.parked_bytes for site in subquery.sites):
        about += f", {size_text(parked)} of state parked"
    return _line(Text.assemble((f"subquery {number}: {plain(subquery.name)}", "bold"), (about, "dim")))


def sites_table(subquery: SubqueryStatus, most: int | None) -> RenderableType:
    """Return the table of the sites of a subquery, at most `most` of them."""
    return _Sites(subquery, most)


@dataclass(frozen=True)
class _Sites:
    """The table of sites, with as many columns as fit the terminal."""

    subquery: SubqueryStatus
    most: int | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _sites(self.subquery, self.most, options.max_width >= _WIDE)


def _sites(subquery: SubqueryStatus, most: int | None, wide: bool) -> Table:
    """Return the table of all sites by number, or of the busiest ones if not all fit."""
    kept = [wide or name not in _WHERE_WIDE for name, _ in _SITE_COLUMNS]
    table = _table(*compress(_SITE_COLUMNS, kept))
    shown = sorted(range(len(subquery.sites)), key=lambda site: -subquery.sites[site].utilisation)[:most]
    full = subquery.capacity or max((site.backlog for site in subquery.sites), default=0)
    for number in sorted(shown):
        table.add_row(*compress(_site(number, subquery.sites[number], full), kept))
    if left := len(subquery.sites) - len(shown):
        note: list[RenderableType] = ["", "", "", Text(f"and {left:,} less busy", "dim", no_wrap=True)]
        table.add_row(*compress(note, kept))
    return table


def _site(number: int, site: SiteStatus, full: float) -> tuple[RenderableType, ...]:
    colour = _colour(site.utilisation)
    return (
        str(number),
        f"{site.rows_per_second:,.0f}",
        f"{site.output_per_second:,.0f}",
        Bar(1, 0, min(1.0, site.utilisation), color=colour),
        Text(_percent(site.utilisation), colour),
        Bar(full or 1, 0, min(full or 1, site.backlog), color="blue"),
        f"{site.backlog:,.0f}",
        _delay(site.delay),
        size_text(site.state_bytes),
        f"{site.groups:,}",
    )


def _by_load(groups: Sequence[GroupStatus]) -> list[GroupStatus]:
    """Return the groups that have work, busiest first."""
    working = [group for group in groups if group.rows_per_second or group.pending or group.utilisation]
    return sorted(working, key=lambda group: (-group.utilisation, -group.pending, -group.rows_per_second))


def _groups(hottest: Sequence[GroupStatus]) -> Table:
    table = _table(*_GROUP_COLUMNS)
    for group in hottest:
        colour = _colour(group.utilisation)
        table.add_row(
            str(group.site),
            f"{group.rows_per_second:,.0f}",
            Text(plain(group.group), overflow="fold"),
            Text(_percent(group.utilisation), colour),
            f"{group.pending:,}",
            size_text(group.state_bytes),
        )
    return table


def decision_lines(decisions: Sequence[DecisionStatus], several: bool = False) -> Table:
    """Return the decisions as a table: each on one line, with its outcome and reason below."""
    table = Table.grid(expand=True, padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for decision in decisions:
        where = f"subquery {decision.subquery}: " if several else ""
        table.add_row(Text(f"{decision.epoch:,}", "dim"), where + plain(decision.what))
        table.add_row("", Text.assemble(*_came_of(decision), (plain(decision.why), "dim")))
    return table


def _came_of(decision: DecisionStatus) -> list[tuple[str, str]]:
    """Return the outcome of a decision as pieces of text with their styles."""
    if decision.refused is not None:
        return [(f"refused: {plain(decision.refused)}  ", "yellow")]
    parts = [] if not decision.predicted else [(f"predicted {_percent(decision.predicted)}  ", "cyan")]
    if decision.measured is not None:
        parts.append((f"measured {_percent(decision.measured)}  ", "green" if decision.measured > 0 else "red"))
    return parts


def _table(*columns: tuple[str, int | None]) -> Table:
    """Create a table. Columns with a width are right-aligned; the others share the rest, for bars and names."""
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name, width in columns:
        if width is None:
            table.add_column(name, ratio=1, min_width=8)
        else:
            table.add_column(name, width=width, justify="right", no_wrap=True)
    return table


def plain(text: str) -> str:
    """Replace characters that could control the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _line(text: Text) -> Text:
    """Keep a text on one line, truncated with an ellipsis."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _colour(utilisation: float) -> str:
    return "red" if utilisation >= _OVERLOADED else "yellow" if utilisation >= _BUSY else "green"


def _percent(part: float) -> str:
    return f"{100 * part:,.0f} %"


def _delay(seconds: float) -> str:
    """Format a delay with at most four characters and a unit."""
    return (
        f"{1000 * seconds:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s" if seconds < 99.95 else _minutes(seconds)
    )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{min(seconds / 3600, 9999):.0f} h"


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))

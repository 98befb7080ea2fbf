"""`penstock demo`: run a live query over generated call records on embedded Spark, show it and write it to files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from rich.box import ROUNDED, SIMPLE
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import penstock as ps
from penstock.api.progress_line import NamedProgress, PlainScreen, Rate, Screen, shown_mark
from penstock.api.run_state import Progress
from penstock.api.script import read_script
from penstock.cli.asking import Watching, answer_to, ask, read_status
from penstock.cli.demo_query import WINDOW_SECONDS, Results, Suspect, demo_script, new_folder, threshold
from penstock.cli.running import Ended, run_jobs
from penstock.cli.summary import summary_lines
from penstock.cli.target import Job
from penstock.cli.top_screen import decision_lines, plain, sites_table
from penstock.control.folder import FOLDER, ControlFolder
from penstock.control.requests import MoveRequest
from penstock.control.status import GroupStatus, Status, SubqueryStatus
from penstock.settings import INLINE

_EPOCH = "1s"
_CATCH_UP = 3  # an epoch may read this many seconds of rows, to catch up after a slow moment


def run_demo(seconds: int, rate: int, sites: int, master: str) -> int:
    """Run the demo and return the exit code: 0, or that of Ctrl-C."""
    folder = new_folder()
    _introduce(rate, folder)
    with _waiting("starting Spark, which takes some seconds" if master != INLINE else "starting"):
        _warm_up(master, sites)
    script = folder / "suspicious.sql"
    script.write_text(demo_script(folder, rate))
    read = read_script(script.read_text(), str(script))
    query = read.queries[0]
    checkpoint = folder / "checkpoint"
    job = Job(query.name, query.ready, checkpoint)
    options = {**read.settings, "sites": sites, "master": master, "epoch": _EPOCH, "until": f"{seconds}s"}
    screen = demo_screen(Results(folder / "results"), threshold(rate), seconds, checkpoint)
    ended, code = run_jobs([job], {**options, "rows_per_epoch": rate * _CATCH_UP}, screen)
    _conclude(ended[0], script, sites, master)
    return code


def _introduce(rate: int, folder: Path) -> None:
    print(f"{rate:,} call records a second, up to 2 s out of order: who makes suspiciously many calls within")
    print(f"{WINDOW_SECONDS} s? About 1 % of the rows are late on purpose: their window is closed when they arrive.")
    print(f"The query, its results and its checkpoint are in {folder}.", flush=True)


@contextmanager
def _waiting(text: str) -> Iterator[None]:
    """Show the reason for the delay while the block runs."""
    if sys.stdout.isatty():
        with Console().status(text):
            yield
    else:
        print(text, flush=True)
        yield


def _warm_up(master: str, sites: int) -> None:
    """Run a query of a few rows. The first job of a Spark session is slow, and rows in real time would queue up behind
    it."""
    calls = ps.read.calls(rows=2000, split_rows=1000)
    grouped = calls.group_by("caller").window(ps.sliding("10s", every="2s"))
    query = grouped.agg(n=ps.count(), callees=ps.count_distinct("callee"), mean=ps.avg("duration"))
    with TemporaryDirectory(prefix="penstock-") as checkpoint:
        query.to.memory().start(checkpoint, master=master, sites=sites).wait()


def _conclude(ended: Ended, script: Path, sites: int, master: str) -> None:
    print(*summary_lines(ended, master), sep="\n")
    print(f"\nNext: continue from here, with {sites * 2} sites instead of {sites}:")
    print(f"  penstock run {script} \\")
    print(f"    --checkpoint {script.parent / 'checkpoint'} --sites {sites * 2} --until 30s")


_MOST = 12
_BAR = 24
_LINES_AROUND = 19  # lines of the screen besides the rows of the table
_SITES, _DECISIONS = 4, 2  # how many are shown
_PLAIN_EVERY = 5.0


class DemoScreen:
    """Draws the demo on stdout, which must be a terminal."""

    def __init__(
        self, results: Results, threshold: int, seconds: int, sites: DemoSites, console: Console | None = None
    ) -> None:
        self._results, self._threshold, self._seconds, self._sites = results, threshold, seconds, sites
        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=8)
        self._rate = Rate()
        self._shown: tuple[RenderableType, ...] = ()  # the sites, from the latest status

    def __enter__(self) -> DemoScreen:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)
        self._sites.close()

    def starting(self, what: str) -> None:
        """Show nothing: the demo has already started Spark."""

    def show(self, progress: Sequence[NamedProgress]) -> None:
        self._live.update(self.drawn(progress[0].progress))

    def drawn(self, p: Progress) -> Panel:
        """Return the whole screen as a panel."""
        self._results.read_new()
        most = max(3, min(_MOST, self._console.height - _LINES_AROUND))
        suspects = self._results.suspects(most)
        body = self._table(suspects, most) if suspects else Text("\n  the first window is still open ...\n", "dim")
        status = self._sites.look(p.elapsed) if p.state == "running" else None
        self._shown = sites_and_moves(status) if status is not None else self._shown
        parts = (self._header(p), *self._shown, body)
        return Panel(Group(*parts), title=self._title(p), box=ROUNDED, border_style="cyan")

    def say(self, text: str) -> None:
        self._console.print(Text(text, "yellow"))

    def _title(self, p: Progress) -> Text:
        left = max(0, round(self._seconds - p.elapsed))
        return Text(f" penstock demo, {left} s left " if p.state == "running" else " penstock demo ", "bold")

    def _header(self, p: Progress) -> Table:
        facts = {
            "epoch": f"{p.epoch:,}",
            "rows in": f"{p.rows_in:,}",
            "rows/s": f"{self._rate.now(p.rows_in):,.0f}",
            "low-water mark": shown_mark(p.low_water_mark),
            "late on purpose": late_share(p),
            "results": f"{p.rows_out:,}",
        }
        grid = Table.grid(expand=True)
        for _ in facts:
            grid.add_column(justify="center")
        grid.add_row(*(Text(value, "bold green") for value in facts.values()))
        grid.add_row(*(Text(name, "dim") for name in facts))
        return grid

    def _table(self, suspects: Sequence[Suspect], most: int) -> Table:
        title = f"\nmore than {self._threshold:,} calls in {WINDOW_SECONDS} s, until {self._results.latest:%H:%M:%S}"
        table = Table(title=Text(title), title_justify="left", box=SIMPLE, expand=True, pad_edge=False)
        for name in ("caller", "calls", "", "change", "callees", "mean seconds"):
            table.add_column(name, justify="left" if name == "" else "right")
        for suspect in suspects:
            table.add_row(*_cells(suspect, suspects[0].calls))
        for _ in range(most - len(suspects)):
            table.add_row()  # keeps the height of the screen constant
        return table


def late_share(p: Progress) -> str:
    """Format the number of late rows and their share of all rows."""
    return f"{p.late_rows:,} ({p.late_rows / p.rows_in:.1%})" if p.rows_in else "0"


def sites_and_moves(status: Status) -> tuple[RenderableType, ...]:
    """Return the table of sites, and the latest decisions about their groups."""
    newest = status.decisions[::-1][:_DECISIONS]
    heading = Text("decisions, by epoch" if newest else "no group has moved yet", "dim")
    return Text(), sites_table(status.subqueries[0], _SITES), heading, decision_lines(newest)


def _cells(suspect: Suspect, top: int) -> list[str | Text]:
    change = suspect.calls - suspect.before
    arrow = Text("new", "yellow") if not suspect.before else Text(f"{change:+,}", "red" if change > 0 else "blue")
    bar = Text("█" * max(1, round(_BAR * suspect.calls / top)), "magenta")
    return [
        f"{suspect.caller}", f"{suspect.calls:,}", bar, arrow, f"{suspect.callees:,}", f"{suspect.mean_seconds:.1f}",
    ]  # fmt: skip


class PlainDemoScreen(PlainScreen):
    """Prints the progress of the demo line by line, for a stdout that is not a terminal."""

    def __init__(self, results: Results, sites: DemoSites) -> None:
        super().__init__()
        self._results, self._sites = results, sites
        self._demo_rate, self._due, self._shown = Rate(), time.monotonic() + _PLAIN_EVERY, 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sites.close()

    def show(self, progress: Sequence[NamedProgress]) -> None:
        p = progress[0].progress
        self._tell_moves(p)
        if time.monotonic() < self._due or not p.epochs:
            return
        self._due = time.monotonic() + _PLAIN_EVERY
        self._results.read_new()
        top = ", ".join(f"{s.caller} ({s.calls:,} calls)" for s in self._results.suspects(3)) or "none yet"
        rate = self._demo_rate.now(p.rows_in)
        self.say(
            f"epoch {p.epoch}, {p.rows_in:,} rows in, {rate:,.0f} rows/s, low-water mark "
            f"{shown_mark(p.low_water_mark)}, {late_share(p)} late on purpose, {p.rows_out:,} results; busiest: {top}"
        )

    def _tell_moves(self, p: Progress) -> None:
        """Print the decisions since the last call."""
        status = self._sites.look(p.elapsed) if p.state == "running" else None
        decisions = status.decisions if status is not None else ()
        for decision in decisions[self._shown :]:
            self.say(f"epoch {decision.epoch}: {plain(decision.what)}: {plain(decision.why)}")
        self._shown = max(self._shown, len(decisions))

    def say(self, text: str) -> None:
        print(text, flush=True)


def demo_screen(results: Results, threshold: int, seconds: int, checkpoint: Path) -> Screen:
    """Return the screen for stdout: live if it is a terminal, otherwise plain."""
    sites = DemoSites(checkpoint, seconds / 3)
    return DemoScreen(results, threshold, seconds, sites) if sys.stdout.isatty() else PlainDemoScreen(results, sites)


class DemoSites:
    """Watches the run of a checkpoint. After `move_after` seconds it asks to move the busiest group to another site."""

    def __init__(self, checkpoint: Path, move_after: float) -> None:
        self._checkpoint, self._move_after = checkpoint, move_after
        self._folder: ControlFolder | None = None
        self._watching: Watching | None = None
        self._asked: str | None = None

    def look(self, elapsed: float) -> Status | None:
        """Return the latest status of the run; None before the first."""
        if self._folder is None:
            if not (self._checkpoint / FOLDER).is_dir():
                return None
            self._folder = ControlFolder(self._checkpoint)
            self._watching = Watching(self._folder)
        assert self._watching is not None
        self._watching.renew()
        status = read_status(self._folder)
        if status is not None and self._asked is None and elapsed >= self._move_after:
            self._asked = self._ask_for_move(status, self._folder)
        return status

    def close(self) -> None:
        """Stop watching, and remove the answer to the move."""
        if self._folder is not None:
            if self._asked is not None:
                answer_to(self._folder, self._asked)  # removes the answer
            self._folder.close()

    def _ask_for_move(self, status: Status, folder: ControlFolder) -> str | None:
        move = busiest_move(status.subqueries[0])
        return None if move is None else ask(folder, move)


def busiest_move(subquery: SubqueryStatus) -> MoveRequest | None:
    """Return a request to move the busiest group to the least busy other site; None if there is nothing to move."""
    if len(subquery.sites) < 2 or not subquery.hottest:
        return None
    group: GroupStatus = max(subquery.hottest, key=lambda one: one.utilisation)
    others = [site for site in range(len(subquery.sites)) if site != group.site]
    return MoveRequest(group.group, min(others, key=lambda site: subquery.sites[site].utilisation), 0)

"""Progress of queries in one line each: redrawn if stderr is a terminal, printed every few seconds otherwise."""

from __future__ import annotations

import io
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from penstock.api.run_state import Progress
from penstock.units import size_text

_RATE_SECONDS = 5.0  # over which the rate is measured
_PLAIN_EVERY = 5.0  # seconds


@dataclass(frozen=True)
class NamedProgress:
    """The progress of a query; `name` is empty if it is the only one."""

    name: str
    progress: Progress


class Screen(Protocol):
    """Shows the progress of the queries of a command."""

    def __enter__(self) -> Screen: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def starting(self, what: str) -> None:
        """Show what is starting, before the first epoch."""
        ...

    def show(self, progress: Sequence[NamedProgress]) -> None: ...

    def say(self, text: str) -> None: ...


class Rate:
    """Rows per second over the last few seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def now(self, rows: int) -> float:
        """Record the number of rows so far and return the current rate."""
        at = time.monotonic()
        self._seen.append((at, rows))
        while len(self._seen) > 2 and self._seen[0][0] < at - _RATE_SECONDS:
            self._seen.popleft()
        (first_at, first_rows), span = self._seen[0], at - self._seen[0][0]
        return (rows - first_rows) / span if span > 0 and first_at < at else 0.0


def shown_mark(mark: datetime | int | None) -> str:
    """Format a low-water mark; the date is omitted if it is today (UTC)."""
    match mark:
        case None:
            return "-"
        case datetime():
            today = mark.date() == datetime.now(UTC).date()
            return f"{mark:%H:%M:%S}" if today else f"{mark:%Y-%m-%d %H:%M:%S}"
    return f"{mark:,}"


def progress_text(named: NamedProgress, rate: float) -> str:
    """Format the progress of a query as one line."""
    p = named.progress
    prefix = f"{named.name}: " if named.name else ""
    if p.epochs == 0 and p.state == "running":
        return f"{prefix}waiting for the first epoch"
    facts = [
        f"epoch {p.epoch:,}",
        f"{p.rows_in:,} rows in",
        f"{rate:,.0f} rows/s",
        f"low-water mark {shown_mark(p.low_water_mark)}",
        f"{p.late_rows:,} late",
        f"{p.waiting:,} waiting",
    ]
    if p.parked_bytes:
        left = f" (clean-up: about {p.seconds_to_clean_up:,.0f} s)" if p.seconds_to_clean_up is not None else ""
        facts.append(f"{size_text(p.parked_bytes)} parked{left}")
    return prefix + ", ".join(facts)


@dataclass(frozen=True)
class _Starting:
    """A line that counts the seconds since it was first shown."""

    what: str
    began: float

    def __rich__(self) -> Text:
        return Text(f"{self.what}, {time.monotonic() - self.began:.0f} s")


class LiveScreen:
    """One line per query that is redrawn. Rows that a query prints appear above it."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, refresh_per_second=8, transient=True, redirect_stdout=False)
        self._stdout = sys.stdout
        self._rates: dict[str, Rate] = {}
        self._spinner = Spinner("dots", style="cyan")

    def __enter__(self) -> LiveScreen:
        self._live.__enter__()
        if self._stdout.isatty():  # rows for a file or a pipe must not go to the terminal
            sys.stdout = AboveLine(self._console, self._stdout)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(sys.stdout, AboveLine):
            sys.stdout.finish()
        sys.stdout = self._stdout
        self._live.__exit__(kind, error, trace)

    def starting(self, what: str) -> None:
        grid = Table.grid(padding=(0, 1))
        grid.add_row(self._spinner, _Starting(what, time.monotonic()))
        self._live.update(grid)

    def show(self, progress: Sequence[NamedProgress]) -> None:
        grid = Table.grid(padding=(0, 1))
        for named in progress:
            rate = self._rates.setdefault(named.name, Rate()).now(named.progress.rows_in)
            mark = self._spinner if named.progress.state == "running" else Text("✓", "green")
            grid.add_row(mark, Text(progress_text(named, rate), overflow="ellipsis", no_wrap=True))
        self._live.update(grid)

    def say(self, text: str) -> None:
        self._console.print(Text(text))


class PlainScreen:
    """Prints a line every few seconds if something has changed."""

    def __init__(self) -> None:
        self._rates: dict[str, Rate] = {}
        self._last: dict[str, str] = {}
        self._next = time.monotonic() + _PLAIN_EVERY

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def starting(self, what: str) -> None:
        self.say(what)

    def show(self, progress: Sequence[NamedProgress]) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PLAIN_EVERY
        for named in progress:
            rate = self._rates.setdefault(named.name, Rate()).now(named.progress.rows_in)
            text = progress_text(named, rate)
            if text != self._last.get(named.name):
                self.say(text)
            self._last[named.name] = text

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def screen_for_stderr() -> Screen:
    """Return a live screen if stderr is a terminal, otherwise a plain one."""
    return LiveScreen() if sys.stderr.isatty() else PlainScreen()


class AboveLine(io.TextIOBase):
    """A stdout that passes complete lines on to the console of the live line. Rich's own redirection cannot be used: a
    console that prints to stdout bypasses it, writes to the terminal, and breaks the live line."""

    def __init__(self, console: Console, terminal: TextIO) -> None:
        self._console, self._terminal, self._unfinished = console, terminal, ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._terminal.encoding

    def isatty(self) -> bool:
        return self._terminal.isatty()

    def fileno(self) -> int:
        return self._terminal.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        lines, newline, self._unfinished = (self._unfinished + text).rpartition("\n")
        if newline:
            self._console.print(Text.from_ansi(lines), soft_wrap=True, highlight=False)
        return len(text)

    def finish(self) -> None:
        """Write the rest that did not end in a newline."""
        if self._unfinished:
            self.write("\n")

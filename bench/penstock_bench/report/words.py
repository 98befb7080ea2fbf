"""How the figures of a record are written, in the terminal and on the page."""

from __future__ import annotations

from penstock_bench.report.records import Record

NOTHING = "-"


def rate(record: Record) -> str:
    return NOTHING if record.rows_per_second is None else f"{record.rows_per_second:,.0f}"


def seconds(record: Record) -> str:
    return NOTHING if record.seconds is None else f"{record.seconds:.2f}"


def spread(record: Record) -> str:
    """The fastest and the slowest trial."""
    return NOTHING if record.spread is None else f"{record.spread[0]:.2f}..{record.spread[1]:.2f}"


def memory(record: Record) -> str:
    return NOTHING if record.peak_memory_bytes is None else f"{record.peak_memory_bytes / 2**20:,.0f} MiB"


def epochs(record: Record) -> str:
    return NOTHING if record.epochs is None else str(record.epochs)


def ratio(record: Record) -> str:
    """Two decimals where it is small, for there the second one matters."""
    if record.ratio is None:
        return NOTHING
    return f"{record.ratio:.2f}" if record.ratio < 10 else f"{record.ratio:.1f}"


def result(record: Record) -> str:
    """Whether the answer was right; otherwise what is the trouble, in one line."""
    if not record.trouble:
        return "yes"
    wrong = record.equal is False and record.failed is None
    return f"NO: {record.detail}" if wrong else record.trouble

"""How a system ended: with the batch answer, with another one, by an error, without progress, or too late."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from penstock_bench.peers.watch import Watched

Kind = Literal["finished", "not equal", "died", "stalled", "too slow", "not measured"]
_OUT_OF_MEMORY = re.compile(r"(?:java\.lang\.)?OutOfMemoryError[^\n]*|MemoryError[^\n]*|Cannot allocate memory")
_ERROR = re.compile(r"^(?:Caused by: |: )?([\w.]+(?:Error|Exception|error)\b:? ?.*)$", re.MULTILINE)
_LONGEST = 90


@dataclass(frozen=True)
class Ending:
    kind: Kind
    text: str


def ending(seen: Watched, rows: int, stall: float, error: str | None, equal: bool | None) -> Ending:
    """Return how a system ended that was to join `rows`. `error` is what its log tells; `equal` whether it has the
    batch answer, None if it gave no answer."""
    share = f"{seen.rows / rows:.0%}".replace("%", " %")
    why = f"; {error}" if error else ""
    match seen.ended, equal:
        case "stalled", _:
            return Ending("stalled", f"stalled at {share}: no progress for {stall:.0f} s{why}")
        case "slow", _:
            return Ending("too slow", f"too slow: {share} done in {seen.seconds:.0f} s{why}")
        case _, True:
            return Ending("finished", "finished, equal to the batch answer")
        case _, False:
            return Ending("not equal", "finished, NOT EQUAL to the batch answer")
    return Ending("died", f"died at {share}: {error or f'exit code {seen.code}'}")


def error_in(log: str) -> str | None:
    """Return the error that a log tells of: that memory was short, wherever it says so, or else its last one."""
    if short := _OUT_OF_MEMORY.search(log):
        return short.group()[:_LONGEST].strip()
    found = _ERROR.findall(log)
    return found[-1][:_LONGEST].strip() if found else None

"""Who is asked what: the pairs of a workload and a system, with what is known before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock_bench.system import SYSTEMS, Entry, Limits, asked, missing, system_named
from penstock_bench.workload import Refused, Workload
from penstock_bench.workloads import WORKLOADS, workload_named


@dataclass(frozen=True)
class Pair:
    """A system with a workload, and the limits it is run with. `refused` says why it is not run; `missing`, why it
    fails without being run: it was named, but is not installed."""

    workload: Workload
    entry: Entry
    limits: Limits
    refused: str | None = None
    missing: str | None = None

    @property
    def label(self) -> str:
        return f"{self.workload.name} on {self.entry.name}"


def chosen_pairs(workloads: Sequence[str], systems: Sequence[str], limits: Limits) -> list[Pair]:
    """The pairs in the order of a turn. Without names all workloads and all systems; then a system that is not
    installed is passed over with its reason, and one that has no text of its own for a workload is left out."""
    questions = [workload_named(name) for name in dict.fromkeys(workloads or WORKLOADS)]
    entries = [system_named(name) for name in dict.fromkeys(systems or SYSTEMS)]
    absent = {entry.name: missing(entry) for entry in entries}
    return [
        _pair(workload, entry, limits, absent[entry.name], named=bool(systems))
        for workload in questions
        for entry in entries
        if systems or asked(entry, workload) is not None
    ]


def _pair(workload: Workload, entry: Entry, limits: Limits, absent: str | None, named: bool) -> Pair:
    refused: str | None = None
    match asked(entry, workload):
        case Refused(reason):
            refused = reason
        case None:
            refused = "nobody has rewritten this workload by hand"
    if refused is not None or absent is None:
        return Pair(workload, entry, limits, refused)
    return Pair(workload, entry, limits, missing=absent) if named else Pair(workload, entry, limits, refused=absent)

"""Intake of an epoch: how many rows of which source it takes, and from which bounds their marks go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.balance.intake.admission import EPOCH_SECONDS, Admission, FixedAdmission
from penstock.balance.intake.disk import DiskBudget
from penstock.balance.intake.lead import LeadOfSource, SourceLead, lowest_marks, shares, substream_shares
from penstock.clock import Clock
from penstock.connectors.source import AcknowledgingReader, Offer, Reader, SizedSplit, SubstreamReader
from penstock.engine.driver.commit import source_marks
from penstock.engine.driver.effort import Reports, bytes_per_row, fastest_seconds, held_seconds, largest_backlog
from penstock.engine.wire.job import RouteTask
from penstock.plan.logical import Source
from penstock.progress.idle import active_after, begun, floors, lull_mark
from penstock.progress.mark import FINISHED, Mark, Slack
from penstock.settings import Settings
from penstock.state.directory import Directory
from penstock.state.model import SourceState
from penstock.storage.memory import budget_for, memory_limit

_ASKED_AT_MOST = 3  # times in an epoch, if a source offers more bytes than fit into memory


@dataclass(frozen=True)
class Intake:
    """The input of an epoch: the offers of the sources, the tasks that read them, and the directories by which they cut
    rows.

    `leads` is the progress of the sources relative to each other after these offers; the substreams in `held[i]` of
    source i were not asked for rows. The sources were asked for `asked` rows at the monotonic time `asked_at`, perhaps
    long before the epoch starts, when the system time was `system_time`, in microseconds.
    """

    offers: tuple[Offer, ...]
    routes: tuple[RouteTask, ...]
    directories: tuple[Directory, ...]
    leads: tuple[LeadOfSource, ...]
    held: tuple[frozenset[str], ...]
    asked_at: float
    system_time: int
    asked: int

    @property
    def rows(self) -> int:
        """Return the number of rows in the splits of this epoch, as far as sources know it."""
        return _rows(self.offers)

    @property
    def waiting(self) -> int:
        """Return the number of rows that are known to be available for later epochs."""
        return sum(offer.waiting for offer in self.offers)


class SourceIntake:
    """The readers of all sources, and the limits on their rows. It starts from the `states` of the sources; its own
    state need not survive a crash."""

    def __init__(
        self,
        sources: Sequence[Source],
        readers: tuple[Reader, ...],
        states: Sequence[SourceState],
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._sources, self._readers, self._settings, self._clock = sources, readers, settings, clock
        self._clocks = [str(source.schema.field(source.time).type) for source in sources]
        fixed = settings.rows_per_epoch
        self._admission = FixedAdmission(fixed) if fixed else Admission(settings.epoch_seconds or EPOCH_SECONDS)
        self._activity = begun(len(sources), clock.monotonic())
        self._backlog, self._bytes_per_row = 0, 0.0
        self.leads = tuple(
            LeadOfSource(mark, state.ended, clock=clock)
            for mark, state, clock in zip(source_marks(states), states, self._clocks, strict=True)
        )

    def intake(
        self,
        states: Sequence[SourceState],
        leads: Sequence[LeadOfSource],
        directories: tuple[Directory, ...],
        on_the_way: int = 0,
        disk: DiskBudget = DiskBudget(),  # noqa: B008 - a frozen value
    ) -> Intake:
        """Return the input of the epoch after these states. Sources share the rows that the epoch may take, and no
        source leads the others too far. `on_the_way` are the rows of an epoch that is still running: they may end up in
        buffers, and on the disk."""
        marks, asked_at, system_time = source_marks(states), self._clock.monotonic(), int(self._clock.time() * 1e6)
        now = [self._reached(n, leads[n], marks[n], state) for n, state in enumerate(states)]
        rows = disk.admitted(self.admissible(directories, on_the_way), on_the_way)
        room = min(self._room(directories), disk.first_bytes)
        for _ in range(_ASKED_AT_MOST):
            parts = shares(rows, now, self._settings.max_lead) if rows else (0,) * len(now)
            most = [self._shares_within(standing, part, now) for standing, part in zip(now, parts, strict=True)]
            offers = tuple(map(_offer, self._readers, states, now, parts, most))
            if rows <= 1 or (size := _size(offers)) <= room:
                break
            rows = max(1, min(rows, _rows(offers)) * room // size)
        splits = [(index, split) for index, offer in enumerate(offers) for split in offer.splits]
        return Intake(
            offers,
            tuple(RouteTask(n, index, split, marks[index]) for n, (index, split) in enumerate(splits)),
            directories,
            tuple(map(_asked, now, parts, most, offers)),
            tuple(map(_held, states, parts, most)),
            asked_at,
            system_time,
            rows,
        )

    def _reached(self, source: int, standing: LeadOfSource, mark: Mark, state: SourceState) -> LeadOfSource:
        """Return the progress of a source at `mark`, with that of its substreams if its reader can hold them back."""
        known, marks = standing.substreams, state.marks
        if self._settings.max_lead is None or not isinstance(self._readers[source], SubstreamReader):
            marks = {}
        substreams = {name: known.get(name, SourceLead(at)).reached(at, at.ended) for name, at in marks.items()}
        return replace(standing.reached(mark, state.ended), substreams=substreams)

    def _shares_within(self, source: LeadOfSource, rows: int, sources: Sequence[LeadOfSource]) -> dict[str, int]:
        """Return how many rows each substream of a source may give; empty: no limit per substream."""
        lead = self._settings.max_lead
        if lead is None or not rows:
            return {}
        return substream_shares(rows, source.substreams, lowest_marks(sources).get(source.clock), lead)

    def floors(self, intake: Intake, states: Sequence[SourceState]) -> tuple[Mark, ...]:
        """Return the bounds from which the marks of the sources go on, also if some sources are idle. Sources and
        substreams that are held back count as active: otherwise their rows would be late."""
        now = intake.asked_at  # rows that came later have not been seen
        shown = [
            {split.substream for split in offer.splits} | held
            for offer, held in zip(intake.offers, intake.held, strict=True)
        ]
        self._activity = active_after(self._activity, shown, now, [state.marks.keys() for state in states])
        return floors(
            self._activity,
            [(state.marks, state.floor, state.ended) for state in states],
            [None if source.idle is None else source.idle / 1e6 for source in self._sources],
            now,
            self._clocks,
            {
                n: lull_mark(intake.system_time, source.idle, _slack(source))
                for n, source in enumerate(self._sources)
                if source.idle is not None and source.idle_advances
            },
        )

    def admissible(self, directories: Sequence[Directory], on_the_way: int = 0) -> int:
        """Return how many rows the sources may give together so that they fit into the buffers of the sites."""
        capacity = self._settings.buffer_rows
        fitting = max(1, int(self._room(directories) / max(1.0, self._bytes_per_row)))
        if not capacity:
            return min(fitting, self._admission.rows)
        sites = _fewest_sites(directories)
        slowed = self._admission.slowed((self._backlog + on_the_way / sites) / capacity, sites * capacity)
        return min(fitting, slowed)

    def _room(self, directories: Sequence[Directory]) -> int:
        """Return how many bytes of rows an epoch may take in."""
        widest = max((directory.sites for directory in directories), default=1)
        return budget_for(self._settings.memory, memory_limit(), widest).arrivals * _fewest_sites(directories)

    def concluded(self, rows_in: int, seconds: float, reports: Reports) -> None:
        """Adapt the admission to the measurements of an epoch. If sites have buffers, a slow site does not slow down
        the others until its buffer is full."""
        held, buffered = held_seconds(reports), self._settings.buffer_rows and self._settings.deadline_seconds
        cost = fastest_seconds(reports) if buffered else held
        self._admission = self._admission.after(rows_in, seconds, held, cost)
        self._backlog = largest_backlog(reports)
        self._bytes_per_row = bytes_per_row(reports) or self._bytes_per_row

    def committed(self, states: Sequence[SourceState]) -> None:
        """Acknowledge the committed progress to the readers that want it."""
        for reader, state in zip(self._readers, states, strict=True):
            if isinstance(reader, AcknowledgingReader) and state.progress is not None:
                reader.committed(state.progress)


def _fewest_sites(directories: Sequence[Directory]) -> int:
    return min((directory.sites for directory in directories), default=1)


def _rows(offers: Sequence[Offer]) -> int:
    """Return the number of offered rows, as far as sources know it."""
    return sum(split.rows for offer in offers for split in offer.splits)


def _size(offers: Sequence[Offer]) -> int:
    """Return the bytes of the offered rows, as far as sources know them."""
    splits = (split for offer in offers for split in offer.splits)
    return sum(split.size for split in splits if isinstance(split, SizedSplit))


def _offer(reader: Reader, state: SourceState, standing: LeadOfSource, rows: int, most: Mapping[str, int]) -> Offer:
    """Return the offer of a source for at most `rows` rows, by substream if `most` says so."""
    if state.ended:
        return Offer((), state.progress or {}, True)
    if not rows:  # too far ahead of others; do not ask, because a reader that is asked gives at least some rows
        return Offer((), state.progress or {}, False, standing.waiting)
    if most and isinstance(reader, SubstreamReader):
        return reader.offer_at_most(most, state.progress, rows)
    return reader.offer(state.progress, rows)


def _held(state: SourceState, rows: int, most: Mapping[str, int]) -> frozenset[str]:
    """Return the substreams that may not give any rows; all substreams and FINISHED if the source is not asked."""
    return frozenset(name for name, share in most.items() if not share) if rows else frozenset({*state.marks, FINISHED})


def _slack(source: Source) -> int:
    return source.progress.span if isinstance(source.progress, Slack) else 0


def _asked(standing: LeadOfSource, rows: int, most: Mapping[str, int], offer: Offer) -> LeadOfSource:
    """Return the progress of a source after it, and its substreams, were asked for so many rows."""
    given = Counter[str]()
    for split in offer.splits:
        given[split.substream] += split.rows
    substreams = {
        name: known.asked(most[name], given[name], 1) if name in most else known
        for name, known in standing.substreams.items()
    }
    return replace(standing.asked(rows, given.total(), offer.waiting), substreams=substreams)

"""The lifetimes of a join's rows: how long they are needed, when outer rows are decided, and the progress of the
result.

`leads[i][j]` is the amount by which the time of input j may exceed that of input i (None: unbounded). A row of input i
with time t can still match future rows of input j while the mark of j is at or below t + leads[i][j].

Left, right, full and anti joins preserve rows: a preserved row without a partner is emitted. It is decided when the
mark of the other input passes its last possible partner. Its partners are looked up then, so they must be kept until it
is decided: a row y of input q until all rows x of input p that it can match are decided. The last such x has the time
t_y + leads[q][p] and is decided when the mark of q passes t_y + leads[q][p] + leads[p][q]. A semi join looks up whether
a row had a partner before, so it keeps partners as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.operators.bands import Leads
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, Mark, Marks

PRESERVED = {"inner": (), "left": (0,), "right": (1,), "full": (0, 1), "semi": (), "anti": (0,)}
JUDGED = {**PRESERVED, "semi": (0,)}  # ports whose rows are emitted depending on whether they have a partner
_FOREVER = 2**62
ALL_TIMES = MAX_TIME + 1  # a bound above every time


@dataclass(frozen=True)
class Lifetimes:
    """The rules for a kind of join. Bounds on times are Python integers from MIN_TIME to ALL_TIMES."""

    kind: str
    leads: Leads

    def needed_from(self, port: int, marks: Marks) -> int:
        """Return the time below which rows of a port are no longer needed."""
        return min((_bound(marks[j], lead) for j, lead in self._waits(port)), default=ALL_TIMES)

    def decided_below(self, port: int, marks: Marks) -> int:
        """Return the time below which preserved rows of a port are decided."""
        return _bound(marks[1 - port], self.leads[port][1 - port])

    def to_decide(self, port: int, after: Marks, upto: Marks) -> range:
        """Return the times of the preserved rows that become decided between two marks."""
        return range(self.decided_below(port, after), self.decided_below(port, upto))

    def span(self, port: int) -> int:
        """Return the approximate time for which rows of a port are needed."""
        spans = [lead for _, lead in self._waits(port)]
        return max(1, *(_FOREVER if lead is None else min(lead, _FOREVER) for lead in spans))

    def _waits(self, port: int) -> Iterator[tuple[int, int | None]]:
        """Yield (j, lead): a row of the port is needed while the mark of j is at or below its time + lead."""
        for j, lead in enumerate(self.leads[port]):
            if j != port:
                yield j, lead
        for decided in JUDGED[self.kind]:
            if decided != port:
                there, back = self.leads[port][decided], self.leads[decided][port]
                yield port, None if there is None or back is None else there + back

    def output_marks(self, marks: Marks) -> Marks:
        """Return the marks of the result.

        An inner join has a mark on the time of each input, and then the joint marks of all inputs: no more results with
        all times below their marks. Other kinds have one mark, on the input whose rows are in every result. A full join
        has no such input, so its only progress is its end.
        """
        match self.kind:
            case "inner":
                return *(self._output_mark(port, marks) for port in range(len(marks))), *marks
            case "full":
                return (END if min(marks).ended else BEGIN,)
            case "right":
                return (self._output_mark(1, marks),)
            case _:
                return (self._output_mark(0, marks),)

    def _output_mark(self, port: int, marks: Marks) -> Mark:
        """Return the mark on the time of one port in the result."""
        leads = ((j, lead) for j, lead in enumerate(self.leads[port]) if j != port)
        return min([marks[port], *(marks[j].behind(lead) for j, lead in leads)])


def reach(leads: Leads) -> int:
    """Return an upper bound on the amount by which times are shifted: the sum of all leads."""
    return sum(abs(lead) for row in leads for lead in row if lead is not None)


def _bound(mark: Mark, lead: int | None) -> int:
    """Return the largest time t, exclusive, for which t + lead is below the mark."""
    if mark.ended:
        return ALL_TIMES
    return MIN_TIME if lead is None else max(MIN_TIME, min(ALL_TIMES, mark.at - lead))

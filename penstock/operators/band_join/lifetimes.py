"""How long the rows of a join are needed, when its outer rows are decided, and how far its result has come.

`leads[i][j]` is by how much the time of input j may lie above that of input i (None: by any span). A row of input i
with time t can still meet rows of input j while the mark of j is at or below t + leads[i][j].

Left, right, full and anti joins preserve rows: one without a partner stands in the result. It is decided when the mark
of the other input passes the last partner it could have. Whether it had one is looked up then, so the partners of a row
stay until it is decided: a row y of input q until all rows x of input p that it can meet are, of which the last has the
time t_y + leads[q][p] and is decided when the mark of q passes t_y + leads[q][p] + leads[p][q]. A semi join looks up
whether a row had a partner before, so it needs partners as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.operators.bands import Leads
from penstock.operators.protocol import Marks
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, Mark

PRESERVED = {"inner": (), "left": (0,), "right": (1,), "full": (0, 1), "semi": (), "anti": (0,)}
JUDGED = {**PRESERVED, "semi": (0,)}  # by whether they have a partner
_FOREVER = 2**62
ALL_TIMES = MAX_TIME + 1  # a bound that every time is below


@dataclass(frozen=True)
class Lifetimes:
    """The rules for a join of some kind. Bounds on times are Python integers from MIN_TIME to ALL_TIMES."""

    kind: str
    leads: Leads

    def needed_from(self, port: int, marks: Marks) -> int:
        """Rows of a port with a time below this will never be needed."""
        return min((_bound(marks[j], lead) for j, lead in self._waits(port)), default=ALL_TIMES)

    def decided_below(self, port: int, marks: Marks) -> int:
        """Preserved rows of a port are decided if their time is below this."""
        return _bound(marks[1 - port], self.leads[port][1 - port])

    def to_decide(self, port: int, after: Marks, upto: Marks) -> range:
        """The times of the preserved rows that become decided between two marks."""
        return range(self.decided_below(port, after), self.decided_below(port, upto))

    def span(self, port: int) -> int:
        """About how long rows of a port are needed."""
        spans = [lead for _, lead in self._waits(port)]
        return max(1, *(_FOREVER if lead is None else min(lead, _FOREVER) for lead in spans))

    def _waits(self, port: int) -> Iterator[tuple[int, int | None]]:
        """(j, lead): a row of the port is needed while the mark of j is at or below its time + lead."""
        for j, lead in enumerate(self.leads[port]):
            if j != port:
                yield j, lead
        for decided in JUDGED[self.kind]:
            if decided != port:
                there, back = self.leads[port][decided], self.leads[decided][port]
                yield port, None if there is None or back is None else there + back

    def output_marks(self, marks: Marks) -> Marks:
        """An inner join has a mark for the time of each input, and the marks of all inputs as a joint one: no more
        results with all times below theirs. Others have one mark, for the input whose rows stand in every result; a
        full join has no such input, so all it can tell is its end."""
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
        leads = ((j, lead) for j, lead in enumerate(self.leads[port]) if j != port)
        return min([marks[port], *(_behind(marks[j], lead) for j, lead in leads)])


def reach(leads: Leads) -> int:
    """By how much times are moved at most when all leads are added up."""
    return sum(abs(lead) for row in leads for lead in row if lead is not None)


def _bound(mark: Mark, lead: int | None) -> int:
    """The time below which t + lead lies below the mark."""
    if mark.ended:
        return ALL_TIMES
    return MIN_TIME if lead is None else max(MIN_TIME, min(ALL_TIMES, mark.at - lead))


def _behind(mark: Mark, lead: int | None) -> Mark:
    if mark.ended:
        return END
    return BEGIN if lead is None else mark.shift(-lead)

"""The events that a run keeps."""

from __future__ import annotations

from penstock.api.run_state import EventLog
from penstock.events import ChangeMeasured, ChangeRefused, DirectoryChanged, EpochCommitted, EpochTimed, Event


def epoch(number: int) -> list[Event]:
    return [
        EpochCommitted(number, 1, 1, 0, 0, 0.1, 0, None, False),
        EpochTimed(number, 0.1, {}, ()),
    ]


def decisions(number: int) -> list[Event]:
    return [
        DirectoryChanged(number, 0, "move 01 from site 0 to site 1", "it is busy", 0.2, 0),
        ChangeRefused(number, 0, "split 01", "it is hot", "it is a group of one key"),
        ChangeMeasured(number, 0, 0.2, 0.1),
    ]


def heard(epochs: int, decided: set[int]) -> tuple[Event, ...]:
    event_log = EventLog()
    for number in range(epochs):
        for event in (*epoch(number), *(decisions(number) if number in decided else ())):
            event_log.record(event)
    return event_log.events


def test_decisions_are_kept_while_epochs_go_by() -> None:
    events = heard(5_000, {3, 4_000})
    assert [e for e in events if not isinstance(e, EpochCommitted | EpochTimed)] == [*decisions(3), *decisions(4_000)]
    assert events[-2:] == tuple(epoch(4_999))
    assert len(events) == 1_006


def test_events_are_in_order_of_time() -> None:
    events = heard(10, {2, 5})
    assert list(events) == [event for n in range(10) for event in (*epoch(n), *(decisions(n) if n in (2, 5) else ()))]


def test_there_is_a_bound_to_what_is_kept() -> None:
    assert len(heard(4_000, set(range(4_000)))) == 6_000

"""The incremental fold: sticky corruption, replaced logs, readers, compaction."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from schedule_sm.core.changes import Ended, Entry
from schedule_sm.core.errors import ScheduleLogError, ScheduleVersionError
from schedule_sm.core.event_log import AppendOnlyLog
from schedule_sm.core.presentation import schedule_reminder_presentation
from schedule_sm.core.projection import (
    Projection,
    allocate_schedule_id,
    fold_schedule_events,
)
from tests.core.logs import create, delete, dispatch, log


def synced(events: Any, seed_length: object = 0) -> Projection:
    projection = Projection(seed_length)
    projection.sync(events)
    return projection


def ids(projection: Projection) -> list[str]:
    return [entry.id for entry in projection]


def test_active_entries_stand_in_create_order() -> None:
    projection = synced(log(create("b"), "note", create("a"), create("c"), delete("a"), dispatch("c")))
    assert ids(projection) == ["b"]
    assert list(projection.folded().seen_ids) == ["b", "a", "c"]
    assert projection.folded() == fold_schedule_events(
        log(create("b"), create("a"), create("c"), delete("a"), dispatch("c"))
    )


@pytest.mark.parametrize(
    "entries",
    [
        [create("a"), create("a")],
        [create("a"), dispatch("a"), create("a")],
        [create("a"), delete("a"), dispatch("a")],
        [delete("nobody")],
        [create("a"), {"version": 1, "operation": "delete", "id": "a", "why": "x"}],
        [create("a"), None],
    ],
)
def test_corruption_is_reported_by_every_later_sync(entries: list[Any]) -> None:
    events = log(*entries)
    projection = Projection()
    for _ in range(3):
        with pytest.raises(ScheduleLogError) as caught:
            projection.sync(events)
        assert caught.value.seq == len(events) - 1
    events += log(create("later"))
    with pytest.raises(ScheduleLogError) as caught:
        projection.sync(events)
    assert caught.value.seq == len(entries) - 1
    assert not projection.is_used("later")


def test_sync_keeps_what_stands_before_the_corrupt_event_and_nothing_of_it() -> None:
    projection = Projection()
    with pytest.raises(ScheduleLogError):
        projection.sync(log(create("a"), create("b"), create("a"), create("c")))
    assert ids(projection) == ["a", "b"]


def test_mended_log_folds_again() -> None:
    events = log(create("a"), None)
    projection = Projection()
    with pytest.raises(ScheduleLogError):
        projection.sync(events)
    events[1]["data"] = delete("a")
    projection.sync(events)
    assert ids(projection) == []


def test_newer_version_keeps_its_class_and_gets_its_place() -> None:
    with pytest.raises(ScheduleVersionError) as caught:
        synced(log("x", {"version": 2}))
    assert caught.value.seq == 1


def test_event_without_data_is_corrupt() -> None:
    with pytest.raises(ScheduleLogError):
        synced([{"seq": 0, "type": "schedule/change", "time": 0}])


@pytest.mark.parametrize("seed_length", [-1, 3, 1.5, True, "1", None])
def test_seed_length_out_of_range_is_corruption_each_time(seed_length: object) -> None:
    projection = Projection(seed_length)
    for _ in range(2):
        with pytest.raises(ScheduleLogError, match="seed length"):
            projection.sync(log("a", "b"))


def test_fork_inherits_no_reminder() -> None:
    projection = synced(log(create("a"), None, "session/end-seed", create("a")), 3)
    assert ids(projection) == ["a"]


@pytest.mark.parametrize(
    "replacement",
    [
        log(create("a")),
        log(create("x"), create("y"), create("z")),
        [],
    ],
    ids=["shrunk", "replaced", "emptied"],
)
def test_shrunk_or_replaced_log_is_replayed(replacement: list[dict[str, Any]]) -> None:
    projection = synced(log(create("a"), create("b")))
    before = projection.generation
    projection.sync(replacement)
    assert projection.generation == before + 1
    assert projection.folded() == fold_schedule_events(replacement)


def test_log_replaced_by_a_corrupt_one_is_reported_each_time() -> None:
    projection = synced(log(create("a"), create("b")))
    for _ in range(2):
        with pytest.raises(ScheduleLogError) as caught:
            projection.sync(log(create("x"), None, create("z")))
        assert caught.value.seq == 1
    assert ids(projection) == ["x"]


def test_log_replaced_in_place_is_replayed() -> None:
    events = log(create("a"), create("b"))
    projection = synced(events)
    events[:] = log(create("x"), create("y"), create("z"))
    projection.sync(events)
    assert ids(projection) == ["x", "y", "z"]


def test_copied_log_is_a_continuation() -> None:
    events = log(create("a"), create("b"))
    projection = synced(events)
    projection.sync([*copy.deepcopy(events), *log(create("c"))])
    assert projection.generation == 0
    assert ids(projection) == ["a", "b", "c"]


def test_log_needs_no_slices() -> None:
    """Copying a log's head would cost all of it; some hosts' sequences do not even offer it."""
    events = log(create("a"), create("b"), dispatch("a"))
    projection = synced(deque(events))
    projection.sync(deque(copy.deepcopy(events)))
    assert (projection.generation, ids(projection)) == (0, ["b"])
    assert schedule_reminder_presentation(deque(events), 2) is not None


def test_earliest_skips_ended_ones_and_breaks_ties_in_create_order() -> None:
    events = log(create("late", at="2027-01-01T00:00:00.000Z"), create("a"), create("b"), delete("a"))
    projection = synced(events)
    earliest = projection.earliest()
    assert earliest is not None
    assert earliest.id == "b"
    projection.sync([*events, *log(delete("b"), delete("late"))])
    assert projection.earliest() is None


@pytest.mark.parametrize("is_in_pieces", [True, False])
def test_piece_by_piece_the_log_is_folded_and_what_stands_is_ranked(is_in_pieces: bool) -> None:
    creates = [create(f"r{n}", at=f"2026-08-05T12:00:{59 - n:02}.000Z") for n in range(25)]
    events = log(*creates, *(delete(f"r{n}") for n in range(15, 25)))
    projection = Projection()
    reached = []
    while is_in_pieces and (not reached or not reached[-1]):
        ranked = len(projection._targets)
        reached.append(projection.sync(events, most=10))
        assert len(projection._targets) - ranked <= 10
    assert reached == ([False] * 5 + [True] if is_in_pieces else [])
    earliest = synced(events).earliest()
    projection.sync(events)
    assert earliest is not None
    assert earliest.id == "r14"
    assert projection.earliest().id == "r14"  # type: ignore[union-attr]  # one stands
    assert len(projection._targets) == 15, "what has ended takes no place"


def test_heap_stays_small_while_reminders_come_and_go() -> None:
    events: list[dict[str, Any]] = []
    projection = Projection()
    for number in range(2_000):
        events += log(create(f"r{number}"), delete(f"r{number}"))
        projection.sync(events)
    assert len(projection._targets) <= 65


def test_compaction_keeps_the_order() -> None:
    entries = [create(f"r{n}", at=f"2026-08-05T12:00:00.{999 - n:03d}Z") for n in range(300)]
    projection = synced(log(*entries, *[delete(f"r{n}") for n in range(299, 50, -1)]))
    earliest = projection.earliest()
    assert earliest is not None
    assert earliest.id == "r50"


def test_ids_count_up_past_used_ones_and_are_never_reused() -> None:
    events = log(create("schedule-2"))
    projection = synced(events)
    assert projection.allocate_id() == allocate_schedule_id(projection.folded()) == "schedule-3"
    events += log(create("schedule-3"), delete("schedule-3"), create("schedule-4"), create("schedule-5"))
    projection.sync(events)
    assert projection.allocate_id() == allocate_schedule_id(projection.folded()) == "schedule-6"


def test_entry_gives_back_its_record() -> None:
    projection = synced(log(create("a", prompt="p", after_seconds=7)))
    (entry,) = projection
    assert entry.record == fold_schedule_events(log(create("a", prompt="p", after_seconds=7))).active[0]


def test_reader_starts_fresh_then_gets_every_change_once() -> None:
    events = log(create("a"))
    projection = synced(events)
    reader = projection.open_reader()
    assert reader.is_behind
    assert reader.take() is None
    events += log(create("b"), delete("a"), dispatch("b"))
    projection.sync(events)
    changes = reader.take()
    assert changes is not None
    created, *ended = changes
    assert isinstance(created, Entry)
    assert created.id == "b"
    assert ended == [Ended("delete", "a"), Ended("dispatch", "b")]
    assert reader.take() == []


def test_reader_sees_what_stood_before_a_corrupt_event() -> None:
    events = log(create("a"))
    projection = synced(events)
    reader = projection.open_reader()
    reader.take()
    with pytest.raises(ScheduleLogError):
        projection.sync([*events, *log(create("b"), None)])
    assert [change.id for change in reader.take() or ()] == ["b"]


def test_reader_starts_fresh_after_a_replaced_log() -> None:
    projection = synced(log(create("a"), create("b")))
    reader = projection.open_reader()
    reader.take()
    projection.sync(log(create("z")))
    assert reader.take() is None
    assert reader.take() == []


def test_changes_are_forgotten_once_every_reader_had_them() -> None:
    events = log(create("a"))
    projection = synced(events)
    slow, quick = projection.open_reader(), projection.open_reader()
    slow.take()
    quick.take()
    events += log(*[create(f"r{n}") for n in range(50)])
    projection.sync(events)
    assert len(quick.take() or ()) == 50
    assert (quick.take(), quick.is_behind) == ([], False)
    assert slow.is_behind
    assert len(slow.take() or ()) == 50
    assert (slow.take(), slow.is_behind) == ([], False)


def test_closed_reader_holds_nothing_back() -> None:
    events = log(create("a"))
    projection = synced(events)
    reader = projection.open_reader()
    reader.take()
    events += log(create("b"))
    projection.sync(events)
    reader.close()
    reader.close()
    assert len(reader.take() or ()) == 1
    events += log(create("c"))
    projection.sync(events)
    assert not reader.is_behind, "it is handed nothing more"


class FailingOnce(AppendOnlyLog):
    """A host's log whose data fails once, on the way through."""

    def __init__(self, events: list[dict[str, Any]], at: int) -> None:
        self._events = events
        self._at: int | None = at

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, position: Any) -> Any:
        return self._events[position]

    def seqs_of(self, type: str, start: int, end: int, most: int | None = None) -> list[int]:
        return list(range(start, end))[:most]

    def data_of(self, seqs: Sequence[int]) -> Iterator[Any]:
        for seq in seqs:
            if seq == self._at:
                self._at = None
                raise OSError("the disk failed")
            yield self._events[seq]["data"]


@pytest.mark.parametrize("at", range(5))
def test_what_was_folded_before_a_host_failed_is_not_folded_again(at: int) -> None:
    events = FailingOnce(log(*map(create, "abcde")), at)
    projection = Projection()
    with pytest.raises(OSError, match="disk"):
        projection.sync(events)
    assert ids(projection) == list("abcde"[:at])
    projection.sync(events)
    assert ids(projection) == list("abcde")


def test_reader_that_has_not_begun_keeps_nothing() -> None:
    events = log(create("a"))
    projection = synced(events)
    reader = projection.open_reader()
    events += log(create("b"))
    projection.sync(events)
    assert reader.is_behind
    assert reader.take() is None
    assert reader.take() == []

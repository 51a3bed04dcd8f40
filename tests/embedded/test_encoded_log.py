"""The log in memory: encoded, decoded when read, small."""

from __future__ import annotations

import json
import tracemalloc
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from schedule_sm.core.errors import ScheduleLogError, ScheduleVersionError
from schedule_sm.core.event_log import read_changes
from schedule_sm.core.projection import Projection
from schedule_sm.embedded.encoded_log import EncodedLog, encode_data
from schedule_sm.stores.errors import StoreIOError
from schedule_sm.stores.protocol import OpenedLog, StoredEvent
from tests.core.logs import create, delete


def test_events_come_back_fresh_and_whole() -> None:
    log = EncodedLog()
    data = {"text": "\ud800\0\u2028é", "list": [1, 2.5, None, True]}
    assert log.add("note", 5, encode_data(data)) == 0
    assert log.add("other", 6, "null") == 1
    assert len(log) == 2
    assert log[0] == {"seq": 0, "type": "note", "time": 5, "data": data}
    assert log[-1] == {"seq": 1, "type": "other", "time": 6, "data": None}
    assert log[:] == [log[0], log[1]]
    assert list(log) == log[:]
    log[0]["data"]["text"] = "changed"
    assert log[0]["data"] == data
    assert EncodedLog(log.stored())[:] == log[:]
    assert [event.seq for event in log.stored(1)] == [1]
    with pytest.raises(IndexError):
        log[2]
    assert json.loads(json.dumps(log[0])) == log[0]


@pytest.mark.parametrize("data", [float("nan"), {1, 2}, object(), {"x": b"y"}])
def test_what_json_cannot_hold_is_refused(data: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        encode_data(data)


def test_a_reminder_costs_less_than_a_thousand_bytes_log_and_index_together() -> None:
    log = EncodedLog()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        count = 5_000
        for n in range(count):
            schedule = {
                "id": f"schedule-{n + 1}",
                "kind": "after",
                "prompt": f"take the cake number {n} out of the oven",
                "afterSeconds": 600,
                "scheduledAt": "2030-01-01T00:10:00.000Z",
            }
            log.add(
                "schedule/change", n, encode_data({"version": 1, "operation": "create", "schedule": schedule})
            )
        projection = Projection()
        projection.sync(log)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / count <= 1_000


class Untouched(Sequence[StoredEvent]):
    """A stored log that tells which of its events were read, and can fail to be."""

    def __init__(self, events: Sequence[StoredEvent]) -> None:
        self._events = events
        self.touched: list[int] = []
        self.is_broken = False

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, position: Any) -> Any:
        if self.is_broken:
            raise StoreIOError("the file", "it is gone")
        self.touched.append(position)
        return self._events[position]


def stored_log(*types: str) -> tuple[Untouched, EncodedLog]:
    """A log of the four events note, change, other, change, of which ``types`` were read."""
    whole = EncodedLog()
    for type_, data in [
        ("note", {"n": 0}),
        ("schedule/change", create("schedule-1")),
        ("other", {"n": 2}),
        ("schedule/change", delete("schedule-1")),
    ]:
        whole.add(type_, 7, encode_data(data))
    head = Untouched(whole.stored())
    known = {}
    for type_ in types:
        found = [event for event in whole.stored() if event.type == type_]
        known[type_] = [event.seq for event in found], [event.body for event in found]
    return head, EncodedLog(OpenedLog(head, known))


def test_what_was_read_by_type_needs_no_other_event() -> None:
    head, log = stored_log("schedule/change", "turn/ended")
    log.add("schedule/change", 9, encode_data(create("schedule-2")))
    projection = Projection()
    projection.sync(log)
    assert [entry.id for entry in projection] == ["schedule-2"]
    assert list(log.seqs_of("schedule/change", 0, len(log))) == [1, 3, 4]
    assert list(log.seqs_of("schedule/change", 2, 4)) == [3]
    assert list(log.seqs_of("schedule/change", 0, len(log), 2)) == [1, 3]
    assert list(log.data_of([3, 4])) == [delete("schedule-1"), create("schedule-2")]
    assert list(log.seqs_of("turn/ended", 0, len(log))) == []
    assert head.touched == []


def test_columns_that_were_read_by_type_are_not_kept_beside_what_they_hold() -> None:
    class Bodies(list[str]):
        """A list that can be referred to weakly."""

    bodies = Bodies(["null"])
    kept = weakref.ref(bodies)
    log = EncodedLog(OpenedLog([StoredEvent(0, "note", 1, "null")], {"note": ([0], bodies)}))
    del bodies
    assert kept() is None
    assert log.data_at(0) is None


def test_other_events_are_read_when_they_are_touched() -> None:
    head, log = stored_log("schedule/change")
    log.add("note", 9, encode_data({"n": 4}))
    assert log[2] == {"seq": 2, "type": "other", "time": 7, "data": {"n": 2}}
    assert log[-5]["type"] == "note"
    assert head.touched == [2, 0]
    assert [event["seq"] for event in log] == [0, 1, 2, 3, 4]
    for outside in (5, -6):
        with pytest.raises(IndexError):
            log[outside]
    assert list(log.seqs_of("note", 0, 5)) == [
        0,
        4,
    ]  # a type that was not asked for is looked for in all of it
    assert list(log.seqs_of("schedule/change", 0, 5)) == [1, 3]
    assert EncodedLog(log.stored())[:] == log[:]


def test_event_that_cannot_be_read_any_more_is_an_error_and_the_rest_goes_on() -> None:
    head, log = stored_log("schedule/change")
    head.is_broken = True
    with pytest.raises(StoreIOError):
        log[0]
    projection = Projection()
    projection.sync(log)
    assert projection.is_used("schedule-1")


def test_head_that_cannot_be_read_to_its_end_is_indexed_the_next_time() -> None:
    head, log = stored_log("schedule/change")
    log.add("other", 9, "null")
    log.add("schedule/change", 9, encode_data(create("schedule-2")))
    head.is_broken = True
    with pytest.raises(StoreIOError):
        log.seqs_of("other", 0, len(log))
    assert list(log.seqs_of("schedule/change", 0, len(log))) == [1, 3, 5]
    head.is_broken = False
    assert list(log.seqs_of("other", 0, len(log))) == [2, 4]
    assert list(log.seqs_of("schedule/change", 0, len(log))) == [1, 3, 5]
    head.touched.clear()
    assert list(log.seqs_of("of no event", 0, len(log))) == []
    assert head.touched == []


def test_changes_are_read_without_the_rest_of_the_head() -> None:
    head, log = stored_log("schedule/change")
    assert [change.id for change in read_changes(log, 0)] == ["schedule-1", "schedule-1"]
    assert head.touched == []


def test_what_stands_before_an_event_that_is_no_json_is_folded() -> None:
    log = EncodedLog()
    for body in (encode_data(create("schedule-1")), encode_data(create("schedule-2")), '{"version', "1"):
        log.add("schedule/change", 1, body)
    projection = Projection()
    for _ in range(2):
        with pytest.raises(ScheduleLogError, match="at event 2: its data is no JSON"):
            projection.sync(log)
        assert list(projection.active) == ["schedule-1", "schedule-2"]
    for read in (log.__getitem__, log.data_at):
        with pytest.raises(ScheduleLogError, match="at event 2"):
            read(2)


def test_log_in_place_of_another_is_folded_anew() -> None:
    projection = Projection()
    logs = EncodedLog(), EncodedLog()
    for log, id_ in zip(logs, ("schedule-1", "schedule-7"), strict=True):
        log.add("schedule/change", 1, encode_data(create(id_)))
        projection.sync(log)
        assert list(projection.active) == [id_]
    projection.sync(EncodedLog(logs[1].stored()))  # a copy is the same log
    assert (projection.generation, list(projection.active)) == (1, ["schedule-7"])


def test_bodies_are_what_the_standard_library_reads() -> None:
    log = EncodedLog()
    bodies = ['"\\ud800"', "1", '{"a":' * 300 + "1" + "}" * 300, "[]", "NaN", "12345678901234567890123456789"]
    for body in bodies:
        log.add("note", 1, body)
    assert repr(list(log.data_of(range(len(bodies))))) == repr([json.loads(body) for body in bodies])


def text_of(data: object) -> str:
    """JSON as another program may write it: non-ASCII, half characters too, as it is."""
    return json.dumps(data, ensure_ascii=False)


@pytest.mark.parametrize(
    ("bodies", "first"),
    [
        (["1,2", "3"], 0),
        (
            [
                f"{text_of(create('a'))},{text_of(create('b'))}",
                '{"version":1,"operation":"delete"',
                '"id":"a"}',
            ],
            0,
        ),
        (["1],[2", "[3", "4]"], 0),
        ([text_of(create("a")), "", text_of(create("b"))], 1),
        ([text_of(create("\ud800")), text_of(create("b")), "{}}"], 2),
    ],
)
def test_bodies_that_are_json_only_together_are_none(bodies: list[str], first: int) -> None:
    log = EncodedLog()
    for body in bodies:
        log.add("schedule/change", 1, body)
    reason = f"at event {first}: its data is no JSON"
    with pytest.raises(ScheduleLogError, match=reason):
        list(log.data_of(range(len(log))))
    projection = Projection()
    for _ in range(2):
        with pytest.raises(ScheduleLogError, match=reason if first else "corrupt at event 0"):
            fold_whole(projection, log, None)
        assert len(projection.active) == first


def test_half_a_character_as_it_is_harms_no_change_beside_it() -> None:
    log = EncodedLog()
    for id_, prompt in (("a", "\ud800"), ("b", "tea"), ("c", "x\udc00é")):
        data = create(id_)
        data["schedule"]["prompt"] = prompt
        log.add("schedule/change", 1, text_of(data))
    projection = Projection()
    projection.sync(log)
    assert [entry.prompt for entry in projection] == ["\ud800", "tea", "x\udc00é"]
    assert log[0]["data"]["schedule"]["prompt"] == "\ud800"


def fold_whole(projection: Projection, log: EncodedLog, most: int | None) -> None:
    while not projection.sync(log, most=most):
        pass


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (create("schedule-2", after_seconds=0), ScheduleLogError, "afterSeconds"),
        ({**delete("schedule-1"), "version": 2}, ScheduleVersionError, "upgrade"),
        (delete("schedule-9"), ScheduleLogError, "not active"),
        (create("schedule-1"), ScheduleLogError, "a second time"),
    ],
)
@pytest.mark.parametrize("before", [1, 3])
@pytest.mark.parametrize("most", [None, 2])
def test_a_change_that_cannot_be_folded_is_reported_where_it_stands_each_time(
    data: dict[str, Any], kind: type[ScheduleLogError], reason: str, before: int, most: int | None
) -> None:
    log = EncodedLog()
    for id_ in ("schedule-1", "schedule-10", "schedule-11")[:before]:
        log.add("schedule/change", 1, encode_data(create(id_)))
    log.add("schedule/change", 1, encode_data(data))
    log.add("schedule/change", 1, encode_data(create("schedule-20")))
    projection = Projection()
    for _ in range(3):
        with pytest.raises(kind, match=reason) as refused:
            fold_whole(projection, log, most)
        assert (type(refused.value), refused.value.seq) == (kind, before)
        assert len(projection.active) == before

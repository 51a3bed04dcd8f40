"""The log in memory: encoded, decoded when read, small."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from schedule_sm.core.projection import Projection
from schedule_sm.embedded.encoded_log import EncodedLog, encode_data


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

"""Strict decoding, positions and ownership segments."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from schedule_sm.core.errors import ScheduleLogError, ScheduleVersionError
from schedule_sm.core.event_log import (
    check_position,
    create_data,
    end_data,
    event_type,
    read_change,
    segment_start,
)
from schedule_sm.core.records import CreateChange, create_after_record, decode_schedule_change
from tests.core.logs import create, delete, dispatch, log


def test_written_data_is_canonical_and_decodes() -> None:
    record = create_after_record("schedule-1", "tea", 30, 0)
    data = create_data(record)
    change = decode_schedule_change(data)
    assert isinstance(change, CreateChange)
    assert change.schedule == record
    assert repr(change.model_dump(mode="json", by_alias=True)) == repr(data)
    assert end_data("delete", "schedule-1") == delete("schedule-1")
    assert end_data("dispatch", "schedule-1") == dispatch("schedule-1")


@pytest.mark.parametrize("version", [2, 2.0, 10**30, pytest.param(10**5_000, id="long")])
def test_later_version_is_told_apart_before_anything_else(version: object) -> None:
    with pytest.raises(ScheduleVersionError, match="newer release"):
        read_change({"version": version, "anything": "else"})


@pytest.mark.parametrize("version", [0, -1, 1.5, True, "2", None, [2]])
def test_other_versions_are_plain_corruption(version: object) -> None:
    with pytest.raises(ScheduleLogError) as caught:
        read_change({**delete("x"), "version": version})
    assert type(caught.value) is ScheduleLogError


def _without(key: str) -> dict[str, Any]:
    data = create("x")
    del data["schedule"][key]
    return data


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "x",
        {},
        {"version": 1},
        {"version": 1, "operation": "update", "id": "x"},
        {"version": 1, "operation": ["create"], "id": "x"},
        {**delete("x"), "extra": 1},
        {"version": 1, "operation": "delete"},
        {"version": 1, "operation": "create", "id": "x"},
        {**create("x"), "schedule": []},
        delete(""),
        delete(" x"),
        create("x", prompt=""),
        create("x", prompt="x\ufeff"),
        create("x", after_seconds=True),
        create("x", after_seconds="30"),
        create("x", at="2026-02-30T00:00:00.000Z"),
        create("x", at=5),  # type: ignore[arg-type]
        {**create("x"), "schedule": {**create("x")["schedule"], "kind": "at"}},
        {**create("x"), "schedule": {**create("x")["schedule"], "kind": ["after"]}},
        *[_without(key) for key in ("id", "kind", "prompt", "afterSeconds", "scheduledAt")],
    ],
)
def test_anything_but_the_three_changes_is_refused(data: object) -> None:
    with pytest.raises(ScheduleLogError):
        read_change(data)


def test_read_only_mappings_and_whole_floats_are_taken() -> None:
    change = read_change(MappingProxyType({**create("x", after_seconds=30.0), "version": 1.0}))
    assert change.after_seconds == 30
    assert type(change.after_seconds) is int


@pytest.mark.parametrize("value", [-1, 4, 1.5, True, "0", None])
def test_position_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(ScheduleLogError, match="from 0 to 3"):
        check_position(value, 3, what="seed length")


def test_segment_of_an_inherited_event_starts_after_the_nearest_marker() -> None:
    events = log("x", "session/end-seed", "x", "session/end-seed", "x")
    assert [segment_start(events, seq, 4) for seq in range(5)] == [0, 0, 2, 2, 4]


@pytest.mark.parametrize("event", [None, "schedule/change", ["type"], 7])
def test_what_is_no_event_at_all_is_refused(event: object) -> None:
    with pytest.raises(ScheduleLogError, match="must be an object"):
        event_type(event)

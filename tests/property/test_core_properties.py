"""Properties of the core over random logs and random text, surrogates and corruption included."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from schedule_sm.core.ecmascript import join_surrogate_pairs, stringify, trim
from schedule_sm.core.errors import ScheduleError, ScheduleLogError
from schedule_sm.core.event_log import create_data, read_change
from schedule_sm.core.framing import render_reminder_framing
from schedule_sm.core.instants import MAX_INSTANT_MS, MIN_INSTANT_MS, format_instant, parse_instant
from schedule_sm.core.projection import (
    FoldedSchedules,
    Projection,
    allocate_schedule_id,
    fold_schedule_events,
)
from schedule_sm.core.records import SCHEDULE_CHANGE_ADAPTER, create_after_record, decode_schedule_change

# every code point, lone surrogates too, and often the characters that matter
TEXT = st.text(
    st.one_of(st.characters(codec=None), st.sampled_from(' \t\x1c\x85\ufeff\u2028\ud800\udc00\x00"\\\n'))
)
INSTANTS = st.integers(MIN_INSTANT_MS, MAX_INSTANT_MS).map(format_instant)
IDS = st.sampled_from(["a", "b", "c", "schedule-1", "schedule-2", "schedule-4"])
# few targets, so that ties happen
CREATES = st.builds(
    lambda id_, prompt, second: {
        "version": 1,
        "operation": "create",
        "schedule": {
            "id": id_,
            "kind": "after",
            "prompt": prompt,
            "afterSeconds": 30,
            "scheduledAt": f"2026-01-01T00:00:0{second}.000Z",
        },
    },
    IDS,
    st.sampled_from(["tea", "\ud800", "é"]),
    st.integers(0, 3),
)
ENDS = st.builds(
    lambda operation, id_: {"version": 1, "operation": operation, "id": id_},
    st.sampled_from(["delete", "dispatch"]),
    IDS,
)
JUNK = st.sampled_from([None, {}, {"version": 2}, {"version": 1, "operation": "delete", "id": " "}])
EVENTS = st.one_of(
    st.tuples(st.just("schedule/change"), st.one_of(CREATES, CREATES, ENDS)),
    st.tuples(st.just("turn/start"), st.just({})),
)
CORRUPTIBLE = st.one_of(EVENTS, EVENTS, EVENTS, st.tuples(st.just("schedule/change"), JUNK))


def as_log(entries: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"seq": seq, "type": kind, "time": 0, "data": data} for seq, (kind, data) in enumerate(entries)]


def valid_only(entries: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Drop the changes that a fold would refuse."""
    kept: list[tuple[str, Any]] = []
    for entry in entries:
        try:
            fold_schedule_events(as_log([*kept, entry]))
        except ScheduleLogError:
            continue
        kept.append(entry)
    return kept


def naive_fold(events: list[dict[str, Any]], seed_length: int) -> FoldedSchedules | int:
    """The fold in the plainest words: what is active and seen, or the seq of the first corrupt event."""
    active: dict[str, Any] = {}
    seen: list[str] = []
    for event in events[seed_length:]:
        if event["type"] != "schedule/change":
            continue
        try:
            change = decode_schedule_change(event["data"])
        except ScheduleLogError:
            return int(event["seq"])
        if change.operation == "create":
            if change.schedule.id in seen:
                return int(event["seq"])
            seen.append(change.schedule.id)
            active[change.schedule.id] = change.schedule
        elif active.pop(change.id, None) is None:
            return int(event["seq"])
    return FoldedSchedules(tuple(active.values()), tuple(seen))


def outcome(call: Any) -> FoldedSchedules | int | None:
    try:
        folded: FoldedSchedules = call()
    except ScheduleLogError as error:
        return error.seq
    return folded


@given(st.lists(CORRUPTIBLE, max_size=30), st.data())
def test_projection_synced_in_chunks_equals_a_replay_from_scratch(
    entries: list[tuple[str, Any]], data: st.DataObject
) -> None:
    events = as_log(entries)
    seed_length = data.draw(st.integers(0, len(events)))
    cuts = sorted(data.draw(st.sets(st.integers(seed_length, len(events)), max_size=6)) | {len(events)})
    projection = Projection(seed_length)
    growing: list[dict[str, Any]] = []

    def sync() -> FoldedSchedules:
        projection.sync(growing)
        return projection.folded()

    def replay() -> FoldedSchedules:
        return fold_schedule_events(growing, seed_length)

    for cut in cuts:
        growing.extend(events[len(growing) : cut])
        expected = naive_fold(growing, seed_length)
        assert outcome(sync) == outcome(replay) == expected
        assert outcome(sync) == expected, "sticky"
        if isinstance(expected, FoldedSchedules):
            assert projection.allocate_id() == allocate_schedule_id(expected)
            first = min(expected.active, key=lambda record: record.target_ms, default=None)
            earliest = projection.earliest()
            assert (earliest and earliest.record) == first
    assert projection.generation == 0


@given(st.lists(EVENTS, max_size=20).map(valid_only), st.lists(EVENTS, max_size=20).map(valid_only))
def test_projection_follows_a_replaced_log(
    first: list[tuple[str, Any]], second: list[tuple[str, Any]]
) -> None:
    projection = Projection()
    projection.sync(as_log(first))
    projection.sync(as_log(second))
    assert projection.folded() == fold_schedule_events(as_log(second))


@given(st.lists(EVENTS, max_size=30).map(valid_only), st.data())
def test_reader_is_handed_every_change_once_and_in_order(
    entries: list[tuple[str, Any]], data: st.DataObject
) -> None:
    events = as_log(entries)
    projection = Projection()
    reader = projection.open_reader()
    assert reader.take() is None
    growing: list[dict[str, Any]] = []
    got: list[str] = []
    for event in events:
        growing.append(event)
        projection.sync(growing)
        if data.draw(st.booleans()):
            got += [change.id for change in reader.take() or ()]
    got += [change.id for change in reader.take() or ()]
    changes = [read_change(event["data"]) for event in events if event["type"] == "schedule/change"]
    assert got == [change.id for change in changes]


@given(TEXT, st.integers(1, 10**9), st.integers(0, 10**13))
@example("\ud83d\ude00", 1, 0)
def test_decode_of_a_dump_gives_the_change_back(prompt: str, seconds: int, now_ms: int) -> None:
    try:
        record = create_after_record("schedule-1", prompt, seconds, now_ms)
    except ScheduleError:
        return
    data = create_data(record)
    change = decode_schedule_change(data)
    assert change.model_dump(mode="json", by_alias=True) == data
    assert decode_schedule_change(json.loads(stringify(data))) == change
    assert decode_schedule_change(json.loads(json.dumps(data))) == change
    assert SCHEDULE_CHANGE_ADAPTER.validate_python(data) == change


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 40),
    st.floats(),
    TEXT,
    st.sampled_from([1, 1.0, 30.0, "after", "x"]),
)


@given(CREATES | ENDS, st.data())
def test_decoder_and_pydantic_give_the_same_verdict(data: dict[str, Any], draw: st.DataObject) -> None:
    data = copy.deepcopy(data)
    holder = data.get("schedule", data) if draw.draw(st.booleans()) else data
    match draw.draw(st.sampled_from(["keep", "change", "drop", "add"])):
        case "change":
            holder[draw.draw(st.sampled_from(sorted(holder)))] = draw.draw(
                SCALARS | st.lists(SCALARS, max_size=1)
            )
        case "drop":
            del holder[draw.draw(st.sampled_from(sorted(holder)))]
        case "add":
            holder[draw.draw(TEXT)] = draw.draw(SCALARS)
    try:
        ours: object = decode_schedule_change(data)
    except ScheduleLogError:
        ours = None
    try:
        theirs: object = SCHEDULE_CHANGE_ADAPTER.validate_python(data)
    except ValidationError:
        theirs = None
    assert ours == theirs


@given(TEXT, TEXT, INSTANTS)
@example("\u2028\n\r", '"\\', "2026-01-01T00:00:00.000Z")
def test_framing_is_five_lines_whose_values_parse_back(id_: str, prompt: str, at: str) -> None:
    text = render_reminder_framing(id_, at, prompt)
    text.encode("utf-8")
    opening, _, *lines = text.split("\n")
    assert opening == "[SCHEDULE REMINDER]"
    values = dict(line.split(": ", 1) for line in lines)
    assert list(values) == ["schedule_id_json", "occurrence_at", "reminder_prompt_json"]
    assert json.loads(values["schedule_id_json"]) == join_surrogate_pairs(id_)
    assert values["occurrence_at"] == at
    assert json.loads(values["reminder_prompt_json"]) == join_surrogate_pairs(prompt)


@given(st.integers(MIN_INSTANT_MS, MAX_INSTANT_MS))
def test_instants_round_trip_and_sort_as_text(ms: int) -> None:
    assert parse_instant(format_instant(ms)) == ms
    if ms < MAX_INSTANT_MS:
        assert format_instant(ms) < format_instant(ms + 1)


@given(TEXT)
def test_trim_is_idempotent_and_removes_ends_only(text: str) -> None:
    assert trim(trim(text)) == trim(text)
    assert trim(text) in text

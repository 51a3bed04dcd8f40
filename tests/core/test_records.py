"""Models: strict, frozen, canonical order."""

from __future__ import annotations

import pydantic
import pytest

from schedule_sm.core.errors import ScheduleInputError
from schedule_sm.core.instants import MAX_INSTANT_MS, MAX_SAFE_INTEGER, MIN_INSTANT_MS
from schedule_sm.core.records import SCHEDULE_CHANGE_ADAPTER, AfterRecord, create_after_record, schedule_view
from tests.core.logs import INSTANT, INSTANT_MS, create


def test_record_dumps_in_canonical_order() -> None:
    record = create_after_record("schedule-1", " tea\ufeff", 30.0, INSTANT_MS)
    assert list(record.model_dump(mode="json", by_alias=True).items()) == [
        ("id", "schedule-1"),
        ("kind", "after"),
        ("prompt", "tea"),
        ("afterSeconds", 30),
        ("scheduledAt", "2026-08-05T12:00:30.000Z"),
    ]


def test_record_is_frozen() -> None:
    record = create_after_record("schedule-1", "tea", 30, INSTANT_MS)
    with pytest.raises(pydantic.ValidationError):
        record.prompt = "coffee"  # type: ignore[misc]


def test_lone_surrogate_and_nul_survive_a_record() -> None:
    record = create_after_record("schedule-1", "a\ud800\x00b", 30, 0)
    assert record.prompt == "a\ud800\x00b"
    assert AfterRecord.model_validate(record.model_dump(by_alias=True)) == record


def test_halves_of_a_pair_are_joined() -> None:
    assert create_after_record("schedule-1", "\ud83d\ude00", 30, 0).prompt == "😀"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("schedule-1", "\ufeff ", 30, 0), "invalid_prompt"),
        (("schedule-1", None, True, 0), "invalid_prompt"),
        (("schedule-1", "x", True, 0), "invalid_rule"),
        (("schedule-1", "x", 0, 0), "invalid_rule"),
        (("schedule-1", "x", 1.5, 0), "invalid_rule"),
        (("schedule-1", "x", MAX_SAFE_INTEGER + 1, 0), "invalid_rule"),
        ((" schedule-1", "x", 1, 0), "invalid_rule"),
        (("schedule-1", "x", MAX_SAFE_INTEGER, 0), "time_out_of_range"),
        (("schedule-1", "x", 1, MAX_INSTANT_MS), "time_out_of_range"),
        (("schedule-1", "x", 1, MIN_INSTANT_MS - 1001), "time_out_of_range"),
        (("schedule-1", "x", 1, float("nan")), "time_out_of_range"),
        (("schedule-1", "x", 1, None), "time_out_of_range"),
    ],
)
def test_create_refuses_with_the_first_code_that_applies(
    arguments: tuple[str, object, object, object], code: str
) -> None:
    with pytest.raises(ScheduleInputError) as caught:
        create_after_record(*arguments)
    assert caught.value.code == code


def test_create_takes_the_last_instant_of_year_9999() -> None:
    assert create_after_record("a", "x", 1, MAX_INSTANT_MS - 1000).target_ms == MAX_INSTANT_MS


@pytest.mark.parametrize(("offset", "state"), [(-1, "scheduled"), (0, "overdue"), (1, "overdue")])
def test_view_is_overdue_from_the_target_on(offset: int, state: str) -> None:
    record = create_after_record("schedule-1", "tea", 30, INSTANT_MS)
    view = schedule_view(record, record.target_ms + offset)
    assert view.state == state
    assert list(view.model_dump(mode="json", by_alias=True)) == [
        "id", "kind", "prompt", "afterSeconds", "scheduledAt", "state", "deliveryMode",
    ]  # fmt: skip


def test_validation_errors_never_show_a_prompt() -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        SCHEDULE_CHANGE_ADAPTER.validate_python(create("x", prompt=" secret ", at="now"))
    assert "secret" not in str(caught.value)


def test_json_schema_tells_units_and_limits() -> None:
    schema = SCHEDULE_CHANGE_ADAPTER.json_schema()
    fields = schema["$defs"]["AfterRecord"]["properties"]
    assert fields["afterSeconds"]["maximum"] == MAX_SAFE_INTEGER
    assert "seconds" in fields["afterSeconds"]["description"]
    assert schema["discriminator"]["propertyName"] == "operation"


@pytest.mark.parametrize("name", ["scheduled_at", "after_seconds"])
def test_only_canonical_names_are_read(name: str) -> None:
    data = create_after_record("a", "x", 1, 0).model_dump()
    assert name in data
    with pytest.raises(pydantic.ValidationError):
        AfterRecord.model_validate({**data, "scheduledAt": INSTANT})

"""The core against the reference implementation: every vector its own test, result and refusal."""

from __future__ import annotations

from typing import Any

import pytest

import schedule_sm
from schedule_sm.core.records import AfterRecord
from tests.conformance.vectors import as_plain, vectors

CLOSED = {"invalid_prompt", "invalid_rule", "time_out_of_range"}


def _event(seq: int, data: dict[str, Any]) -> dict[str, Any]:
    return {"seq": seq, "type": "schedule/change", "time": 0, "data": data}


def _refused(call: Any) -> str | None:
    """The code of what ``call`` raises; ``None`` if it returns."""
    try:
        call()
    except schedule_sm.ScheduleError as error:
        return error.code
    return None


@pytest.mark.parametrize("vector", vectors("decode"))
def test_decode(vector: dict[str, Any]) -> None:
    data, expect = vector["input"]["data"], vector["expect"]
    if expect["ok"]:
        got = as_plain(schedule_sm.decode_schedule_change(data))
        assert got == expect["value"]
        assert repr(got) == repr(expect["value"]), "key order and number types"
    else:
        assert _refused(lambda: schedule_sm.decode_schedule_change(data)) == expect["error"]


@pytest.mark.parametrize("vector", vectors("fold"))
def test_fold(vector: dict[str, Any]) -> None:
    given, expect = vector["input"], vector["expect"]
    arguments = [given["events"], *([given["seed_length"]] if "seed_length" in given else [])]
    if not expect["ok"]:
        assert _refused(lambda: schedule_sm.fold_schedule_events(*arguments)) == expect["error"]
        return
    folded = schedule_sm.fold_schedule_events(*arguments)
    assert [as_plain(record) for record in folded.active] == expect["active"]
    assert list(folded.seen_ids) == expect["seen_ids"]
    assert schedule_sm.allocate_schedule_id(folded) == expect["next_id"]


@pytest.mark.parametrize("vector", vectors("allocate"))
def test_allocate(vector: dict[str, Any]) -> None:
    record = {"kind": "after", "prompt": "x", "afterSeconds": 1, "scheduledAt": "2026-01-01T00:00:00.000Z"}
    changes: list[dict[str, Any]] = [
        {"version": 1, "operation": "create", "schedule": {"id": id_, **record}}
        for id_ in vector["input"]["created_ids"]
    ]
    changes += [{"version": 1, "operation": "dispatch", "id": id_} for id_ in vector["input"]["ended_ids"]]
    folded = schedule_sm.fold_schedule_events([_event(seq, data) for seq, data in enumerate(changes)])
    assert schedule_sm.allocate_schedule_id(folded) == vector["expect"]["id"]


@pytest.mark.parametrize("vector", vectors("create"))
def test_create(vector: dict[str, Any]) -> None:
    given, expect = vector["input"], vector["expect"]

    def create() -> AfterRecord:
        return schedule_sm.create_after_record(
            given["id"], given["prompt"], given["after_seconds"], given["now_ms"]
        )

    if expect["ok"]:
        got = as_plain(create())
        assert got == expect["record"]
        assert repr(got) == repr(expect["record"])
    elif expect["error"] in CLOSED:
        assert _refused(create) == expect["error"]
    else:
        assert _refused(create) is not None


@pytest.mark.parametrize("vector", vectors("view"))
def test_view(vector: dict[str, Any]) -> None:
    record = AfterRecord.model_validate(vector["input"]["record"])
    got = as_plain(schedule_sm.schedule_view(record, vector["input"]["now_ms"]))
    assert got == vector["expect"]["value"]
    assert list(got) == list(vector["expect"]["value"])


@pytest.mark.parametrize("vector", vectors("framing"))
def test_framing(vector: dict[str, Any]) -> None:
    given = vector["input"]
    text = schedule_sm.render_reminder_framing(given["id"], given["occurrence_at"], given["prompt"])
    assert text == vector["expect"]["text"]
    text.encode("utf-8")


@pytest.mark.parametrize("vector", vectors("presentation"))
def test_presentation(vector: dict[str, Any]) -> None:
    given, expect = vector["input"], vector["expect"]
    arguments = [given["events"], given["dispatch_seq"]]
    arguments += [given["seed_length"]] if "seed_length" in given else []
    if not expect["ok"]:
        assert _refused(lambda: schedule_sm.schedule_reminder_presentation(*arguments)) == expect["error"]
        return
    receipt = schedule_sm.schedule_reminder_presentation(*arguments)
    assert (None if receipt is None else as_plain(receipt)) == expect["value"]

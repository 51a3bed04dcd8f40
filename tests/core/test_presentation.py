"""Receipts of dispatches, in forks too."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from schedule_sm.core.errors import ScheduleLogError, ScheduleVersionError
from schedule_sm.core.presentation import ReminderReceipts, schedule_reminder_presentation
from tests.core.logs import INSTANT, create, delete, dispatch, log


def test_receipt_has_the_record_s_instant() -> None:
    receipt = schedule_reminder_presentation(log(create("a"), dispatch("a")), 1)
    assert receipt is not None
    assert receipt.model_dump(mode="json", by_alias=True) == {
        "scheduleId": "a",
        "prompt": "tea",
        "occurrenceAt": INSTANT,
        "deliveryMode": "session-local",
    }


@pytest.mark.parametrize("seq", [0, 1, 2])
def test_other_events_have_no_receipt(seq: int) -> None:
    assert schedule_reminder_presentation(log("turn/start", create("a"), delete("a")), seq) is None


def test_nested_forks_may_reuse_ids() -> None:
    events = log(
        create("a", prompt="grandparent"), dispatch("a"), "session/end-seed",
        create("a", prompt="parent"), dispatch("a"), "session/end-seed",
        create("a", prompt="child"), dispatch("a"),
    )  # fmt: skip
    prompts = [schedule_reminder_presentation(events, seq, 6) for seq in (1, 4, 7)]
    assert [receipt.prompt for receipt in prompts if receipt] == ["grandparent", "parent", "child"]


def test_receipts_asked_for_in_any_order_are_those_asked_for_alone() -> None:
    events = log(
        create("a", prompt="grandparent"), dispatch("a"), create("b"), "session/end-seed",
        create("b", prompt="parent"), create("a"), dispatch("b"), "x", dispatch("a"), "session/end-seed",
        create("b", prompt="child"), delete("b"), create("a"), dispatch("a"),
    )  # fmt: skip
    alone = [schedule_reminder_presentation(events, seq, 10) for seq in range(len(events))]
    assert sum(receipt is not None for receipt in alone) == 4
    for seed in range(20):
        order = [*range(len(events))] * 3
        Random(seed).shuffle(order)
        receipts = ReminderReceipts(events, 10)
        assert [receipts.at(seq) for seq in order] == [alone[seq] for seq in order]


def test_receipts_of_a_log_in_order_read_each_event_once() -> None:
    class Counted(list[dict[str, Any]]):
        reads = 0

        def __getitem__(self, position: Any) -> Any:
            self.reads += 1
            return super().__getitem__(position)

    events = Counted(log(*(change(f"s{n}") for n in range(300) for change in (create, dispatch))))
    receipts = ReminderReceipts(events)
    for seq in range(len(events)):
        assert (receipts.at(seq) is None) == (seq % 2 == 0)
    assert events.reads < 8 * len(events)


def test_receipts_of_a_log_follow_it_as_it_grows_and_refuse_what_is_corrupt_each_time() -> None:
    events = log(create("a"), dispatch("a"))
    receipts = ReminderReceipts(events)
    assert receipts.at(1) is not None
    events += log(create("a"), dispatch("a"))
    events[2]["seq"], events[3]["seq"] = 2, 3
    for _ in range(2):
        with pytest.raises(ScheduleLogError, match="second time"):
            receipts.at(3)
    assert receipts.at(1) is not None


@pytest.mark.parametrize("seq", [-1, 2, 1.5, True, None])
def test_seq_out_of_range_is_refused(seq: object) -> None:
    with pytest.raises(ScheduleLogError):
        schedule_reminder_presentation(log(create("a"), dispatch("a")), seq)


def test_event_that_does_not_stand_at_its_seq_is_refused() -> None:
    events = log(create("a"), dispatch("a"))
    events[1]["seq"] = 7
    with pytest.raises(ScheduleLogError, match="its own seq is 7"):
        schedule_reminder_presentation(events, 1)


def test_unpaired_dispatch_is_refused() -> None:
    with pytest.raises(ScheduleLogError, match="not active") as caught:
        schedule_reminder_presentation(log(create("a"), dispatch("a"), "x", dispatch("a")), 1, 1)
    assert caught.value.seq == 1 or caught.value.seq is not None


def test_selected_event_of_a_later_version_is_told_with_its_place() -> None:
    with pytest.raises(ScheduleVersionError) as caught:
        schedule_reminder_presentation(log({"version": 2}), 0)
    assert caught.value.seq == 0

"""Cursors: legal and illegal steps, what a step leaves behind, observers."""

from __future__ import annotations

import logging

import pytest

from schedule_sm.core.cursor import DELIVERY, OWNER, Cursor, Observers, observe_transitions, tables
from schedule_sm.core.errors import IllegalStepError

pytestmark = pytest.mark.no_chart_cov  # these tests step a chart directly


def cursor(observers: Observers | None = None) -> Cursor:
    return Cursor(DELIVERY, "schedule-1", 10, observers or Observers())


def test_step_moves_and_keeps_the_time() -> None:
    it = cursor()
    assert (it.state, it.since_ms, it.last, it.is_final) == ("armed", 10, None, False)
    edge = it.step("due", 20)
    assert (edge.source, edge.target) == ("armed", "overdue")
    assert (it.state, it.since_ms, it.last) == ("overdue", 20, None)


def test_illegal_step_raises_and_changes_nothing() -> None:
    seen: list[str] = []
    observers = Observers()
    observers.add(lambda *step: seen.append(step[3]))
    it = cursor(observers)
    assert not it.can("enqueued")
    for event in ("enqueued", "no_such_event"):
        with pytest.raises(IllegalStepError, match="schedule-1"):
            it.step(event, 20)
    assert (it.state, it.since_ms, seen) == ("armed", 10, [])


def test_final_state_takes_no_event() -> None:
    it = cursor()
    it.step("delete", 20)
    assert it.is_final
    assert not any(it.can(event) for event in DELIVERY.events)


def test_self_loop_keeps_since_and_is_the_last_retry() -> None:
    it = cursor()
    for now_ms, event in enumerate(("due", "checkpoint", "confirmed", "refused"), 20):
        assert it.can(event)
        it.step(event, now_ms)
    assert it.since_ms == 22
    assert it.last is not None
    assert it.last.event == "refused"


def test_management_edge_is_not_the_last_trouble() -> None:
    it = cursor()
    it.step("delete", 20)
    assert it.last is None


def test_observers_see_every_step_of_their_cursors_and_parents_too() -> None:
    mine: list[tuple[str, ...]] = []
    parents: list[tuple[str, ...]] = []
    parent = Observers()
    parent.add(lambda *step: parents.append(step))
    observers = Observers(parent)
    dispose = observers.add(lambda *step: mine.append(step))
    it = cursor(observers)
    it.step("due", 20)
    dispose()
    dispose()
    it.step("checkpoint", 21)
    assert mine == [("DeliveryChart", "schedule-1", "armed", "due", "overdue")]
    assert [step[3] for step in parents] == ["due", "checkpoint"]


def test_disposer_called_twice_leaves_another_registration_of_the_same_observer() -> None:
    seen: list[str] = []
    observers = Observers()

    def observer(*step: str) -> None:
        seen.append(step[3])

    first, _ = observers.add(observer), observers.add(observer)
    first()
    first()
    cursor(observers).step("due", 20)
    assert seen == ["due"]


def test_observer_that_raises_is_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    def broken(*_step: str) -> None:
        raise RuntimeError("observer")

    observers = Observers()
    observers.add(broken)
    observers.add(lambda *step: seen.append(step[3]))
    with caplog.at_level(logging.ERROR):
        cursor(observers).step("due", 20)
    assert seen == ["due"]
    (record,) = caplog.records
    assert record.exc_info is not None


def test_observing_all_steps_needs_the_common_parent() -> None:
    from schedule_sm.core.cursor import ALL_STEPS

    seen: list[str] = []
    dispose = observe_transitions(lambda *step: seen.append(step[1]))
    try:
        cursor(Observers(ALL_STEPS)).step("due", 20)
    finally:
        dispose()
    assert seen == ["schedule-1"]


def test_tables_come_in_the_order_of_the_documentation() -> None:
    assert list(tables()) == ["DeliveryChart", "OwnerChart"]
    assert tables()["OwnerChart"] is OWNER

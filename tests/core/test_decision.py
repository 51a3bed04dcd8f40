"""What a drive has to do next."""

from __future__ import annotations

from schedule_sm.core.decision import Deliver, Empty, WaitUntil, decide
from schedule_sm.core.projection import Projection
from tests.core.logs import INSTANT_MS, create, delete, log


def _projection(*entries: object) -> Projection:
    projection = Projection()
    projection.sync(log(*entries))
    return projection


def test_nothing_active_is_empty() -> None:
    assert decide(_projection(create("a"), delete("a")), INSTANT_MS) == Empty()


def test_target_ahead_is_waited_for() -> None:
    assert decide(_projection(create("a")), INSTANT_MS - 1) == WaitUntil(INSTANT_MS)


def test_target_reached_is_delivered_ties_in_create_order() -> None:
    projection = _projection(create("late", at="2026-08-05T12:00:01.000Z"), create("first"), create("second"))
    decision = decide(projection, INSTANT_MS + 5_000)
    assert isinstance(decision, Deliver)
    assert decision.entry.id == "first"

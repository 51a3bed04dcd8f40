"""A long backlog is folded, falls due and is armed in pieces: the event loop is served meanwhile, and stop is heeded."""

from __future__ import annotations

import asyncio

import pytest

from schedule_sm.core.deliveries import PIECE
from schedule_sm.transaction import FOLDED_AT_ONCE
from tests.owner.support import CORRUPT, DISPOSE, calls, create, scripted, stop, tool_task

pytestmark = pytest.mark.asyncio

PIECES = 4
MANY = PIECES * max(PIECE, FOLDED_AT_ONCE) + 1


async def turns_until(happened):
    """Count the loop's turns until ``happened()``; it has to within 200."""
    for turn in range(200):
        if happened():
            return turn
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


async def test_fold_of_a_long_log_gives_the_loop_a_turn_between_two_pieces_and_asks_the_host_nothing():
    host = scripted(*(create(number, 60_000) for number in range(MANY)))
    host.owner.start()
    assert await turns_until(lambda: calls(host)) > PIECES
    assert calls(host) == ["flush"]
    await host.settle()
    assert host.owner.state == "waiting"
    await stop(host)


async def test_arming_and_falling_due_of_many_go_in_pieces_and_then_the_first_comes():
    host = scripted(*(create(number) for number in range(MANY)), flush=["ok", "false", "ok"])
    host.owner.start()
    await turns_until(lambda: calls(host))
    assert await turns_until(lambda: host.owner.state == "parked") >= PIECES
    assert "followup schedule-0" in calls(host)
    states = [reminder.state for reminder in host.owner.snapshot().reminders]
    assert (states.count("queued"), states.count("armed")) == (1, MANY - 1)

    flushes = len(calls(host))
    host.owner.recompute()
    assert await turns_until(lambda: len(calls(host)) > flushes) > PIECES
    states = [reminder.state for reminder in host.owner.snapshot().reminders]
    assert states.count("overdue") == MANY - 2  # all but the queued one and the candidate
    await stop(host)


@pytest.mark.parametrize("turns", [1, 3, PIECES + 3, PIECES + 5])
async def test_stop_between_two_pieces_delivers_nothing_and_loses_nothing(turns):
    host = scripted(*(create(number) for number in range(MANY)))
    host.owner.start()
    for _ in range(turns):
        await asyncio.sleep(0)
    host.act(DISPOSE)
    await host.owner.wait_stopped()
    assert host.owner.state == "stopped"
    assert "reserve" not in calls(host)
    assert len(host.appended) == 0


async def test_corruption_behind_a_long_backlog_is_reported_only_after_a_confirmed_flush():
    host = scripted(*(create(number) for number in range(MANY)), CORRUPT, flush=["false", "ok"])
    host.owner.start()
    await turns_until(lambda: host.owner.state == "parked")
    host.owner.recompute()
    await turns_until(lambda: host.owner.state == "faulted")
    await host.owner.wait_stopped()


async def test_tool_that_comes_first_folds_a_long_backlog_in_pieces_too():
    host = scripted(*(create(number, 60_000) for number in range(MANY)))
    listing = tool_task(host, "schedule_list")
    assert await turns_until(listing.done) > PIECES
    views, _ = listing.result()
    assert len(views) == MANY
    await stop(host)

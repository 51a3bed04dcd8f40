"""A laptop sleeps for eight hours: the wall clock goes on, the event loop's clock does not."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from schedule_sm import plugin
from tests.minimal_host import MinimalHost
from tests.scenarios.stage import TICK_MS, TIMER_MS, Stage

HOUR_S = 3_600
NAP_S = 8 * HOUR_S


@pytest.mark.asyncio
@pytest.mark.parametrize("before_s", [0, 1, 59, 60, 90])
async def test_after_a_nap_what_is_due_comes_within_a_tick_and_the_rest_at_its_time(travel, before_s):
    async with Stage(travel) as stage:
        seven = await stage.create(7 * HOUR_S)
        nine = await stage.create(9 * HOUR_S)
        await travel(before_s)
        await travel.suspend(NAP_S)
        woken_ms = travel.now_ms
        assert stage.arrivals == [], "asleep"
        await travel(TICK_MS / 1000)
        ((arrived, at_ms),) = stage.arrivals
        assert arrived == seven
        assert at_ms - woken_ms <= TICK_MS
        await travel(2 * HOUR_S)
        assert stage.late_ms(nine) <= TIMER_MS
        stage.check_all_came(late_ms=HOUR_S * 1000 + TICK_MS + before_s * 1000)


@pytest.mark.asyncio
async def test_many_naps_add_up(travel):
    async with Stage(travel) as stage:
        id = await stage.create(24 * HOUR_S)
        for _ in range(3):
            await travel(HOUR_S)
            await travel.suspend(6 * HOUR_S)
        assert stage.arrivals == []
        await travel(3 * HOUR_S + 1)
        assert stage.late_ms(id) <= TIMER_MS
        stage.check_all_came(late_ms=TIMER_MS)


@pytest.mark.asyncio
async def test_naps_below_the_watcher_s_threshold_add_up_too(travel):
    """Ninety naps of 0.9 s: none is a jump, together they are more than a minute."""
    async with Stage(travel) as stage:
        id = await stage.create(3 * HOUR_S)
        for _ in range(90):
            await travel(TICK_MS / 1000)
            await travel.suspend(0.9)
        await travel(3 * HOUR_S - 90 * 60.9 + 1)
        assert stage.late_ms(id) < 1_000 + TIMER_MS, "what is below the threshold may be late by it, once"
        stage.check_all_came(late_ms=1_000)


@pytest.mark.asyncio
async def test_nap_wakes_only_the_owners_whose_target_has_passed(travel):
    host = MinimalHost()
    plugin.apply(host)
    stages = [Stage(travel, travel.now_ms + 9 * HOUR_S * 1000, host=host) for _ in range(5)]
    late = Stage(travel, travel.now_ms + 7 * HOUR_S * 1000, host=host)
    async with AsyncExitStack() as running:
        for stage in (late, *stages):
            await running.enter_async_context(stage)
        flushed = late.calls
        flushed.clear()
        await travel.suspend(NAP_S)
        await travel(TICK_MS / 1000)
        assert {call.id for call in flushed if call.name == "flush"} == {late.session.id}
        await travel(HOUR_S)
        for stage in stages:
            assert stage.late_ms("r0") <= TIMER_MS


@pytest.mark.asyncio
async def test_reminder_due_in_sleep_waits_for_the_turn_that_slept_too(travel):
    async with Stage(travel) as stage:
        id = await stage.create(HOUR_S)
        stage.turn_may_end.clear()
        stage.agent.send("a long question")
        await travel.suspend(NAP_S)
        await travel(2 * TICK_MS / 1000)
        assert (stage.arrivals, stage.owner.state) == ([], "blocked")
        stage.turn_may_end.set()
        await travel.settle()
        assert [arrived for arrived, _ in stage.arrivals] == [id]

"""Timers, segments and the watcher, on the real clock of a virtual loop."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from schedule_sm import clock as clock_module
from schedule_sm.clock import MAX_SEGMENT_MS, DriftWatcher
from schedule_sm.core.instants import format_instant
from schedule_sm.owner import ScheduleOwner
from tests.core import logs
from tests.minimal_host import MinimalHost
from tests.owner.support import CLOCK, TRIGGER, calls, create, living, scripted, set_clock

DAY_S = 86_400


class Life:
    """One owner on a minimal host, with its flushes counted."""

    def __init__(self, travel, *in_s, host=None, id="a"):
        self.host = host or MinimalHost()
        self.travel = travel
        self.flushes = 0
        session = self.host.session(id)
        for number, seconds in enumerate(in_s, 1):
            at = format_instant(travel.now_ms + round(seconds * 1_000))
            session.append("schedule/change", logs.create(f"schedule-{number}", at=at))
        self.agent = self.host.create_agent(id, session)
        self.owner = ScheduleOwner(self.host, self.agent)
        flush = self.host.flush

        async def counted(flushed):
            self.flushes += flushed is session
            return await flush(flushed)

        self.host.flush = counted
        self.owner.start()

    @property
    def delivered(self):
        return len(self.agent.turns)

    async def end(self):
        self.owner.request_stop()
        await self.owner.wait_stopped()
        await self.agent.close()


def ticking():
    watcher = clock_module._WATCHERS.get(asyncio.get_running_loop())
    return watcher is not None and watcher._tick_handle is not None


@pytest.mark.asyncio
async def test_reminder_comes_at_its_time_and_never_before(travel):
    life = Life(travel, 600)
    await travel(599.999)
    assert life.delivered == 0
    await travel(0.001)
    assert life.delivered == 1
    await life.end()


@pytest.mark.asyncio
async def test_delay_is_rounded_up_between_milliseconds(travel):
    await travel(0.0005)
    life = Life(travel, 1)
    await travel(0.9996)
    assert life.delivered in (0, 1)
    assert travel.now_ms >= life.owner.snapshot().since_ms
    await travel(0.001)
    assert life.delivered == 1
    await life.end()


@pytest.mark.asyncio
async def test_after_a_nap_a_passed_target_is_delivered_within_a_minute(travel):
    life = Life(travel, 3_600)
    await travel.suspend(8 * 3_600)
    assert life.delivered == 0
    await travel(60)
    assert life.delivered == 1
    await life.end()


@pytest.mark.asyncio
async def test_after_a_nap_a_target_ahead_is_armed_again_without_a_drive(travel):
    life = Life(travel, 2 * 3_600)
    await travel(1)
    assert life.flushes == 1
    await travel.suspend(3_600)
    await travel(60)
    assert life.flushes == 1
    await travel(3_600 - 61 - 0.001)
    assert life.delivered == 0
    await travel(0.001)
    assert life.delivered == 1
    await life.end()


@pytest.mark.asyncio
async def test_clock_set_back_is_never_early_and_costs_no_drive(travel):
    life = Life(travel, 600)
    await travel(1)
    await travel.rollback(300)
    await travel(60)
    assert life.flushes == 1
    await travel(600 + 300 - 62)
    assert life.delivered == 0
    await travel(1.001)
    assert life.delivered == 1
    await life.end()


@pytest.mark.asyncio
async def test_only_owners_whose_target_has_passed_drive_after_a_jump(travel):
    host = MinimalHost()
    soon, late = Life(travel, 100, host=host, id="soon"), Life(travel, 10_000, host=host, id="late")
    await travel(1)
    await travel.jump(500)
    await travel(60)
    assert (soon.delivered, late.delivered, late.flushes) == (1, 0, 1)
    await soon.end()
    await late.end()


@pytest.mark.asyncio
async def test_jump_is_no_trigger_for_an_owner_that_does_not_wait(travel):
    life = Life(travel)
    await travel(1)
    assert life.owner.state == "empty"
    await travel.jump(5_000)
    await travel(120)
    assert life.flushes == 1
    await life.end()


@pytest.mark.asyncio
async def test_slow_drift_adds_up_until_it_counts(travel):
    life = Life(travel, 2_000)
    await travel(1)
    for _ in range(6):
        await travel.jump(0.3)
        await travel(60)
    armed_for = life.owner._timer._timer.when() - asyncio.get_running_loop().time()
    left = life.owner._timer.target_ms / 1_000 - travel.now_ms / 1_000
    assert left <= armed_for < left + 1
    await life.end()


@pytest.mark.asyncio
async def test_clock_that_cannot_be_read_at_a_jump_drives_and_parks(travel, caplog):
    life = Life(travel, 5_000)
    await travel(1)
    now_ms = life.owner._timer._clock.now_ms

    def broken():
        raise OSError("no clock")

    await travel.jump(100)
    life.owner._timer._clock.now_ms = broken
    await travel(60)
    assert life.owner.state == "parked"
    life.owner._timer._clock.now_ms = now_ms
    life.owner.recompute()
    await travel(1)
    assert life.owner.state == "waiting"
    await life.end()


@pytest.mark.asyncio
async def test_one_watcher_serves_the_loop_and_goes_with_the_last_owner(travel):
    host = MinimalHost()
    assert not ticking()
    first, second = Life(travel, 10, host=host, id="1"), Life(travel, 10, host=host, id="2")
    await travel(1)
    watcher = clock_module._WATCHERS[asyncio.get_running_loop()]
    assert len(watcher._subscribers) == 2
    await first.end()
    assert ticking()
    await second.end()
    assert not ticking()
    third = Life(travel, 10, host=host, id="3")
    await travel(1)
    assert ticking()
    await third.end()


@pytest.mark.asyncio
async def test_subscriber_that_raises_keeps_the_news_from_nobody(travel, caplog):
    told = []

    def raising():
        raise RuntimeError("not now")

    watcher = DriftWatcher(asyncio.get_running_loop())
    disposers = [watcher.subscribe(raising), watcher.subscribe(lambda: told.append(True))]
    await travel.jump(2)
    await travel(60)
    await travel(60)
    assert told == [True]
    for dispose in disposers:
        dispose()
        dispose()


def test_loop_is_freed_after_its_last_owner():
    async def main():
        host = scripted()
        owner = ScheduleOwner(host.ctx, host.agent)
        owner.start()
        await host.settle()
        owner.request_stop()
        await owner.wait_stopped()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    known = weakref.ref(loop)
    del loop
    gc.collect()
    assert known() is None


@pytest.mark.asyncio
async def test_far_target_is_waited_for_in_segments_each_of_which_drives():
    far_ms = 2 * MAX_SEGMENT_MS + 5_000
    host = scripted(create(1, far_ms))
    async with living(host):
        assert host.armed_ms == MAX_SEGMENT_MS
        await host.do({"do": "advance", "ms": MAX_SEGMENT_MS})
        assert (host.armed_ms, calls(host)) == (MAX_SEGMENT_MS, ["flush"] * 2)
        await host.do({"do": "advance", "ms": MAX_SEGMENT_MS})
        assert (host.armed_ms, calls(host)) == (5_000, ["flush"] * 3)
        await host.do({"do": "advance", "ms": 5_000})
        assert len(host.followups) == 1


@pytest.mark.asyncio
async def test_target_days_away_comes_to_the_millisecond(travel):
    life = Life(travel, 2 * DAY_S)
    await travel(2 * DAY_S - 0.001)
    assert life.delivered == 0
    await travel(0.001)
    assert life.delivered == 1
    await life.end()


@pytest.mark.asyncio
async def test_timer_that_ends_early_drives_and_waits_on():
    host = scripted(create(1, 1_000))
    async with living(host):
        host.act(set_clock(-500))
        await host.do({"do": "advance", "ms": 1_000})
        assert (host.owner.state, host.armed_ms) == ("waiting", 500)
        assert host.followups == []


@pytest.mark.asyncio
async def test_waiting_owner_has_one_timer():
    host = scripted(create(1, 1_000), create(2, 2_000))
    async with living(host):
        for _ in range(3):
            await host.do(TRIGGER)
        assert len(host.clock.timers) == 1
        assert host.clock.wall_ms == CLOCK

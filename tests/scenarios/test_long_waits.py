"""A year of reminders, and reminders that are years away."""

from __future__ import annotations

import random

import pytest

from schedule_sm import clock
from tests.scenarios.stage import TIMER_MS, Stage

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
YEAR_S = 365 * DAY_S


@pytest.fixture
def _slow_watcher(monkeypatch):
    """A year holds half a million ticks of the watcher, and no clock jumps here."""
    monkeypatch.setattr(clock, "WATCH_INTERVAL_S", 7.0 * DAY_S)


@pytest.mark.asyncio
@pytest.mark.usefixtures("_slow_watcher")
async def test_a_year_of_reminders_comes_one_by_one_each_at_its_time(travel):
    random_hours = random.Random(366)
    async with Stage(travel) as stage:
        for after_s in random_hours.sample(range(1, YEAR_S), 120):
            await stage.create(after_s)
        for _ in range(52):  # and each week somebody asks for one more
            await travel(7 * DAY_S)
            await stage.create(random_hours.randrange(1, 7 * DAY_S))
        await travel(8 * DAY_S)
        stage.check_all_came(late_ms=TIMER_MS)
        assert [id for id, _ in stage.arrivals] == sorted(stage.targets, key=stage.targets.get)


@pytest.mark.asyncio
@pytest.mark.usefixtures("_slow_watcher")
@pytest.mark.parametrize("years", [1, 30, 60])
async def test_reminder_years_away_is_waited_for_in_segments_of_one_length(travel, years):
    async with Stage(travel) as stage:
        id = await stage.create(years * YEAR_S + 1)
        await travel.settle()
        begun_ms = travel.now_ms
        stage.calls.clear()
        await travel(years * YEAR_S)
        assert stage.arrivals == []
        drives_ms = [call.at_ms - begun_ms for call in stage.calls if call.name == "flush"]
        segments = years * YEAR_S * 1000 // clock.MAX_SEGMENT_MS
        assert len(drives_ms) == segments
        for number, drive_ms in enumerate(drives_ms, 1):
            assert abs(drive_ms - number * clock.MAX_SEGMENT_MS) <= segments * TIMER_MS
        await travel(1.01)
        assert stage.late_ms(id) <= TIMER_MS
        stage.check_all_came(late_ms=TIMER_MS)


@pytest.mark.asyncio
@pytest.mark.usefixtures("_slow_watcher")
async def test_near_reminder_is_not_held_up_by_one_at_the_end_of_time(travel):
    async with Stage(travel, 253_402_300_799_999) as stage:  # 9999-12-31T23:59:59.999Z
        near = await stage.create(YEAR_S)
        await travel(YEAR_S + 1)
        assert stage.late_ms(near) <= TIMER_MS
        assert (len(stage.arrivals), stage.owner.state) == (1, "waiting")
        stage.check()


@pytest.mark.asyncio
async def test_a_day_with_the_watcher_at_its_usual_pace(travel):
    async with Stage(travel) as stage:
        for hour in range(1, 25):
            await stage.create(hour * HOUR_S)
        await travel(DAY_S + 1)
        stage.check_all_came(late_ms=TIMER_MS)

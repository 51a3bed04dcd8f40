"""Both clocks move only when told, timers run at their own time, and a stuck test says what it waits for."""

import asyncio
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule_sm.testing.travel import START, StuckError, run_virtual

pytest_plugins = ["pytester"]

START_MS = int(START.timestamp() * 1000)
YEAR_S = 365 * 86_400


async def note_when(seconds, notes):
    await asyncio.sleep(seconds)
    notes.append((seconds, time.time_ns() // 1_000_000 - START_MS))


@pytest.mark.asyncio
async def test_each_timer_on_the_way_runs_in_order_and_at_its_own_wall_time(travel):
    notes = []
    tasks = [asyncio.create_task(note_when(seconds, notes)) for seconds in (30, 10, 20.5)]
    await travel(25)
    assert notes == [(10, 10_000), (20.5, 20_500)]
    assert travel.now_ms == START_MS + 25_000
    await travel(5)
    assert notes[-1] == (30, 30_000)
    await asyncio.gather(*tasks)


@pytest.mark.asyncio
async def test_timers_armed_on_the_way_run_in_the_same_journey(travel):
    ticks = []

    async def tick():
        while True:
            await asyncio.sleep(7)
            ticks.append((travel.now_ms - START_MS) // 1000)

    task = asyncio.create_task(tick())
    await travel(30)
    assert ticks == [7, 14, 21, 28]
    task.cancel()


@pytest.mark.asyncio
async def test_many_small_steps_do_not_drift(travel):
    for _ in range(1000):
        await travel(0.0001)
    assert datetime.now(UTC) - START == timedelta(seconds=0.1)


@pytest.mark.asyncio
async def test_suspend_moves_only_the_wall_clock(travel):
    notes = []
    task = asyncio.create_task(note_when(60, notes))
    await travel(10)
    loop_time = asyncio.get_running_loop().time()
    await travel.suspend(8 * 3600)
    assert asyncio.get_running_loop().time() == loop_time
    assert notes == []
    await travel(50)
    assert notes == [(60, (60 + 8 * 3600) * 1000)]
    await task


@pytest.mark.asyncio
async def test_rollback_and_jump_fire_no_timer(travel):
    notes = []
    task = asyncio.create_task(note_when(60, notes))
    await travel.rollback(3 * 3600)
    assert travel.now_ms == START_MS - 3 * 3_600_000
    await travel.jump(100 * YEAR_S)
    await travel.jump(-100 * YEAR_S)
    assert notes == []
    await travel(60)
    assert notes == [(60, (60 - 3 * 3600) * 1000)]
    await task


@pytest.mark.asyncio
async def test_settle_moves_no_clock_and_runs_all_that_is_ready(travel):
    seen = []

    async def chain(depth):
        for step in range(depth):
            await asyncio.sleep(0)
            seen.append(step)

    task = asyncio.create_task(chain(100))
    await travel.settle()
    assert len(seen) == 100
    assert travel.now_ms == START_MS
    assert task.done()


@pytest.mark.asyncio
@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
async def test_a_journey_has_a_finite_length(travel, seconds):
    for move in (travel, travel.suspend, travel.rollback):
        with pytest.raises(ValueError, match="finite"):
            await move(seconds)


@pytest.mark.asyncio
async def test_jump_is_finite(travel):
    with pytest.raises(ValueError, match="finite"):
        await travel.jump(float("nan"))


@pytest.mark.asyncio
async def test_two_tasks_cannot_travel_at_once(travel):
    other = asyncio.create_task(travel(5))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="two tasks travel at once"):
        await travel(1)
    await other


@pytest.mark.asyncio
async def test_timers_without_end_are_reported(travel, monkeypatch):
    monkeypatch.setattr("schedule_sm.testing.travel.STOPS_IN_PLACE", 100)
    loop = travel.loop

    def again():
        loop.call_at(loop.time() + 1e-12, again)

    again()
    with pytest.raises(StuckError, match="no way ahead"):
        await travel(1)


def test_test_ids_carry_no_suffix(request):
    items = [item for item in request.session.items if item.path == request.path]
    assert "test_settle_moves_no_clock_and_runs_all_that_is_ready" in {item.name for item in items}


class TestStart:
    @pytest.fixture
    def travel_start(self):
        return datetime(1970, 1, 1, 0, 0, 5, 250_000, tzinfo=UTC)

    @pytest.mark.asyncio
    async def test_fixture_travel_start_sets_where_the_wall_clock_begins(self, travel):
        assert travel.now_ms == 5250
        await travel.jump(60 * YEAR_S)
        assert time.time_ns() == (60 * YEAR_S + 5) * 10**9 + 250_000_000


def test_time_zone_stays_as_it_is(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:

        async def main(travel):
            await travel(1)
            return os.environ["TZ"], datetime.now().astimezone().utcoffset()

        assert run_virtual(main) == ("Europe/Berlin", timedelta(hours=1))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_another_loop_is_refused_with_a_hint():
    async def main(travel):
        return travel

    travel = run_virtual(main)
    with pytest.raises(RuntimeError, match="needs the virtual loop"):
        asyncio.run(travel.settle())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 10**9).map(lambda us: us / 1e6), min_size=1, max_size=20))
def test_every_timer_runs_once_in_order_and_never_early(delays):
    async def main(travel):
        fired = []
        loop = asyncio.get_running_loop()
        for delay in delays:
            loop.call_later(delay, lambda delay=delay: fired.append((delay, time.time_ns())))
        await travel(1000)
        return fired

    fired = run_virtual(main)
    assert [delay for delay, _ in fired] == sorted(delays)
    start_us = START_MS * 1000
    assert [ns // 1000 - start_us for _, ns in fired] == [round(delay * 1e6) for delay in sorted(delays)]


PROJECT = """
    import asyncio, time, pytest

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def journey(travel):
        return travel

    async def test_direct(travel):
        await travel(3600)

    async def test_through_another_fixture(journey):
        await journey(3600)

    async def test_too_late(request):
        travel = request.getfixturevalue("travel")
        with pytest.raises(RuntimeError, match="comes too late"):
            await travel(1)

    async def test_stuck(travel):
        await asyncio.sleep(5)

    async def test_after_a_stuck_one(travel):
        await travel(1)
"""


def test_another_project_loads_it_as_a_plugin(pytester):
    """In a process of its own, as that project would run it; the stuck test fails at once."""
    pytester.makeconftest('pytest_plugins = ["schedule_sm.testing.travel"]')
    pytester.makepyfile(test_theirs=PROJECT)
    root = os.fspath(pytester._request.config.rootpath)
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "--asyncio-mode=strict", "-p", "no:randomly", "-p", "no:cacheprovider"],
        cwd=pytester.path, env=os.environ | {"PYTHONPATH": root}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "test_theirs.py::test_direct PASSED" in outcome.stdout, outcome.stdout + outcome.stderr
    assert "StuckError: nothing is ready to run, and nobody moves the clock" in outcome.stdout
    assert "test_stuck (" in outcome.stdout
    assert "1 failed, 4 passed" in outcome.stdout

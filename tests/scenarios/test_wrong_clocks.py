"""Wall clocks that are wrong, and clocks that are put right: never early, never twice, never lost."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule_sm.testing.travel import START, run_virtual
from tests.scenarios.stage import TICK_MS, TIMER_MS, Stage

MINUTE_S = 60
HOUR_S = 3_600
BOOT = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
NOON_MS = int(datetime(2030, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)
PUT_BACK_S = 3 * HOUR_S


# -- a boot clock in 1970, then NTP -------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("travel_start", [BOOT], indirect=True)
async def test_boot_in_1970_delivers_nothing_early_and_after_ntp_all_in_time(travel):
    past_ms, later_ms = NOON_MS - HOUR_S * 1000, NOON_MS + HOUR_S * 1000
    async with Stage(travel, later_ms, past_ms) as stage:
        await travel(10 * MINUTE_S)
        assert (stage.arrivals, stage.owner.state) == ([], "waiting")
        await travel.jump(NOON_MS / 1000 - travel.now_ms / 1000)
        await travel(TICK_MS / 1000)
        assert [arrived for arrived, _ in stage.arrivals] == ["r1"]
        assert stage.late_ms("r1") <= HOUR_S * 1000 + TICK_MS
        await travel(HOUR_S)
        assert stage.late_ms("r0") <= TIMER_MS
        stage.check_all_came(late_ms=HOUR_S * 1000 + TICK_MS)


@pytest.mark.asyncio
@pytest.mark.parametrize("travel_start", [BOOT], indirect=True)
async def test_reminder_created_in_1970_comes_once_within_a_tick_of_ntp(travel):
    """Its record says 1970: by the wall clock, which decides, it is sixty years late."""
    async with Stage(travel) as stage:
        id = await stage.create(HOUR_S)
        await travel(5 * MINUTE_S)
        await travel.jump(NOON_MS / 1000 - travel.now_ms / 1000)
        assert stage.arrivals == []
        await travel(TICK_MS / 1000)
        ((arrived, at_ms),) = stage.arrivals
        assert arrived == id
        assert at_ms - NOON_MS <= TICK_MS
        await travel(2 * HOUR_S)
        stage.check_all_came(late_ms=NOON_MS + TICK_MS)


# -- three hours back and forth -----------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("meanwhile_s", [0, 1, MINUTE_S, 5 * MINUTE_S, HOUR_S])
async def test_clock_put_back_and_forth_again_before_the_target(travel, meanwhile_s):
    async with Stage(travel) as stage:
        id = await stage.create(2 * HOUR_S)
        await travel(30 * MINUTE_S)
        await travel.rollback(PUT_BACK_S)
        await travel(meanwhile_s)
        await travel.jump(PUT_BACK_S)
        await travel(2 * HOUR_S)
        assert stage.late_ms(id) <= TIMER_MS
        stage.check_all_came(late_ms=TIMER_MS)


@pytest.mark.asyncio
async def test_clock_put_back_for_longer_than_the_wait_delivers_only_when_it_says_so(travel):
    async with Stage(travel) as stage:
        await stage.create(HOUR_S)
        await travel(30 * MINUTE_S)
        await travel.rollback(PUT_BACK_S)
        await travel(PUT_BACK_S + 29 * MINUTE_S)
        assert stage.arrivals == [], "an hour and more of real waiting, but the wall clock decides"
        await travel(2 * MINUTE_S)
        stage.check_all_came(late_ms=TIMER_MS)


@pytest.mark.asyncio
async def test_clock_put_forward_past_the_target_delivers_within_a_tick_and_not_again(travel):
    async with Stage(travel) as stage:
        await stage.create(HOUR_S)
        await travel(30 * MINUTE_S)
        await travel.jump(PUT_BACK_S)
        await travel(TICK_MS / 1000)
        assert len(stage.arrivals) == 1
        await travel.rollback(PUT_BACK_S)
        await travel(5 * HOUR_S)
        stage.check_all_came(late_ms=150 * MINUTE_S * 1000 + TICK_MS)


@pytest.mark.asyncio
@pytest.mark.parametrize("meanwhile_s", [0, MINUTE_S, 10 * MINUTE_S])
async def test_clock_put_forward_and_back_leaves_no_early_timer(travel, meanwhile_s):
    async with Stage(travel) as stage:
        await stage.create(4 * HOUR_S)
        await travel.jump(PUT_BACK_S)
        await travel(meanwhile_s)
        await travel.rollback(PUT_BACK_S)
        await travel(4 * HOUR_S - meanwhile_s - 1)
        assert stage.arrivals == []
        await travel(2)
        stage.check_all_came(late_ms=TIMER_MS)


@pytest.mark.asyncio
async def test_overdue_reminder_behind_a_turn_waits_again_when_the_clock_is_put_back(travel):
    async with Stage(travel) as stage:
        id = await stage.create(HOUR_S)
        stage.turn_may_end.clear()
        stage.agent.send("a long question")
        await travel(HOUR_S + 1)
        assert stage.owner.state == "blocked"
        await travel.rollback(PUT_BACK_S)
        stage.turn_may_end.set()
        await travel.settle()
        assert (stage.arrivals, stage.owner.state) == ([], "waiting")
        assert "(not_due: the clock went back)" in stage.owner.snapshot().why(travel.now_ms, id)[0]
        await travel(TICK_MS / 1000)
        await travel.jump(PUT_BACK_S)
        await travel(TICK_MS / 1000)
        stage.check_all_came(late_ms=1_000 + 2 * TICK_MS)


@pytest.mark.asyncio
async def test_timer_armed_while_the_clock_was_wrong_for_seconds_is_put_right_too(travel):
    """The clock is right again at the watcher's next tick, but the owner armed its timer in between."""
    async with Stage(travel) as stage:
        await stage.create(HOUR_S)
        await travel(HOUR_S - 1)
        await travel.rollback(PUT_BACK_S)
        stage.owner.recompute()
        await travel.settle()
        await travel.jump(PUT_BACK_S)
        await travel(2 * TICK_MS / 1000)
        stage.check_all_came(late_ms=TICK_MS)


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("travel"), st.integers(0, 2 * HOUR_S)),
        st.tuples(st.just("suspend"), st.integers(0, 8 * HOUR_S)),
        st.tuples(st.just("jump"), st.integers(-PUT_BACK_S, PUT_BACK_S)),
        st.tuples(st.just("turn"), st.booleans()),
    ),
    max_size=10,
)


@settings(max_examples=25)
@given(moves=MOVES, after_s=st.lists(st.integers(1, 6 * HOUR_S), min_size=1, max_size=4))
def test_whatever_the_clock_does_each_comes_once_and_none_early(moves, after_s):
    async def main(travel):
        async with Stage(travel) as stage:
            for seconds in after_s:
                await stage.create(seconds)
            for move, how in moves:
                if move == "travel":
                    await travel(how)
                elif move == "turn":
                    stage.turn_may_end.set() if how else stage.turn_may_end.clear()
                else:
                    await getattr(travel, move)(how)
                assert all(stage.late_ms(id) >= 0 for id, _ in stage.arrivals)
            stage.turn_may_end.set()
            await travel(max(0, max(stage.targets.values()) - travel.now_ms) / 1000 + TICK_MS / 1000)
            stage.check_all_came(late_ms=10**9)

    run_virtual(main, START)

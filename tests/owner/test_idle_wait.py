"""The idle wait and its pause: an agent that refuses for ever costs a bounded number of drives."""

from __future__ import annotations

import asyncio

import pytest

from schedule_sm.idle_wait import FRUITLESS_DRIVES
from tests.owner.support import DEPART, TRIGGER, calls, create, living, scripted, stop

pytestmark = pytest.mark.asyncio

BUSY = ["busy"] * 1_000


async def at_once():
    """A ``when_idle`` that never suspends."""


def pauses(host, count):
    """The lengths of the next pauses, each travelled through."""

    async def measure():
        lengths = []
        for _ in range(count):
            lengths.append(host.armed_ms)
            await host.do({"do": "advance", "ms": host.armed_ms})
        return lengths

    return measure()


async def test_wait_that_returns_at_once_is_opened_after_a_pause_that_doubles_up_to_five_seconds():
    host = scripted(create(1), reserve=BUSY)
    host.agent.when_idle = at_once
    async with living(host):
        assert calls(host).count("reserve busy") == 2
        assert await pauses(host, 9) == [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
        assert calls(host).count("reserve busy") == 11
    assert host.armed_ms is None


async def test_any_other_trigger_ends_the_pause():
    host = scripted(create(1), reserve=BUSY)
    host.agent.when_idle = at_once
    async with living(host):
        asked = calls(host).count("reserve busy")
        await host.do(TRIGGER)
        assert calls(host).count("reserve busy") == asked + 1
        assert host.armed_ms == 100


async def test_delivery_clears_the_pause():
    host = scripted(create(1), create(2), reserve=["busy"] * 4 + ["grant"] + ["busy"] * 9)
    host.agent.when_idle = at_once
    async with living(host):
        assert await pauses(host, 3) == [50, 100, 200]
        assert len(host.followups) == 1
        assert await pauses(host, 2) == [50, 100]


async def test_wait_that_suspends_again_starts_the_pause_anew():
    host = scripted(create(1), reserve=BUSY)
    suspends = host.agent.when_idle
    host.agent.when_idle = at_once
    async with living(host):
        assert await pauses(host, 2) == [50, 100]
        host.agent.when_idle = suspends
        await host.do({"do": "advance", "ms": 200})
        assert (host.armed_ms, calls(host)[-1]) == (None, "when_idle")
        host.agent.when_idle = at_once
        await host.do({"do": "idle"})
        assert await pauses(host, 2) == [50, 100]


async def test_fruitless_idle_drives_are_held_back_after_twenty():
    """A wait that suspends for one turn only is no sign of an idle agent either."""
    host = scripted(create(1), reserve=BUSY)
    host.agent.when_idle = lambda: asyncio.sleep(0)
    async with living(host):
        assert calls(host).count("reserve busy") == 1 + FRUITLESS_DRIVES
        assert await pauses(host, 3) == [50, 100, 200]
        assert calls(host).count("reserve busy") == 1 + FRUITLESS_DRIVES + 3


async def test_flapping_idle_status_of_a_parked_owner_is_held_back_after_twenty():
    host = scripted(create(1), followup=["throw"] * 1_000)
    async with living(host):
        for _ in range(100):
            host.agent.ctx.emit("agent/status", "idle")
            await host.settle()
        assert calls(host).count("followup schedule-1 threw") == 1 + FRUITLESS_DRIVES
        assert await pauses(host, 1) == [50]
        assert calls(host).count("followup schedule-1 threw") == 2 + FRUITLESS_DRIVES


async def test_idle_status_is_ignored_while_a_wait_is_open():
    host = scripted(create(1), reserve=BUSY)
    async with living(host):
        made = len(host.trace)
        host.agent.ctx.emit("agent/status", "idle")
        await host.settle()
        assert len(host.trace) == made


@pytest.mark.parametrize("news", [("idle",), ()])
async def test_idle_status_drives_a_parked_owner(news):
    host = scripted(create(1), flush=["reject"])
    async with living(host):
        assert host.owner.state == "parked"
        host.agent.ctx.emit("agent/status", "running")
        await host.settle()
        assert host.owner.state == "parked"
        host.agent.ctx.emit("agent/status", *news)
        await host.settle()
        assert host.owner.state == "empty"


@pytest.mark.parametrize("changes", [(), (create(1, 9_000),)])
async def test_idle_status_is_no_trigger_for_an_owner_that_waits_for_time(changes):
    host = scripted(*changes)
    async with living(host):
        host.agent.ctx.emit("agent/status", "idle")
        await host.settle()
        assert calls(host) == ["flush"]


async def test_wait_outlives_blocked_and_its_end_is_a_trigger_in_every_state():
    host = scripted(create(1), reserve=["busy"], flush=["ok", "reject"])
    async with living(host):
        await host.do(TRIGGER)
        assert host.owner.state == "parked"
        await host.do({"do": "idle"})
        assert host.owner.state == "empty"


async def test_at_most_one_wait_is_open():
    host = scripted(create(1), reserve=BUSY)
    async with living(host):
        for _ in range(5):
            await host.do(TRIGGER)
        assert calls(host).count("when_idle") == 1
        assert calls(host).count("reserve busy") == 6


async def test_wait_whose_future_the_host_cancelled_counts_as_failed(steps):
    """``CancelledError`` out of ``when_idle`` without a cancellation of ours: nothing stays blocked unseen."""
    host = scripted(create(1), reserve=["busy"])
    waiting = asyncio.get_running_loop().create_future()

    async def when_idle():
        await waiting

    host.agent.when_idle = when_idle
    async with living(host):
        waiting.cancel()
        await host.settle()
        assert host.owner.state == "parked"
        assert host.warnings == ["idle_wait"]
        await host.do(TRIGGER)
        assert host.owner.state == "empty"
    assert "idle_lost" in steps.owner


async def test_failed_wait_of_a_departed_agent_is_not_spoken_of():
    host = scripted(create(1), reserve=["busy"])
    async with living(host):
        host.is_live = False
        await host.do({"do": "idle_fail"})
        assert (host.owner.state, host.warnings) == ("parked", [])


async def test_agent_that_departs_during_the_pause_gets_no_further_host_call(steps):
    host = scripted(create(1), reserve=BUSY)
    host.agent.when_idle = at_once
    async with living(host):
        made = len(host.trace)
        host.agent.when_idle = host.play_when_idle
        host.act(DEPART)
        await host.do({"do": "advance", "ms": 5_000})
        assert (host.owner.state, host.trace[made:]) == ("stopped", [])
    assert "lost" in steps.owner


async def test_wait_that_fails_while_another_drive_runs_is_logged_and_opened_again():
    host = scripted(create(1), reserve=BUSY, flush=["ok", {"hold": "flush"}])
    async with living(host):
        await host.do(TRIGGER)
        await host.do({"do": "idle_fail"})
        assert host.owner.state == "driving"
        await host.do({"do": "release", "hold": "flush"})
        assert host.owner.state == "blocked"
        assert calls(host).count("when_idle") == 2


async def test_stop_cancels_and_awaits_the_wait():
    host = scripted(create(1), reserve=BUSY)
    ended = []
    when_idle = host.agent.when_idle

    async def slow_to_leave():
        try:
            await when_idle()
        finally:
            await asyncio.sleep(0)
            ended.append(host.owner.state)

    host.agent.when_idle = slow_to_leave
    await host.do({"do": "start"})
    await stop(host)
    assert ended == ["stopping"]


async def test_stop_cancels_the_pause():
    host = scripted(create(1), reserve=BUSY)
    host.agent.when_idle = at_once
    await host.do({"do": "start"})
    assert host.armed_ms == 50
    await stop(host)
    assert host.armed_ms is None


async def test_idle_status_during_the_pause_is_news_until_too_many_drives_were_fruitless():
    host = scripted(create(1), reserve=BUSY)
    host.agent.when_idle = at_once
    async with living(host):
        asked = calls(host).count("reserve busy")
        assert host.armed_ms == 50
        for _ in range(100):
            host.agent.ctx.emit("agent/status", "idle")
            await host.settle()
        assert calls(host).count("reserve busy") == asked + FRUITLESS_DRIVES - 1
        assert host.armed_ms == 5_000


async def test_wait_that_returned_at_once_is_forgotten_unless_the_next_attempt_is_refused():
    host = scripted(create(1), reserve=["busy"] * 2, flush=["ok", "reject"])
    suspends, host.agent.when_idle = host.agent.when_idle, at_once
    async with living(host):
        assert (host.owner.state, host.armed_ms) == ("parked", None)
        host.agent.when_idle = suspends
        host.agent.ctx.emit("agent/status", "idle")
        await host.settle()
        assert (host.owner.state, host.armed_ms, calls(host)[-1]) == ("blocked", None, "when_idle")

"""Pairs of edges, one after the other, taken by the real owner; what cannot follow what stands in ``impossible_pairs.toml``."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.owner.support import (
    CLOCK,
    CORRUPT,
    DEPART,
    DISPOSE,
    TRIGGER,
    BrokenLog,
    appending,
    changes,
    create,
    delete,
    dispatch,
    living,
    scripted,
    set_clock,
    stop,
)

pytestmark = pytest.mark.asyncio


def raising(*arguments):
    raise RuntimeError("not now")


def write(host, *changes):
    for change in changes:
        host.session.write("schedule/change", change)


def during_flush(host, number, happening):
    """Let ``happening`` take place inside the flush of that number, counted from 0."""
    flush, made = host.ctx.flush, 0

    async def flushing(session):
        nonlocal made
        made += 1
        if made == number + 1:
            happening(host)
        return await flush(session)

    host.ctx.flush = flushing


def failing_readings(host, *numbers):
    """Let the clock's readings of these numbers raise, counted from 1 from now on."""
    now_ms, made = host.clock.now_ms, 0

    def reading():
        nonlocal made
        made += 1
        return raising() if made in numbers else now_ms()

    host.clock.now_ms = reading


START = {"do": "start"}

WAYS_IN = {
    "starting": ([create(1)], {}, ["wake"], 0),
    "waiting": ([create(1, 10)], {}, ["wake", "wait", "wake"], 1),
    "empty": ([], {}, ["wake", "settle", "wake"], 1),
    "blocked": ([create(1)], {"reserve": ["busy"]}, ["wake", "refused", "wake"], 1),
    "parked": ([create(1)], {"flush": ["reject"]}, ["wake", "unconfirmed", "wake"], 1),
    "driving": ([create(9, -1), create(1)], {}, ["wake", "again"], 2),
}
"""Per state: the log, the script, the steps up to and with the edge into ``driving``, and the flushes before it."""

WAYS_OUT = {
    "again": lambda host: None,
    "wait": lambda host: host.act(set_clock(-1)),
    "settle": lambda host: write(host, delete(1)),
    "refused": lambda host: setattr(host.agent, "reserve_turn_admission", lambda: None),
    "unconfirmed": raising,
    "enqueue_failed": lambda host: setattr(host.agent, "followup", raising),
    "host_failed": lambda host: setattr(host.clock, "fails", True),
    "corrupt": lambda host: write(host, CORRUPT),
    "append_failed": lambda host: setattr(host.session, "append", raising),
    "crashed": lambda host: setattr(host.session.events, "broken", True),
    "lost": lambda host: host.act(DEPART),
    "stop": lambda host: host.act(DISPOSE),
}
"""Per outcome of a drive: what happens inside its first flush."""


@pytest.mark.parametrize("way_out", WAYS_OUT)
@pytest.mark.parametrize("way_in", WAYS_IN)
async def test_drive_comes_to_each_outcome_whatever_began_it(steps, way_in, way_out):
    log, script, so_far, flushes = WAYS_IN[way_in]
    host = scripted(*log, **script)
    host.session.events = BrokenLog(host.session.events)
    during_flush(host, flushes, WAYS_OUT[way_out])
    await host.do(START)
    if way_in == "waiting":
        await host.do({"do": "advance", "ms": 10})
    elif way_in == "empty":
        write(host, create(1))
    if way_in in ("empty", "blocked", "parked"):
        await host.do(TRIGGER)
    assert steps.owner[: len(so_far) + 1] == [*so_far, way_out]
    await stop(host)


async def test_clock_that_arms_no_timer_crashes_a_waiting_owner(steps):
    host = scripted(create(1, 10))
    host.clock.call_later = raising
    await host.do(START)
    assert steps.owner == ["wake", "wait", "stop", "crashed"]
    assert steps.of(1) == ["detach"]
    await host.owner.wait_stopped()


async def test_clock_that_arms_no_timer_crashes_a_blocked_owner_that_has_to_pause(steps):
    host = scripted(create(1), reserve=["busy", "busy"])
    host.clock.call_later = raising

    async def returns_at_once():
        pass

    host.agent.when_idle = returns_at_once
    await host.do(START)
    assert steps.owner == ["wake", "refused", "wake", "refused", "stop", "crashed"]
    await host.owner.wait_stopped()


ENDINGS = {
    "delete": appending(delete(1)),
    "dispatched_elsewhere": appending(dispatch(1)),
    "not_due": [set_clock(7)],
    "detach": [DISPOSE],
}
"""What befalls schedule-1, overdue behind schedule-2, while a drive of schedule-2 flushes."""

EARLIER = appending(create(2, 5))

SETBACKS = {
    ("preflight", "overtaken"): ({"flush": [{"outcome": "ok", "during": EARLIER}], "reserve": ["busy"]}, []),
    ("preflight", "host_failed"): ({"flush": [{"outcome": "ok", "during": EARLIER}]}, [4]),
    ("awaiting_admission", "host_failed"): ({"reserve": [{"outcome": "grant", "during": EARLIER}]}, [5]),
    ("awaiting_admission", "enqueue_failed"): (
        {"reserve": [{"outcome": "grant", "during": EARLIER}], "followup": ["throw"]},
        [],
    ),
    # a second setback: nothing falls due in it, since the clock cannot be read, so schedule-1 is tried again
    ("preflight", "unconfirmed"): (
        {
            "reserve": [{"outcome": "grant", "during": EARLIER}],
            "followup": ["throw"],
            "flush": ["ok", "reject"],
        },
        [6],
    ),
}
"""What sends schedule-1 back to ``overdue`` and has schedule-2, due earlier, go first then: the script once it is due,
and which readings of the clock fail (the first drive, which arms it, makes two)."""


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("setback", SETBACKS, ids="-".join)
async def test_reminder_sent_back_may_end_or_be_armed_again_behind_an_earlier_one(steps, setback, ending):
    script, failing = SETBACKS[setback]
    flushes = script.get("flush", ["ok"])
    ends = {"outcome": "ok", "during": ENDINGS[ending]}
    host = scripted(create(1, 10), **{**script, "flush": ["ok", *flushes, ends]})
    host.owner  # noqa: B018 - made here, so that its first reading is not counted
    failing_readings(host, *failing)
    await host.do(START)
    host.clock.wall_ms = CLOCK + 10
    for _ in (*flushes, ends):
        await host.do(TRIGGER)
    assert (setback[1], ending) in pairwise(steps.of(1))
    await stop(host)


TURNED_BACK = {
    "overdue": ([create(1, 10), create(3, 9)], {"flush": [{"outcome": "ok", "during": [set_clock(0)]}]}),
    "preflight": ([create(1, 10)], {"flush": [{"outcome": "ok", "during": [set_clock(0)]}]}),
    "awaiting_admission": ([create(1, 10)], {"reserve": [{"outcome": "grant", "during": [set_clock(0)]}]}),
}
"""Per state: how the clock goes back while schedule-1 is in it."""


@pytest.mark.parametrize(
    ("then", "event"), [(None, "due"), (delete, "delete"), (dispatch, "dispatched_elsewhere")]
)
@pytest.mark.parametrize("state", TURNED_BACK)
async def test_reminder_armed_again_falls_due_or_ends_like_any_other(steps, state, then, event):
    log, script = TURNED_BACK[state]
    host = scripted(*log, **{**script, "flush": ["ok", *script.get("flush", [])]})
    async with living(host):
        host.clock.wall_ms = CLOCK + 10
        await host.do(TRIGGER)
        if then is None:
            await host.do({"do": "advance", "ms": 10})
        else:
            write(host, then(1))
            await host.do(TRIGGER)
    assert (state, "not_due", "armed") in steps.edges("DeliveryChart")
    assert ("not_due", event) in pairwise(steps.of(1))


async def test_registry_that_raises_when_a_refused_reminder_is_tried_again_parks(steps):
    host = scripted(create(1), reserve=["busy"])
    get = host.ctx.get
    async with living(host):
        host.ctx.get = raising
        await host.do(TRIGGER)
        assert host.owner.state == "parked"
        host.ctx.get = get
        await host.do(TRIGGER)
        assert len(host.followups) == 1
    assert steps.of(1)[2:5] == ["confirmed", "refused", "host_failed"]


async def test_earlier_reminder_overtakes_a_refused_one_that_is_tried_again(steps):
    host = scripted(
        create(1), reserve=["busy"], flush=["ok", {"outcome": "ok", "during": appending(create(2, -5))}]
    )
    async with living(host):
        await host.do(TRIGGER)
        assert changes(host) == ["dispatch schedule-2", "dispatch schedule-1"]
    assert steps.of(1)[3:6] == ["refused", "recheck", "overtaken"]

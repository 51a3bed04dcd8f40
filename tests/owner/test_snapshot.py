"""``snapshot()``: nothing is silent. It flushes and folds nothing and says so; ``tests/core`` has its wording."""

from __future__ import annotations

import pytest

from tests.owner.support import (
    CLOCK,
    CORRUPT,
    TRIGGER,
    appending,
    create,
    delete,
    living,
    scripted,
    set_clock,
    stop,
)

pytestmark = pytest.mark.asyncio


def stands(host):
    """(state, since, event of the last setback) of the owner and of each reminder, and that each has a sentence."""
    snapshot = host.owner.snapshot()
    now_ms = host.clock.wall_ms
    for each in (snapshot, *(snapshot.reminders or ())):
        sentence = each.sentence(now_ms)
        assert sentence.endswith(".")
        assert "\n" not in sentence
        if each is not snapshot and each.last is not None:
            assert f"{each.last.event}: {each.last.why}" in sentence
    reminders = None if snapshot.reminders is None else [_place(each) for each in snapshot.reminders]
    return _place(snapshot), reminders


def _place(each):
    return each.state, each.since_ms - CLOCK, None if each.last is None else each.last.event


async def test_before_the_first_confirmed_fold_the_reminders_are_none_not_empty():
    host = scripted(create(1), flush=["reject"])
    assert host.owner.snapshot().reminders is None
    async with living(host):
        assert stands(host) == (("parked", 0, "unconfirmed"), None)
        assert host.owner.snapshot().unconfirmed is True
        assert "preflight or barrier not confirmed" in host.owner.snapshot().sentence(CLOCK)
        await host.do(TRIGGER)
        assert host.owner.snapshot().reminders == ()


async def test_it_makes_no_host_call_and_folds_nothing():
    host = scripted(create(1, 10_000))
    async with living(host):
        host.session.write("schedule/change", delete(1))
        made = len(host.trace)
        assert [reminder.id for reminder in host.owner.snapshot().reminders] == ["schedule-1"]
        await host.settle()
        assert len(host.trace) == made


async def test_armed_reminder_says_when_it_comes():
    host = scripted(create(1, 10_000))
    async with living(host):
        assert stands(host) == (("waiting", 0, None), [("armed", 0, None)])
        reminder = host.owner.snapshot().reminders[0]
        assert reminder.target_ms == CLOCK + 10_000
        assert "2026-08-05T12:00:10.000Z, in 10 s" in reminder.sentence(CLOCK)


async def test_blocked_reminder_says_since_when():
    host = scripted(create(1), reserve=["busy"] * 9, clock_ms=CLOCK + 90_000)
    async with living(host):
        await host.do({"do": "advance", "ms": 5_000})
        assert stands(host) == (("blocked", 90_000, "refused"), [("awaiting_admission", 90_000, "refused")])
        assert "5 s" in host.owner.snapshot().sentence(host.clock.wall_ms)


async def test_unconfirmed_dispatch_keeps_since_when_it_was_queued():
    """A self loop keeps ``since_ms``."""
    host = scripted(create(1), flush=["ok", "reject", "reject"])
    async with living(host):
        assert stands(host) == (("parked", 0, "unconfirmed"), [("queued", 0, "dispatch_unconfirmed")])
        await host.do({"do": "advance", "ms": 700})
        await host.do(TRIGGER)
        assert stands(host) == (("parked", 700, "unconfirmed"), [("queued", 0, "dispatch_unconfirmed")])


async def test_failed_followup_is_visible_with_its_reason():
    host = scripted(create(1), create(2), followup=["throw"])
    async with living(host):
        assert stands(host) == (
            ("parked", 0, "enqueue_failed"),
            [("overdue", 0, "enqueue_failed"), ("armed", 0, None)],
        )


async def test_reminder_on_its_path_is_seen_at_each_flush():
    host = scripted(create(1, 10), flush=["ok", {"hold": "preflight"}, {"hold": "barrier"}])
    async with living(host):
        await host.do({"do": "advance", "ms": 10})
        assert stands(host)[1] == [("preflight", 10, None)]
        await host.do({"do": "release", "hold": "preflight"})
        assert stands(host)[1] == [("queued", 10, None)]
        await host.do({"do": "release", "hold": "barrier"})
        assert stands(host) == (("empty", 10, None), [])


async def test_reminder_behind_a_clock_that_went_back_says_so():
    host = scripted(
        create(1, 10), clock_ms=CLOCK + 10, reserve=[{"outcome": "grant", "during": [set_clock(0)]}]
    )
    async with living(host):
        assert stands(host)[1] == [("armed", 0, "not_due")]


async def test_faulted_owner_says_why():
    host = scripted(create(1), flush=[{"outcome": "ok", "during": appending(CORRUPT)}])
    await host.do({"do": "start"})
    assert stands(host) == (("faulted", 0, "corrupt"), None)
    assert "the log cannot be folded" in host.owner.snapshot().sentence(CLOCK)


async def test_each_state_of_the_owner_has_a_sentence():
    host = scripted()
    seen = [stands(host)[0][0]]
    async with living(host):
        seen.append(stands(host)[0][0])
    seen.append(stands(host)[0][0])
    held = scripted(flush=[{"hold": "f"}])
    await held.do({"do": "start"})
    seen.append(stands(held)[0][0])
    held.owner.request_stop()
    seen.append(stands(held)[0][0])
    assert seen == ["starting", "empty", "stopped", "driving", "stopping"]
    await held.do({"do": "release", "hold": "f"})
    await stop(held)

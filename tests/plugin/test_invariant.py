"""The invariant plugin: no log that cannot be folded, and no append that would make it so."""

from __future__ import annotations

import gc

import pytest

from schedule_sm import invariant, plugin
from schedule_sm.core.errors import CompositionError, ScheduleLogError, ScheduleVersionError
from schedule_sm.core.projection import Projection
from tests.core import logs
from tests.minimal_host import MinimalHost

CHANGE = "schedule/change"


def guarded(*changes, seed_length=0):
    host = MinimalHost()
    session = host.session("s", seed_length)
    session.events.extend(logs.log(*changes))
    invariant.apply(host)
    return host, session


def test_loading_without_sessions_names_the_service():
    host = MinimalHost()
    host.sessions = None
    with pytest.raises(CompositionError, match="'sessions'"):
        invariant.apply(host)


def test_existing_corrupt_log_raises_with_session_and_seq_and_mounts_nothing():
    host = MinimalHost()
    host.session("good").events.extend(logs.log(logs.create("schedule-1")))
    host.session("bad").events.extend(logs.log("other", logs.create("schedule-1"), logs.delete("schedule-2")))
    with pytest.raises(ScheduleLogError) as caught:
        invariant.apply(host)
    assert (caught.value.session_id, caught.value.seq) == ("bad", 2)
    assert host.guards == []


@pytest.mark.parametrize(
    "wrong",
    [
        logs.delete("schedule-9"),
        logs.dispatch("schedule-2"),
        logs.create("schedule-1"),
        {**logs.delete("schedule-1"), "extra": 1},
        {**logs.delete("schedule-1"), "version": 0},
        logs.create("schedule-3", prompt=" tea "),
        None,
        [],
    ],
)
def test_candidate_that_would_corrupt_the_log_is_refused_and_nothing_appended(wrong):
    _, session = guarded(logs.create("schedule-1"), logs.create("schedule-2"), logs.delete("schedule-2"))
    with pytest.raises(ScheduleLogError) as caught:
        session.append(CHANGE, wrong)
    assert (caught.value.session_id, caught.value.seq) == ("s", 3)
    assert len(session.events) == 3
    session.append(CHANGE, logs.delete("schedule-1"))
    assert len(session.events) == 4


def test_candidate_of_a_later_version_says_so():
    _, session = guarded()
    with pytest.raises(ScheduleVersionError, match="newer release"):
        session.append(CHANGE, {**logs.delete("schedule-1"), "version": 2})


def test_other_events_pass_also_beside_a_corrupt_log():
    _, session = guarded()
    session.events.extend(logs.log(logs.delete("nobody")))
    session.append("message", {"text": "hello"})
    assert len(session.events) == 2


def test_log_that_became_corrupt_is_reported_by_every_candidate():
    _, session = guarded(logs.create("schedule-1"))
    session.events.append(logs.log("x", logs.delete("nobody"))[1])
    for _ in range(3):
        with pytest.raises(ScheduleLogError) as caught:
            session.append(CHANGE, logs.delete("schedule-1"))
        assert (caught.value.session_id, caught.value.seq) == ("s", 1)
    assert len(session.events) == 2


def test_what_a_fork_inherited_is_not_looked_at():
    _, session = guarded(logs.delete("nobody"), seed_length=1)
    session.append(CHANGE, logs.create("schedule-1"))
    assert len(session.events) == 2


def test_session_created_after_loading_is_guarded_too():
    host, _ = guarded()
    session = host.session("later")
    with pytest.raises(ScheduleLogError):
        session.append(CHANGE, logs.delete("nobody"))


def test_each_event_is_read_once_however_many_candidates_come(monkeypatch):
    """Without an owner nobody but the invariant holds the projection: it must not be folded anew each time."""
    _, session = guarded()
    applied = []
    apply_ = Projection._apply
    monkeypatch.setattr(
        Projection, "_apply", lambda self, change: (applied.append(change), apply_(self, change))[1]
    )
    for number in range(1, 51):
        session.append(CHANGE, logs.create(f"schedule-{number}"))
        gc.collect(0)
    assert len(applied) == 49


def test_sessions_that_are_gone_are_let_go():
    host, _ = guarded()
    for number in range(1_000):
        host.session(str(number)).append(CHANGE, logs.create("schedule-1"))
        host.known.clear()
    checks = host.guards[0].__self__
    assert len(checks._kept) <= 9


@pytest.mark.asyncio
async def test_unloading_takes_the_guard_away():
    host, session = guarded()
    await host.close()
    session.append(CHANGE, logs.delete("nobody"))
    assert len(session.events) == 1


@pytest.mark.asyncio
async def test_invariant_and_plugin_together_deliver(travel):
    host = MinimalHost()
    invariant.apply(host)
    plugin.apply(host)
    agent = host.create_agent("a", host.session("s"))
    tools = agent.ctx.tools.by_name
    for _ in range(2):
        await tools["schedule_create"].execute({"prompt": "tea", "after_seconds": 5}, agent)
    await tools["schedule_delete"].execute({"id": "schedule-2"}, agent)
    await travel(5)
    assert len(agent.turns) == 1
    await host.close()
    await agent.close()


@pytest.mark.asyncio
async def test_corrupt_log_is_answered_by_every_call_with_the_invariant_loaded(travel):
    host = MinimalHost()
    invariant.apply(host)
    plugin.apply(host)
    agent = host.create_agent("a", host.session("s"))
    await travel.settle()
    agent.session.events.extend(logs.log(logs.delete("nobody")))
    for name, arguments in [
        ("schedule_list", {}),
        ("schedule_create", {"prompt": "tea", "after_seconds": 5}),
    ] * 2:
        value = (await agent.ctx.tools.by_name[name].execute(arguments, agent)).value
        assert value["code"] == "corrupt_schedule_log"
    await host.close()
    await agent.close()

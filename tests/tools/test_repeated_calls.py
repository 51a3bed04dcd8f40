"""A create repeated in its turn: one reminder, whatever the first call was told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from schedule_sm import ScheduleHost, repeated_calls
from schedule_sm.core.changes import new_entry
from schedule_sm.embedded import BuiltinRunner
from schedule_sm.repeated_calls import CALLS_OF_A_TURN, SESSIONS, CreateCall, TurnCreates, turn_creates
from schedule_sm.tool_spec import ToolSpec
from tests.core import logs
from tests.owner.support import CLOCK, appending, calls, changes, scripted
from tests.tools.test_tools import CREATE, quiet

pytestmark = pytest.mark.asyncio


async def spec(host, turn_id="turn-1"):
    """The create of ``host``'s agent, offered in a turn."""
    await host.call_tool("schedule_create", "not an object")  # registers the tools
    return ToolSpec(host.agent.ctx.tools.by_name["schedule_create"], host.agent, turn_id)


async def test_repetition_gets_the_first_view_after_a_fresh_preflight():
    host = quiet(scripted())
    create = await spec(host)
    first = await create.invoke(CREATE, "call-1")
    host.trace.clear()
    again = await create.invoke(dict(CREATE), "call-1")
    assert again == first
    assert calls(host) == ["flush", "wake"]
    assert changes(host) == ["create schedule-1"]


@pytest.mark.parametrize(
    ("arguments", "call_id", "turn_id"),
    [
        ({**CREATE, "after_seconds": 61}, "call-1", "turn-1"),
        ({**CREATE, "prompt": "other words"}, "call-1", "turn-1"),
        (CREATE, "call-2", "turn-1"),
        (CREATE, "call-1", "turn-2"),
        (CREATE, None, "turn-1"),
    ],
)
async def test_a_call_that_differs_in_anything_is_another_reminder(arguments, call_id, turn_id):
    host = quiet(scripted())
    create = await spec(host)
    await create.invoke(CREATE, "call-1")
    await create.invoke(arguments, call_id, turn_id)
    assert changes(host) == ["create schedule-1", "create schedule-2"]


async def test_without_a_turn_nothing_is_remembered():
    host = quiet(scripted())
    create = await spec(host, turn_id=None)
    await create.invoke(CREATE, "call-1")
    await create.invoke(CREATE, "call-1")
    assert changes(host) == ["create schedule-1", "create schedule-2"]


async def test_an_uncertain_create_that_is_in_the_log_is_told_once_it_is_certain():
    host = quiet(scripted(flush=["ok", "false", "false", "ok"]))
    create = await spec(host)
    first, still, certain = [(await create.invoke(CREATE, "call-1")).value for _ in range(3)]
    assert (first["code"], first["id"]) == ("persistence_uncertain", "schedule-1")
    assert still["code"] == "persistence_uncertain"
    assert certain["id"] == "schedule-1"
    assert changes(host) == ["create schedule-1"]


async def test_a_create_that_never_got_into_the_log_is_made_anew():
    host = quiet(scripted(append=["throw"]))
    create = await spec(host)
    assert (await create.invoke(CREATE, "call-1")).value["code"] == "internal_error"
    assert (await create.invoke(CREATE, "call-1")).value["id"] == "schedule-1"
    assert changes(host) == ["create schedule-1"]


async def test_another_writers_reminder_under_the_same_id_is_not_taken_for_it():
    other = logs.create("schedule-1", at="2026-08-05T12:01:00.000Z", prompt="somebody else's")
    host = quiet(scripted(append=[{"outcome": "throw", "during": appending(other)}]))
    create = await spec(host)
    await create.invoke(CREATE, "call-1")
    assert (await create.invoke(CREATE, "call-1")).value["id"] == "schedule-2"


@pytest.mark.parametrize("end", ["delete", "dispatch"])
async def test_one_that_has_ended_since_is_still_answered_with_its_view_as_of_now(end):
    host = quiet(scripted())
    create = await spec(host)
    first = (await create.invoke(CREATE, "call-1")).value
    host.clock.wall_ms = CLOCK + 61_000
    host.act(appending(getattr(logs, end)("schedule-1"))[0])
    again = (await create.invoke(CREATE, "call-1")).value
    assert again == {**first, "state": "overdue"}
    assert changes(host) == ["create schedule-1"]


async def test_repetitions_in_flight_together_are_ordered_by_the_lane():
    host = quiet(scripted())
    create = await spec(host)
    results = await asyncio.gather(*(create.invoke(CREATE, "call-1") for _ in range(5)))
    assert {result.content for result in results} == {results[0].content}
    assert changes(host) == ["create schedule-1"]


async def test_a_first_caller_that_was_cancelled_counts_too():
    host = quiet(scripted(flush=["ok", {"outcome": "ok", "hold": "barrier"}]))
    create = await spec(host)
    first = asyncio.create_task(create.invoke(CREATE, "call-1"))
    await host.settle()
    first.cancel()
    again = asyncio.create_task(create.invoke(CREATE, "call-1"))
    await host.settle()
    host.act({"do": "release", "hold": "barrier", "outcome": "ok"})
    assert (await again).value["id"] == "schedule-1"
    assert changes(host) == ["create schedule-1"]


async def test_only_the_latest_turn_is_remembered_and_only_so_many_of_its_calls():
    creates = TurnCreates()
    made = [CreateCall("turn-1", f"call-{number}", "tea", 1) for number in range(CALLS_OF_A_TURN + 1)]
    record = new_entry("schedule-1", "tea", 30, logs.INSTANT_MS - 30_000)
    events = logs.log(logs.create("schedule-1"))
    for call in made:
        creates.remember(call, record, 0)
    assert creates.recorded(made[0], events) is None
    assert creates.recorded(made[1], events) == record
    creates.remember(CreateCall("turn-2", "call-1", "tea", 1), record, 0)
    assert creates.recorded(made[1], events) is None


async def test_a_closed_session_is_remembered_until_too_many_others_were_opened(monkeypatch):
    monkeypatch.setattr(repeated_calls, "_KNOWN", type(repeated_calls._KNOWN)())
    service, session = object(), SimpleNamespace(id="s")
    first = turn_creates(service, session)
    assert turn_creates(service, session) is first
    assert turn_creates(object(), session) is not first
    for number in range(SESSIONS):
        turn_creates(service, SimpleNamespace(id=f"other-{number}"))
    assert turn_creates(service, session) is not first


async def test_a_session_that_another_host_of_the_process_opens_again_is_remembered(tmp_path):
    async def call(path):
        async with ScheduleHost.open(path, runner=BuiltinRunner()) as host:
            live = await host.session("s")
            create = ToolSpec(next(iter(live.agent.ctx.tools)), live.agent, "turn-1")
            return await create.invoke(CREATE, "call-1"), len(live.events)

    first, again, elsewhere = [await call(tmp_path / name) for name in ("a.db", "a.db", "b.db")]
    assert again == first
    assert elsewhere[1] == 1

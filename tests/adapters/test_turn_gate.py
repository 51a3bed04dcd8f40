"""The gate of a loop that the user owns: alone, as an agent's admission, and in front of an embedded host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from schedule_sm import ScheduleHost, plugin, schedule_owner
from schedule_sm.adapters.turn_gate import GateRunner, GateTurn, TurnGate
from schedule_sm.embedded.errors import HostClosedError, TurnFailedError
from schedule_sm.stores.memory import MemoryPlace, MemoryStore
from schedule_sm.testing.adapter_contract import ADAPTER_CHECKS, Request, Script, run_check
from schedule_sm.testing.adapter_suite import FRAMING, ended, operations
from tests.minimal_host import MinimalHost, Scope

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def looping(gate: TurnGate, answer: Any):
    """A plain loop around ``answer(text)``."""

    async def take_turns() -> None:
        while True:
            async with gate.next_turn() as text:
                await answer(text)

    loop = asyncio.create_task(take_turns())
    try:
        yield loop
    finally:
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop


async def steps(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# -- the gate alone -------------------------------------------------------------------------------------------


async def test_messages_have_their_turns_in_order() -> None:
    gate = TurnGate()
    gate.send("one")
    gate.followup(SimpleNamespace(text="two"))
    seen = []
    for _ in range(2):
        async with gate.next_turn() as text:
            assert gate.status == "running"
            seen.append(text)
    assert seen == ["one", "two"]
    assert (gate.status, gate.turn) == ("idle", None)


async def test_no_reservation_while_a_turn_runs_or_input_waits() -> None:
    gate = TurnGate()
    gate.send("hello")
    assert gate.reserve_turn_admission() is None
    async with gate.next_turn():
        assert gate.reserve_turn_admission() is None
    release = gate.reserve_turn_admission()
    assert release is not None
    assert gate.reserve_turn_admission() is None
    release()
    assert gate.reserve_turn_admission() is not None
    release()
    assert gate.reserve_turn_admission() is None  # a second call of a releaser gives back nobody else's


async def test_no_turn_starts_while_admission_is_reserved() -> None:
    gate, seen = TurnGate(), []

    async def answer(text: str) -> None:
        seen.append(text)

    async with looping(gate, answer):
        release = gate.reserve_turn_admission()
        assert release is not None
        gate.followup(SimpleNamespace(text="reminder"))
        gate.send("hello")
        await steps()
        assert seen == []
        release()
        await steps()
        assert seen == ["reminder", "hello"]


async def test_two_loops_on_one_gate_take_turns_one_at_a_time() -> None:
    gate, running, seen = TurnGate(), [0], []

    async def answer(text: str) -> None:
        running[0] += 1
        assert running[0] == 1
        await asyncio.sleep(0)
        seen.append(text)
        running[0] -= 1

    async with looping(gate, answer), looping(gate, answer):
        for number in range(6):
            gate.send(str(number))
        await gate.when_idle()
    assert seen == [str(number) for number in range(6)]


async def test_waiting_for_idleness_is_level_triggered_and_cancelling_one_waiter_harms_no_other() -> None:
    gate = TurnGate()
    await gate.when_idle()
    release = gate.reserve_turn_admission()
    assert release is not None
    first, second = (asyncio.create_task(gate.when_idle()) for _ in range(2))
    await steps()
    first.cancel()
    await steps()
    assert (first.cancelled(), second.done()) == (True, False)
    release()
    await steps()
    assert second.done()


async def test_a_loop_cancelled_while_it_waits_takes_nothing() -> None:
    gate = TurnGate()

    async def nothing(text: str) -> None:
        raise AssertionError(text)

    async with looping(gate, nothing):
        await steps()
    gate.send("hello")
    async with gate.next_turn() as text:
        assert text == "hello"


async def test_a_turn_that_fails_is_over_and_one_that_is_cancelled_waits_again_in_front() -> None:
    gate = TurnGate()
    gate.send("one")
    gate.send("two")
    with pytest.raises(ZeroDivisionError):
        async with gate.next_turn():
            raise ZeroDivisionError
    gate.send("three")
    with pytest.raises(asyncio.CancelledError):
        async with gate.next_turn():
            raise asyncio.CancelledError
    async with gate.next_turn() as text:
        assert text == "two"
    async with gate.next_turn() as text:
        assert text == "three"


async def test_status_is_told_at_each_change_and_a_reservation_is_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate, told = TurnGate(), []
    undo = gate.on_status(told.append)
    undo_broken = gate.on_status(lambda status: 1 / 0)
    release = gate.reserve_turn_admission()
    assert release is not None
    release()
    gate.send("hello")
    assert told == []
    async with gate.next_turn():
        assert told == ["running"]
    assert told == ["running", "idle"]
    assert "ZeroDivisionError" in caplog.text
    undo()
    undo_broken()
    gate.send("hello")
    async with gate.next_turn():
        pass
    assert len(told) == 2


# -- as the admission of an agent that keeps its inbox in memory ----------------------------------------------


class GateAgent:
    """An agent of a host of one's own."""

    is_root = True

    def __init__(self, session: Any, gate: TurnGate) -> None:
        self.id, self.session, self.ctx = "helper", session, Scope()
        self.reserve_turn_admission, self.followup, self.when_idle = (
            gate.reserve_turn_admission,
            gate.followup,
            gate.when_idle,
        )
        self.gate = gate
        gate.on_status(lambda status: self.ctx.emit("agent/status", status))

    @property
    def status(self) -> str:
        return self.gate.status


async def test_the_plugin_delivers_between_the_turns_of_the_loop(travel) -> None:
    gate, host, seen, finish = TurnGate(), MinimalHost(), [], asyncio.Event()
    plugin.apply(host)
    agent = host.live["helper"] = GateAgent(host.session("main"), gate)
    host.emit("agent/created", agent)

    async def answer(text: str) -> None:
        seen.append(text)
        if text == "long":
            await finish.wait()

    create = agent.ctx.tools.by_name["schedule_create"]
    async with looping(gate, answer):
        await create.execute({"prompt": "stretch", "after_seconds": 60}, agent)
        gate.send("long")
        await travel(120)
        assert seen == ["long"]
        finish.set()
        await travel.settle()
        assert seen[1].startswith(FRAMING)
        assert [event["data"]["operation"] for event in agent.session.events] == ["create", "dispatch"]
        owner = schedule_owner(agent)
        assert owner is not None
        assert owner.state == "empty"
        await agent.ctx.close()
        await host.close()


# -- in front of an embedded host -----------------------------------------------------------------------------


async def test_reminders_come_through_the_gate_and_are_durable(travel) -> None:
    gate, place = TurnGate(), MemoryPlace()
    seen: list[Any] = []

    async def answer(text: str) -> None:
        turn = gate.turn
        assert turn is not None
        assert turn.text == text
        seen.append((turn.session_id, text, list(turn.history)))
        if text == "remind me":
            create = next(tool for tool in turn.tools if tool.name == "schedule_create")
            result = await create.invoke({"prompt": "stretch", "after_seconds": 60}, "c1")
            assert result.value["id"] == "schedule-1"
        turn.reply = f"re: {text[:9]}"

    async with looping(gate, answer):
        async with ScheduleHost.open(store=MemoryStore(place), runner=GateRunner(gate)) as host:
            live = await host.session("s")
            assert await live.send("remind me") == "re: remind me"
            await travel(60)
            assert operations(live) == ["create", "dispatch"]
            assert ended(live)[1]["reply"] == "re: [SCHEDULE"
        async with ScheduleHost.open(store=MemoryStore(place), runner=GateRunner(gate)) as host:
            live = await host.session("s")
            await live.send("half \ud83d")
    assert [(name, text.split("\n")[0]) for name, text, _ in seen] == [
        ("s", "remind me"),
        ("s", "[SCHEDULE REMINDER]"),
        ("s", "half \\ud83d"),
    ]
    history = seen[-1][-1]
    assert [item["role"] for item in history] == ["user", "assistant", "user", "assistant", "user"]
    assert json.dumps(history)


async def test_a_block_that_raises_fails_the_turn_and_the_next_one_works() -> None:
    gate = TurnGate()

    async def take_turns() -> None:
        while True:
            with suppress(ZeroDivisionError):
                async with gate.next_turn() as text:
                    assert gate.turn is not None
                    gate.turn.reply = str(1 / int(text))

    loop = asyncio.create_task(take_turns())
    async with ScheduleHost.open(store=MemoryStore(), runner=GateRunner(gate)) as host:
        live = await host.session("s")
        with pytest.raises(TurnFailedError, match="ZeroDivisionError"):
            await live.send("0")
        assert await live.send("1") == "1.0"
    loop.cancel()
    await asyncio.wait({loop})


async def test_what_is_said_to_a_loop_that_has_ended_waits_for_another_loop_or_the_session_to_be_closed() -> (
    None
):
    gate = TurnGate()

    async def answer(text: str) -> None:
        assert gate.turn is not None
        if text == "first":
            raise RuntimeError("mine")
        gate.turn.reply = f"re: {text}"

    async with ScheduleHost.open(store=MemoryStore(), runner=GateRunner(gate)) as host:
        live = await host.session("s")
        with suppress(RuntimeError):
            async with looping(gate, answer) as loop:
                with pytest.raises(TurnFailedError):
                    await live.send("first")
                await asyncio.wait({loop})
        second = asyncio.ensure_future(live.send("second"))
        await steps(50)
        assert not second.done()
        async with looping(gate, answer):
            assert await second == "re: second"
        third = asyncio.ensure_future(live.send("third"))
        await steps(50)
        await live.close()
        with pytest.raises(HostClosedError):
            await third
        async with looping(gate, answer):
            again = await host.session("s")
            await again.agent.when_idle()
            assert [turn["reply"] for turn in ended(again)] == ["", "re: second", "re: third"]


@pytest.mark.parametrize("is_taken", [True, False])
async def test_a_session_closed_in_mid_turn_takes_the_message_back_and_offers_it_again(
    is_taken: bool,
) -> None:
    gate, seen, finish = TurnGate(), [], asyncio.Event()

    async def answer(text: str) -> None:
        seen.append(text)
        await finish.wait()

    async with ScheduleHost.open(store=MemoryStore(), runner=GateRunner(gate)) as host:
        live = await host.session("s")
        sending = asyncio.create_task(live.send("hello"))
        await steps()
        if not is_taken:
            await live.close()
        async with looping(gate, answer):
            await steps()
            assert seen == ["hello"] * is_taken
            await live.close()
        with pytest.raises(HostClosedError):
            await sending
        await gate.when_idle()
        finish.set()
        async with looping(gate, answer):
            again = await host.session("s")
            await again.agent.when_idle()
            assert [(end["attempt"], end["error"]) for end in ended(again)] == [(2, None)]
    assert seen == ["hello"] * (2 if is_taken else 1)


async def test_a_loop_that_is_cancelled_and_started_again_is_offered_the_same_turn() -> None:
    gate, seen, finish = TurnGate(), [], asyncio.Event()

    async def answer(text: str) -> None:
        seen.append(text)
        await finish.wait()

    async with ScheduleHost.open(store=MemoryStore(), runner=GateRunner(gate)) as host:
        live = await host.session("s")
        sending = asyncio.create_task(live.send("hello"))
        async with looping(gate, answer):
            await steps(10)
        finish.set()
        async with looping(gate, answer):
            assert await sending == ""
        assert [end["attempt"] for end in ended(live)] == [1]
    assert seen == ["hello", "hello"]


class OwnLoop:
    """A loop as a user writes it, as the adapter contract takes it."""

    name = "own loop"

    def __init__(self) -> None:
        self.loops: list[asyncio.Task[None]] = []

    def runner(self, script: Script, own_tools: Sequence[str] = ()) -> GateRunner:
        gate = TurnGate()
        self.loops.append(asyncio.create_task(self.take_turns(gate, script)))
        return GateRunner(gate)

    async def take_turns(self, gate: TurnGate, script: Script) -> None:
        while True:
            with suppress(RuntimeError):
                async with gate.next_turn():
                    assert gate.turn is not None
                    await self.take_turn(gate.turn, script)

    async def take_turn(self, turn: GateTurn, script: Script) -> None:
        tools = {tool.name: tool for tool in turn.tools}
        texts = [item["content"] for item in turn.history if item["role"] == "user"]
        results: list[str] = []
        while True:
            shown = {name: tools[name].parameters for name in tools}
            reply = await script(Request(texts, tuple(results), shown))
            if isinstance(reply, str):
                turn.reply = reply
                return
            for call in reply:
                known = call.name in tools
                content = (
                    (await tools[call.name].invoke(call.arguments, call.call_id)).content if known else "?"
                )
                results.append(content)
                turn.items.append({"role": "tool", "content": content})


NOT_FOR_A_LOOP = {
    # a block goes on when its session is closed, and this check's first answer never comes
    "a_call_repeated_in_a_turn_offered_again_makes_no_second_reminder",
    "two_sessions_of_one_agent_are_kept_apart",  # one loop takes their turns one after the other, not at once
    "a_call_from_another_event_loop_is_refused",  # a gate belongs to one loop's thread
    "a_tool_name_taken_twice_is_refused_before_the_model_is_asked",  # which tools there are is the loop's own affair
}


@pytest.mark.parametrize(
    "check",
    [check for check in ADAPTER_CHECKS if check.__name__ not in NOT_FOR_A_LOOP],
    ids=lambda check: check.__name__,
)
async def test_a_loop_of_ones_own_keeps_the_adapter_contract(check: Any, travel) -> None:
    adapter = OwnLoop()
    try:
        await run_check(check, adapter, travel)
    finally:
        for loop in adapter.loops:
            loop.cancel()
        await asyncio.wait(adapter.loops)

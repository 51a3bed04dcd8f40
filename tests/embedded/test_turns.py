"""Turns and admission: one thing at a time, users before reminders, a failing runner ends its turn only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from schedule_sm.embedded import ScheduleHost, TurnOutput
from schedule_sm.embedded.errors import HostClosedError, TurnFailedError
from schedule_sm.stores.memory import MemoryPlace, MemoryStore
from schedule_sm.tool_spec import ToolSpec
from tests.embedded.scripted import ScriptedRunner, by_agent, tool, types_of


@pytest.mark.asyncio
async def test_a_turn_is_recorded_with_its_history() -> None:
    runner = ScriptedRunner()
    async with ScheduleHost.open(store=MemoryStore(), runner=runner) as host:
        session = await host.session("s")
        assert await session.send("one") == "re: one"
        assert await session.send("two") == "re: two"
        assert types_of(session) == ["inbox/message", "turn/started", "turn/ended"] * 2
    first, second = runner.histories
    assert first == [{"text": "one", "id": "s/message-0"}]
    assert second == [*first, {"said": "re: one"}, {"text": "two", "id": "s/message-3"}]


@pytest.mark.asyncio
async def test_turns_are_iterated_once_each_until_the_session_closes() -> None:
    async with ScheduleHost.open(store=MemoryStore(), runner=ScriptedRunner()) as host:
        session = await host.session("s")
        await session.send("before")

        async def follow() -> list[tuple[str, str | None, int]]:
            return [
                (turn.reply, turn.error, turn.message.metadata["attempt"]) async for turn in session.turns()
            ]

        following = asyncio.ensure_future(follow())
        await asyncio.sleep(0)
        await session.send("after")
        await session.close()
        assert await following == [("re: before", None, 1), ("re: after", None, 1)]
        again = await host.session("s")
        earlier = again.turns(after_seq=-1)
        assert [(await anext(earlier)).message.text for _ in range(2)] == ["before", "after"]
        assert not (await anext(again.turns(after_seq=-1))).is_reminder


@pytest.mark.asyncio
async def test_a_failing_turn_ends_and_the_agent_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def on_turn(text: str, _tools: Sequence[ToolSpec]) -> str | None:
        match text:
            case "raise":
                raise RuntimeError("secret")
            case "cancel":
                raise asyncio.CancelledError
            case "type":
                return 7  # type: ignore[return-value]
            case _:
                return None

    async with ScheduleHost.open(store=MemoryStore(), runner=ScriptedRunner(on_turn)) as host:
        session = await host.session("s")
        for text, reason in (("raise", "RuntimeError"), ("cancel", "cancelled"), ("type", "TypeError")):
            with pytest.raises(TurnFailedError, match=reason):
                await session.send(text)
        assert await session.send("fine") == "re: fine"
        ended = [event["data"] for event in session.events if event["type"] == "turn/ended"]
        assert [end["error"] is None for end in ended] == [False, False, False, True]
        assert "secret" not in str(ended)
        assert len(session.log.inbox) == 0
    assert "secret" in caplog.text


@pytest.mark.asyncio
async def test_items_that_are_not_json_fail_the_turn() -> None:
    class Odd(ScriptedRunner):
        async def run_turn(self, *_: Any) -> TurnOutput:  # type: ignore[override]
            return TurnOutput([object()], "reply")  # type: ignore[list-item]

    async with ScheduleHost.open(store=MemoryStore(), runner=Odd()) as host:
        session = await host.session("s")
        with pytest.raises(TurnFailedError, match="not JSON"):
            await session.send("x")


@pytest.mark.asyncio
async def test_history_of_another_format_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        await (await host.session("s")).send("one")
    other = ScriptedRunner()
    other.format = "scripted/2"
    async with ScheduleHost.open(store=store, runner=other) as host:
        await (await host.session("s")).send("two")
    assert len(other.histories[0]) == 1
    assert "scripted/1" in caplog.text


@pytest.mark.asyncio
async def test_reservation_and_turn_exclude_each_other(travel) -> None:
    inside, leave = asyncio.Event(), asyncio.Event()

    async def on_turn(_text: str, _tools: Sequence[ToolSpec]) -> None:
        inside.set()
        await leave.wait()

    async with ScheduleHost.open(store=MemoryStore(), runner=ScriptedRunner(on_turn)) as host:
        session = await host.session("s")
        agent = session.agent
        news: list[str] = []
        agent.ctx.on("agent/status", news.append)
        release = agent.reserve_turn_admission()
        assert release is not None
        assert agent.reserve_turn_admission() is None
        sending = asyncio.ensure_future(session.send("x"))
        await travel.settle()
        assert (agent.status, inside.is_set(), news) == ("idle", False, [])
        release()
        release()
        await inside.wait()
        assert (agent.status, news) == ("running", ["running"])
        assert agent.reserve_turn_admission() is None
        waiters = [asyncio.ensure_future(agent.when_idle()) for _ in range(3)]
        await travel.settle()
        waiters[1].cancel()
        await travel.settle()
        assert [waiter.done() for waiter in waiters] == [False, True, False]
        leave.set()
        await sending
        await travel.settle()
        assert [waiter.done() for waiter in waiters] == [True, True, True]
        assert (agent.status, news) == ("idle", ["running", "idle"])
        await agent.when_idle()


@pytest.mark.asyncio
async def test_user_goes_before_the_next_reminder(travel) -> None:
    """500 overdue reminders do not keep a user waiting: at most the one in progress goes first."""
    gate = asyncio.Event()

    async def on_turn(text: str, _tools: Sequence[ToolSpec]) -> None:
        if "reminder 3" in text:
            await gate.wait()

    store = MemoryStore()
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        tools = by_agent((await host.session("s")).agent)
        for n in range(60):
            await tools["create"].invoke({"prompt": f"reminder {n}.", "after_seconds": 5 + n})
    await travel.jump(1_000)
    runner = ScriptedRunner(on_turn)
    async with ScheduleHost.open(store=store, runner=runner) as host:
        session = await host.session("s")
        await travel.settle()
        assert len(runner.texts) == 4
        sends = [asyncio.ensure_future(session.send(f"user {n}")) for n in range(2)]
        await travel.settle()
        gate.set()
        await asyncio.gather(*sends)
        assert runner.texts[4:6] == ["user 0", "user 1"]
        await travel.settle()
        assert len(runner.texts) == 62
        assert [text.split("\n")[-1].split()[-1] for text in runner.texts[6:]] == [
            f'{n}."' for n in range(4, 60)
        ]
        assert types_of(session).count("dispatch") == types_of(session).count("turn/ended") - 2 == 60


@pytest.mark.asyncio
async def test_a_turn_may_call_the_tools_while_a_reminder_waits_for_it(travel) -> None:
    replies: list[Any] = []

    async def on_turn(text: str, tools: Sequence[ToolSpec]) -> None:
        if text == "busy":
            await asyncio.sleep(10)
            replies.append((await tool(tools, "list").invoke({})).value)
            replies.append(
                (await tool(tools, "create").invoke('{"prompt": "two", "after_seconds": 5}')).value
            )

    runner = ScriptedRunner(on_turn)
    async with ScheduleHost.open(store=MemoryStore(), runner=runner) as host:
        session = await host.session("s")
        await by_agent(session.agent)["create"].invoke({"prompt": "one", "after_seconds": 5})
        sending = asyncio.ensure_future(session.send("busy"))
        await travel(11)
        await sending
        assert [view["state"] for view in replies[0]] == ["overdue"]
        assert replies[1]["id"] == "schedule-2"
        await travel(10)
        assert len(runner.texts) == 3


@pytest.mark.asyncio
async def test_closing_cuts_a_turn_off_and_it_is_offered_again_first(travel) -> None:
    async def hang(text: str, _tools: Sequence[ToolSpec]) -> None:
        await asyncio.sleep(3_600)

    store = MemoryStore()
    async with ScheduleHost.open(store=store, runner=ScriptedRunner(hang)) as host:
        session = await host.session("s")
        await by_agent(session.agent)["create"].invoke({"prompt": "one", "after_seconds": 5})
        await travel(6)
        later = asyncio.ensure_future(session.send("later"))
        await travel(1)
        first = session.log.inbox.next_message(10**6)
    with pytest.raises(HostClosedError):
        await later
    assert first is not None
    runner = ScriptedRunner()
    async with ScheduleHost.open(store=store, runner=runner) as host:
        session = await host.session("s")
        await travel(1)
        assert runner.texts == [first.text, "later"]
        turns = session.turns()
        seen = [await anext(turns) for _ in range(2)]
        assert [(turn.is_reminder, turn.message.metadata["attempt"]) for turn in seen] == [
            (True, 2),
            (False, 1),
        ]
        assert types_of(session).count("inbox/message") == 2


@pytest.mark.asyncio
async def test_a_runner_that_ignores_its_cancellation_is_left_behind(
    travel, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn: list[asyncio.Task[Any] | None] = []

    async def on_turn(_text: str, _tools: Sequence[ToolSpec]) -> None:
        stubborn.append(asyncio.current_task())
        for _ in range(2):
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                continue

    async with ScheduleHost.open(store=MemoryStore(), runner=ScriptedRunner(on_turn)) as host:
        session = await host.session("s")
        sending = asyncio.ensure_future(session.send("x"))
        await travel(1)
        closing = asyncio.ensure_future(session.close())
        await travel(6)
        assert closing.done()
    with pytest.raises(HostClosedError):
        await sending
    assert "does not let itself be cancelled" in caplog.text
    assert stubborn[0] is not None
    stubborn[0].cancel()
    await asyncio.wait({stubborn[0]})


@pytest.mark.asyncio
async def test_a_cancelled_sender_leaves_its_turn_running(travel) -> None:
    runner = ScriptedRunner()
    async with ScheduleHost.open(store=MemoryStore(), runner=runner) as host:
        session = await host.session("s")
        sending = asyncio.ensure_future(session.send("x"))
        await asyncio.sleep(0)
        sending.cancel()
        await travel.settle()
        assert runner.texts == ["x"]
        assert types_of(session)[-1] == "turn/ended"


class Parting:
    """A runner's work that takes its time over its cancellation, until it may end."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.is_leaving = asyncio.Event()
        self.may_leave = asyncio.Event()

    async def work(self, text: str, tools: Sequence[ToolSpec]) -> None:
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.is_leaving.set()
            await self.may_leave.wait()
            raise


class OwnError(BaseException):
    """Such as a library in another language raises."""


@pytest.mark.parametrize(
    "error", [OwnError("x"), GeneratorExit(), BaseExceptionGroup("several", [OwnError("y")])], ids=type
)
@pytest.mark.asyncio
async def test_a_turn_that_raises_what_is_no_exception_fails_once(error: BaseException) -> None:
    async def fail(text: str, tools: Sequence[ToolSpec]) -> None:
        if text == "fail":
            raise error

    runner = ScriptedRunner(fail)
    async with ScheduleHost.open(store=MemoryStore(), runner=runner) as host:
        session = await host.session("s")
        with pytest.raises(TurnFailedError, match=type(error).__name__):
            await session.send("fail")
        assert await session.send("next") == "re: next"
    assert runner.texts == ["fail", "next"]


@pytest.mark.asyncio
async def test_a_text_in_two_halves_is_offered_as_it_is_read_back() -> None:
    place, parting = MemoryPlace(), Parting()
    parting.may_leave.set()
    runner, again = ScriptedRunner(parting.work), ScriptedRunner()
    async with ScheduleHost.open(store=MemoryStore(place), runner=runner) as host:
        sending = asyncio.ensure_future((await host.session("s")).send("\ud83d" + "\ude00"))
        await parting.has_begun.wait()
    with pytest.raises(HostClosedError):
        await sending
    async with ScheduleHost.open(store=MemoryStore(place), runner=again) as host:
        async for _ in (await host.session("s")).turns():
            break
    assert runner.texts == again.texts == ["😀"]


@pytest.mark.asyncio
async def test_a_session_that_is_being_closed_is_waited_for_by_whoever_closes_or_opens_it() -> None:
    parting = Parting()
    runner = ScriptedRunner(parting.work)
    async with ScheduleHost.open(store=MemoryStore(), runner=runner) as host:
        session = await host.session("s")
        sending = asyncio.ensure_future(session.send("one"))
        await parting.has_begun.wait()
        closing = asyncio.ensure_future(session.close())
        await parting.is_leaving.wait()
        runner.on_turn = None
        others = [asyncio.ensure_future(each) for each in (session.close(), host.session("s"))]
        elsewhere = await host.session("t")  # nobody else waits
        assert not any(each.done() for each in others)
        parting.may_leave.set()
        await closing
        _, opened = await asyncio.gather(*others)
        assert opened is not session
        with pytest.raises(HostClosedError):
            await sending
        async for turn in opened.turns():
            assert turn.reply == "re: one"
            break
        await elsewhere.close()


@pytest.mark.asyncio
async def test_a_host_that_is_left_while_a_session_is_being_closed_loses_nothing_of_it() -> None:
    place, parting = MemoryPlace(), Parting()
    runner = ScriptedRunner(parting.work)
    async with ScheduleHost.open(store=MemoryStore(place), runner=runner) as host:
        session = await host.session("s")
        first = asyncio.ensure_future(session.send("first"))
        await parting.has_begun.wait()
        second = asyncio.ensure_future(session.send("second"))
        closing = asyncio.ensure_future(session.close())
        await parting.is_leaving.wait()
        asyncio.get_running_loop().call_later(0.01, parting.may_leave.set)
    assert closing.done()
    for sending in (first, second):
        with pytest.raises(HostClosedError):
            await sending
    again = ScriptedRunner()
    async with ScheduleHost.open(store=MemoryStore(place), runner=again) as host:
        turns = (await host.session("s")).turns()
        assert [(await anext(turns)).reply for _ in range(2)] == ["re: first", "re: second"]

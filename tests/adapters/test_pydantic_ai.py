"""The pydantic-ai adapter: the contract, and what is special about this framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    FunctionToolset,
    ModelMessage,
    ModelResponse,
    RunContext,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from schedule_sm import CompositionError, ScheduleHost
from schedule_sm.adapters.pydantic_ai import PydanticAIRunner
from schedule_sm.embedded.errors import TurnFailedError
from schedule_sm.stores.memory import MemoryStore
from schedule_sm.testing.adapter_contract import ADAPTER_CHECKS, Call, Scripted, run_check
from schedule_sm.testing.adapter_suite import create, ended, operations
from tests.adapters.pydantic_ai_model import PydanticAI, agent_of


@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.asyncio
async def test_adapter_keeps_the_contract(check: Any, travel) -> None:
    await run_check(check, PydanticAI(), travel)
    await end_parked_tasks()


async def end_parked_tasks() -> None:
    """Cancel what the framework itself leaves waiting when a run is cancelled in one certain step of its start (2.68)."""
    for task in asyncio.all_tasks():
        if "ScopedTask" in repr(task.get_coro()):
            task.cancel()
    await asyncio.sleep(0)


def host_of(runner: PydanticAIRunner) -> Any:
    return ScheduleHost.open(store=MemoryStore(), runner=runner)


@pytest.mark.asyncio
async def test_events_are_streamed_to_the_users_handler() -> None:
    seen: list[str] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) == 1:
            yield {0: DeltaToolCall("schedule_create", '{"prompt": "x", ', tool_call_id="c1")}
            yield {0: DeltaToolCall(None, '"after_seconds": ')}  # cut off by the provider
        else:
            yield "that "
            yield "failed"

    async def handler(ctx: RunContext[None], events: Any) -> None:
        async for event in events:
            seen.append(event.event_kind)

    agent = Agent(FunctionModel(stream_function=stream))
    async with host_of(PydanticAIRunner(agent, event_stream_handler=handler)) as host:
        live = await host.session("s")
        assert await live.send("remind me") == "that failed"
        assert operations(live) == []
    assert {"function_tool_call", "function_tool_result", "part_delta"} <= set(seen)


@pytest.mark.asyncio
async def test_each_turn_keeps_its_new_messages_only() -> None:
    async with host_of(PydanticAIRunner(agent_of(Scripted([create("c1")])))) as host:
        live = await host.session("s")
        await live.send("first")
        await live.send("second")
        kinds = [
            [part["part_kind"] for item in turn["items"] for part in item["parts"]] for turn in ended(live)
        ]
    assert kinds == [["user-prompt", "tool-call", "tool-return", "text"], ["user-prompt", "text"]]


@pytest.mark.asyncio
async def test_numbers_that_json_lacks_do_not_spoil_the_history() -> None:
    model = Scripted([Call("schedule_create", {"prompt": "x", "after_seconds": float("nan")}, "c1")])
    async with host_of(PydanticAIRunner(agent_of(model))) as host:
        live = await host.session("s")
        assert await live.send("remind me") == "re: remind me"
        assert '"invalid_rule"' in model.requests[1].results[0]
        assert await live.send("next") == "re: next"


@pytest.mark.asyncio
async def test_toolsets_of_the_user_stand_beside_the_reminders() -> None:
    toolset: FunctionToolset[None] = FunctionToolset()

    @toolset.tool_plain
    def weather() -> str:
        """Tell the weather."""
        return "sunny"

    model = Scripted([Call("weather", "{}", "c1"), create("c2")])
    async with host_of(PydanticAIRunner(agent_of(model), toolsets=[toolset])) as host:
        live = await host.session("s")
        await live.send("both")
        assert operations(live) == ["create"]
    assert model.requests[1].results[0] == "sunny"


@pytest.mark.asyncio
async def test_text_beside_calls_that_share_an_id_is_kept() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        calls = [
            ToolCallPart("schedule_create", {"prompt": text, "after_seconds": 60}, "c1") for text in "abb"
        ]
        return ModelResponse(parts=[TextPart("two at once"), *calls])

    async with host_of(PydanticAIRunner(Agent(FunctionModel(answer)))) as host:
        live = await host.session("s")
        assert await live.send("remind me") == "done"
        assert operations(live) == ["create", "create", "create"]
        response = ended(live)[0]["items"][1]
        assert [part["part_kind"] for part in response["parts"]] == ["text", *["tool-call"] * 3]
        assert len({part["tool_call_id"] for part in response["parts"][1:]}) == 3


@pytest.mark.asyncio
async def test_other_tools_get_their_arguments_as_they_are() -> None:
    got: list[int] = []

    async def capability(ctx: RunContext[None]) -> None:
        """The run's own, beside the runner's."""
        asked.append(ctx.run_step)

    asked: list[int] = []
    agent = agent_of(Scripted([Call("count", {"n": 10**20}, "c1")]))
    agent.tool_plain(name="count")(lambda n: got.append(n))
    async with host_of(PydanticAIRunner(agent, capabilities=[capability])) as host:
        assert await (await host.session("s")).send("count") == "re: count"
    assert (got, bool(asked)) == ([10**20], True)


class _Answer(BaseModel):
    text: str


@pytest.mark.asyncio
async def test_an_output_type_is_shown_as_json() -> None:
    agent = Agent(TestModel(call_tools=[], custom_output_args={"text": "hi"}), output_type=_Answer)
    async with host_of(PydanticAIRunner(agent)) as host:
        live = await host.session("s")
        assert await live.send("hello") == '{"text":"hi"}'
        assert await live.send("again") == '{"text":"hi"}'


@pytest.mark.asyncio
async def test_a_run_that_stops_for_an_approval_fails_its_turn_and_the_next_one_works() -> None:
    model = Scripted([Call("risky", "{}", "c1")])
    agent = Agent(agent_of(model).model, output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def risky() -> str:
        """Do something that somebody has to approve."""
        return "done"

    async with host_of(PydanticAIRunner(agent)) as host:
        live = await host.session("s")
        with pytest.raises(TurnFailedError):
            await live.send("first")
        assert await live.send("second") == "re: second"


@pytest.mark.asyncio
async def test_the_frameworks_test_model_calls_every_tool() -> None:
    async with host_of(PydanticAIRunner(Agent(TestModel()))) as host:
        live = await host.session("s")
        assert "schedule_create" in await live.send("hello")


def test_arguments_that_the_runner_gives_are_refused() -> None:
    with pytest.raises(CompositionError, match="message_history"):
        PydanticAIRunner(Agent(TestModel()), message_history=[])

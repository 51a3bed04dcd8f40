"""openai-agents: the adapter on the framework itself, with models that answer by a script."""

from __future__ import annotations

import asyncio
import functools
import importlib
import itertools
import json
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents import (
    Agent,
    FunctionTool,
    Handoff,
    Model,
    ModelResponse,
    OpenAIProvider,
    RunConfig,
    SQLiteSession,
    Usage,
    function_tool,
    handoff,
)
from agents.mcp import MCPServer
from agents.testing import assistant_message, function_call
from agents.tracing import get_current_trace
from mcp import types as mcp_types
from openai import AsyncOpenAI
from pydantic import BaseModel

from schedule_sm import ScheduleHost
from schedule_sm.adapters import openai_agents, requirement
from schedule_sm.adapters.openai_agents import CUT_OFF, OpenAIAgentsRunner, function_tools
from schedule_sm.embedded import LiveSession
from schedule_sm.embedded.errors import HostClosedError, TurnFailedError
from schedule_sm.stores.errors import NotADatabaseError
from schedule_sm.stores.memory import MemoryStore
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.adapter_contract import ADAPTER_CHECKS, Request, Script, run_check
from schedule_sm.tool_catalog import tool_catalog
from tests.embedded.scripted import by_agent, types_of

Item = dict[str, Any]
Answer = str | tuple[str, Any] | list[Any]
"""A final text, a call of a tool with its arguments, or several calls at once."""


class ScriptModel(Model):
    """Answers by ``script``, which gets the input items; keeps what it was shown."""

    def __init__(self, script: Callable[[list[Item]], Answer | Awaitable[Answer]]) -> None:
        self.script = script
        self.inputs: list[list[Item]] = []
        self.tools: list[dict[str, Any]] = []
        self._ids = 0

    def _next_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}{id(self)}-{self._ids}"

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        self.inputs.append(list(input))
        self.tools.append({tool.name: tool for tool in tools})
        answer = self.script(self.inputs[-1])
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, str):
            output = [assistant_message(answer, item_id=self._next_id("m"))]
        else:
            calls = answer if isinstance(answer, list) else [answer]
            output = [
                function_call(*call, call_id=self._next_id("c"))
                if isinstance(call, tuple)
                else function_call(call.name, call.arguments, call_id=call.call_id)  # type: ignore[arg-type] # bad on purpose
                for call in calls
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def shape(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """The items in short: what users said as it is, the rest by kind."""
    return [
        item["content"] if item.get("role") == "user" else item.get("role") or item["type"] for item in items
    ]


def outputs(items: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The results of tools since the last user message."""
    found: list[Any] = []
    for item in items:
        if item.get("role") == "user":
            found = []
        elif item.get("type") == "function_call_output":
            found.append(item["output"])
    return found


def calling(*answers: Answer, then: str = "done") -> Callable[[list[Item]], Answer]:
    """A script that calls tools first, one answer after the other, and then says ``then`` whatever it is told."""
    left = list(answers)
    return lambda items: left.pop(0) if left else then


CREATE = ("schedule_create", {"prompt": "stretch", "after_seconds": 60})


async def opened(stack: AsyncExitStack, runner: OpenAIAgentsRunner, **place: Any) -> LiveSession:
    """A live session "main" of a host that ``stack`` closes."""
    host = await stack.enter_async_context(
        ScheduleHost.open(runner=runner, **(place or {"store": MemoryStore()}))
    )
    return await host.session("main")


# -- the contract -----------------------------------------------------------------------------------------------


def _results(items: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(output) for output in outputs(items)]


class OpenAIAgents:
    """The adapter under the contract; ``factory`` is made anew for each runner."""

    def __init__(self, name: str, make_factory: Callable[[], Any] = lambda: None) -> None:
        self.name = name
        self._make_factory = make_factory

    def runner(self, script: Script, own_tools: Sequence[str] = ()) -> OpenAIAgentsRunner:
        model = ScriptModel(lambda items: _by_contract(model, script, items))
        tools = [function_tool(lambda: "own", name_override=name) for name in own_tools]
        agent = Agent(name="root", model=model, tools=[*tools])
        return OpenAIAgentsRunner(agent, session_factory=self._make_factory())


async def _by_contract(model: ScriptModel, script: Script, items: list[Item]) -> Answer:
    texts = [item["content"] for item in items if item.get("role") == "user"]
    shown = {name: tool.params_json_schema for name, tool in model.tools[-1].items()}
    reply = await script(Request(texts, tuple(_results(items)), shown))
    return reply if isinstance(reply, str) else list(reply)


# cut off between two of its steps, the framework forgets a coroutine that it has made and not yet begun
@pytest.mark.filterwarnings("ignore:coroutine 'run_single_turn' was never awaited:RuntimeWarning")
@pytest.mark.asyncio
@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=lambda check: check.__name__)
async def test_contract_with_the_history_in_our_log(check, travel) -> None:
    await run_check(check, OpenAIAgents("openai-agents"), travel)


LIVES_ON = {"the_next_turn_sees_what_was_said", "a_reminder_whose_turn_crashed_is_offered_again"}
"""Checks in which a second runner goes on with the first one's history."""


@pytest.mark.filterwarnings("ignore:coroutine 'run_single_turn' was never awaited:RuntimeWarning")
@pytest.mark.asyncio
@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=lambda check: check.__name__)
async def test_contract_with_the_history_in_their_session(check, travel, tmp_path: Path) -> None:
    numbers = itertools.count()

    def make_factory() -> Callable[[str], Any]:
        path = tmp_path / f"history-{0 if check.__name__ in LIVES_ON else next(numbers)}.db"
        return lambda session_id: closing(SQLiteSession(session_id, path))

    await run_check(check, OpenAIAgents("openai-agents with SQLiteSession", make_factory), travel)


# -- tools ------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_model_is_shown_the_catalogue_and_the_agent_stays_as_it_was() -> None:
    model = ScriptModel(calling())
    agent = Agent(name="root", model=model)
    async with AsyncExitStack() as stack:
        await (await opened(stack, OpenAIAgentsRunner(agent))).send("hello")
    shown = {name: (tool.description, tool.params_json_schema) for name, tool in model.tools[0].items()}
    assert shown == {name: (tool["description"], tool["parameters"]) for name, tool in tool_catalog().items()}
    assert [tool.strict_json_schema for tool in model.tools[0].values()] == [False] * 3
    assert agent.tools == []


@pytest.mark.asyncio
@pytest.mark.parametrize("responses", [True, False], ids=["responses", "chat completions"])
async def test_their_own_client_sends_the_catalogue_as_it_is(responses: bool) -> None:
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        said = assistant_message("done").model_dump(mode="json")
        return httpx.Response(200, json=RESPONSE | {"output": [said]} if responses else COMPLETION)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        client = AsyncOpenAI(api_key="none", http_client=http)
        provider = OpenAIProvider(openai_client=client, use_responses=responses)
        config = RunConfig(model_provider=provider, tracing_disabled=True)
        async with AsyncExitStack() as stack:
            runner = OpenAIAgentsRunner(Agent(name="root", model="gpt-4.1"), run_config=config)
            session = await opened(stack, runner)
            assert await session.send("half \ud83d") == "done"
    tools = [tool if responses else tool["function"] for tool in sent[0]["tools"]]
    assert [(tool["name"], tool["parameters"], tool["strict"]) for tool in tools] == [
        (name, tool["parameters"], False) for name, tool in tool_catalog().items()
    ]


COMPLETION: Item = {
    "id": "c",
    "object": "chat.completion",
    "created": 0,
    "model": "gpt-4.1",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done"}}],
}
RESPONSE: Item = {
    "id": "r",
    "object": "response",
    "created_at": 0,
    "model": "gpt-4.1",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


@pytest.mark.asyncio
async def test_function_tools_serve_an_agent_run_by_hand() -> None:
    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(Agent(name="unused")))
        tools = function_tools(list(by_agent(session.agent).values()))
        assert [type(tool) for tool in tools] == [FunctionTool] * 3


@pytest.mark.asyncio
async def test_call_id_reaches_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    invoke = openai_agents.ToolSpec.invoke

    async def spy(self: Any, raw: object, call_id: str | None = None, turn_id: str | None = None) -> Any:
        seen.append((self.name, raw, call_id, self.turn_id))
        return await invoke(self, raw, call_id, turn_id)

    monkeypatch.setattr(openai_agents.ToolSpec, "invoke", spy)
    model = ScriptModel(calling(("schedule_list", "{}")))
    async with AsyncExitStack() as stack:
        await (await opened(stack, OpenAIAgentsRunner(Agent(name="root", model=model)))).send("list")
    [call] = [item for item in model.inputs[1] if item.get("type") == "function_call"]
    assert [(name, raw, call_id) for name, raw, call_id, _ in seen] == [
        ("schedule_list", "{}", call["call_id"])
    ]
    assert seen[0][3], "the turn's id"


@pytest.mark.asyncio
async def test_calls_of_one_response_are_carried_out_in_order() -> None:
    creates: list[tuple[str, Any]] = [
        ("schedule_create", {"prompt": f"p{number}", "after_seconds": 60}) for number in range(4)
    ]
    model = ScriptModel(calling([*creates, ("schedule_list", "")]))
    async with AsyncExitStack() as stack:
        await (await opened(stack, OpenAIAgentsRunner(Agent(name="root", model=model)))).send("go")
    *views, listed = map(json.loads, outputs(model.inputs[1]))
    assert [(view["id"], view["prompt"]) for view in views] == [
        (f"schedule-{n + 1}", f"p{n}") for n in range(4)
    ]
    assert listed == views


@pytest.mark.asyncio
async def test_unknown_tool_is_answered_and_the_turn_goes_on() -> None:
    model = ScriptModel(calling([("schedule_update", "{}"), CREATE]))
    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(Agent(name="root", model=model)))
        assert await session.send("go") == "done"
    unknown, created = sorted(outputs(model.inputs[1]), key=lambda output: "schedule-1" in output)
    assert "schedule_update" in unknown
    assert json.loads(created)["id"] == "schedule-1"


@pytest.mark.asyncio
async def test_own_run_config_decides_on_unknown_tools_and_the_next_turn_works() -> None:
    model = ScriptModel(calling(("schedule_update", "{}")))
    runner = OpenAIAgentsRunner(Agent(name="root"), run_config=RunConfig(model=model, tracing_disabled=True))
    async with AsyncExitStack() as stack:
        session = await opened(stack, runner)
        with pytest.raises(TurnFailedError, match="ModelBehaviorError"):
            await session.send("go")
        assert await session.send("again") == "done"


# -- names and handoffs -----------------------------------------------------------------------------------------


@function_tool(name_override="schedule_create")
def rival() -> str:
    """A tool of the agent's own with a taken name."""
    return "rival"


def _agents_with_a_rival(model: Model) -> list[Agent[Any]]:
    target = Agent(name="target", model=model, tools=[rival])
    return [
        target,
        Agent(name="root", model=model, handoffs=[target]),
        Agent(name="root", model=model, handoffs=[handoff(target, tool_name_override="schedule_list")]),
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize("which", [0, 1, 2], ids=["own tool", "tool of a handoff's target", "handoff"])
async def test_duplicate_name_is_refused_before_the_model_is_called(which: int) -> None:
    model = ScriptModel(calling())
    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(_agents_with_a_rival(model)[which]))
        for _ in range(2):  # the host lives on
            with pytest.raises(TurnFailedError, match="ToolNameTakenError"):
                await session.send("go")
    assert model.inputs == []


@pytest.mark.asyncio
async def test_duplicate_name_behind_a_handoff_object_is_refused_before_its_target_is_called() -> None:
    target_model = ScriptModel(calling())
    target = Agent(name="target", model=target_model, tools=[rival])
    root = Agent(
        name="root", model=ScriptModel(calling(("transfer_to_target", "{}"))), handoffs=[handoff(target)]
    )
    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(root))
        with pytest.raises(TurnFailedError, match="ToolNameTakenError"):
            await session.send("go")
        assert await session.send("again") == "done"
    assert target_model.inputs == []


class OneTool(MCPServer):
    """An MCP server whose one tool has a taken name."""

    name = "one tool"

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[mcp_types.Tool]:
        return [mcp_types.Tool(name="schedule_list", inputSchema={"type": "object"})]

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...
    async def call_tool(self, *args: Any, **kwargs: Any) -> Any: ...
    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, *args: Any) -> Any: ...


@pytest.mark.asyncio
async def test_duplicate_name_of_an_mcp_server_is_refused_before_the_model_is_called() -> None:
    model = ScriptModel(calling())
    agent = Agent(name="root", model=model, mcp_servers=[OneTool()])
    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(agent))
        with pytest.raises(TurnFailedError, match="UserError"):
            await session.send("go")
    assert model.inputs == []


def _circle(root_model: Model, target_model: Model, *, wrapped: bool) -> tuple[Agent[Any], Agent[Any]]:
    """Two agents that hand off to each other."""
    target = Agent(name="target", model=target_model)
    to_target: Agent[Any] | Handoff[Any, Any] = handoff(target) if wrapped else target
    root = Agent(name="root", model=root_model, handoffs=[to_target])
    target.handoffs = [root]
    return root, target


@pytest.mark.asyncio
@pytest.mark.parametrize("wrapped", [False, True], ids=["agent", "handoff object"])
async def test_what_is_handed_off_to_has_the_tools(travel, wrapped: bool) -> None:
    root_model = ScriptModel(calling(("transfer_to_target", "{}"), then="root"))
    target_model = ScriptModel(calling(CREATE, ("transfer_to_root", "{}")))
    root, target = _circle(root_model, target_model, wrapped=wrapped)
    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(root))
        turns = session.turns()
        assert await session.send("go") == "root"
        await travel(61)
        _, reminder = [await anext(turns), await anext(turns)]
    assert reminder.is_reminder
    assert reminder.reply == "root", "each turn begins with the agent that the runner was given"
    assert [set(shown) & {"schedule_create"} for shown in target_model.tools] == [{"schedule_create"}] * 2
    assert set(root_model.tools[1]) == set(root_model.tools[0])
    assert target.tools == []


@pytest.mark.asyncio
async def test_nested_agent_as_a_tool_has_no_reminder_tools() -> None:
    nested_model = ScriptModel(calling(then="from inside"))
    nested = Agent(name="nested", model=nested_model).as_tool("ask", "Ask it.")
    model = ScriptModel(calling(("ask", {"input": "hm"})))
    async with AsyncExitStack() as stack:
        await (await opened(stack, OpenAIAgentsRunner(Agent(name="root", model=model, tools=[nested])))).send(
            "go"
        )
    assert outputs(model.inputs[1]) == ["from inside"]
    assert nested_model.tools == [{}]


# -- one turn ---------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_too_many_model_calls_fail_the_turn_and_the_next_one_works() -> None:
    model = ScriptModel(
        lambda items: "fine" if items[-1].get("content") == "again" else ("schedule_list", "{}")
    )
    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(Agent(name="root", model=model), max_turns=3))
        with pytest.raises(TurnFailedError, match="MaxTurnsExceeded"):
            await session.send("go")
        assert len(model.inputs) == 3
        assert await session.send("again") == "fine"
    assert shape(model.inputs[-1]) == ["go", "again"]


@pytest.mark.asyncio
async def test_tool_that_asks_for_an_approval_fails_the_turn_and_the_next_one_works(tmp_path: Path) -> None:
    @function_tool(needs_approval=True)
    def erase() -> str:
        """Erase it."""
        return "erased"

    model = ScriptModel(calling(("erase", "{}")))
    async with AsyncExitStack() as stack:
        session = await opened(
            stack,
            OpenAIAgentsRunner(
                Agent(name="root", model=model, tools=[erase]),
                session_factory=lambda session_id: closing(
                    SQLiteSession(session_id, tmp_path / "history.db")
                ),
            ),
        )
        with pytest.raises(TurnFailedError, match="ApprovalNeededError"):
            await session.send("go")
        assert await session.send("again") == "done"
    assert shape(model.inputs[-1]) == ["go", "function_call", "function_call_output", "again"]


@pytest.mark.asyncio
async def test_reply_of_an_agent_with_an_output_type_is_json() -> None:
    class Weather(BaseModel):
        city: str
        degrees: int

    model = ScriptModel(lambda items: '{"city": "Malmö", "degrees": 7}')
    async with AsyncExitStack() as stack:
        session = await opened(
            stack, OpenAIAgentsRunner(Agent(name="root", model=model, output_type=Weather))
        )
        assert await session.send("go") == '{"city":"Malmö","degrees":7}'


@pytest.mark.asyncio
async def test_context_is_given_to_each_run() -> None:
    seen = []
    agent: Agent[str] = Agent(
        name="root",
        model=ScriptModel(calling()),
        instructions=lambda wrapper, _: seen.append(wrapper.context) or "",
    )
    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(agent, context="context"))
        await session.send("go")
        await session.send("again")
    assert seen == ["context"] * 2


@pytest.mark.asyncio
async def test_nothing_is_traced_unless_a_run_config_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    traces = []

    def script(items: list[Item]) -> Answer:
        trace = get_current_trace()
        traces.append(None if trace is None else trace.export())
        return "ok"

    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(Agent(name="root", model=ScriptModel(script))))
        await session.send("go")
    assert traces == [None]


@pytest.mark.asyncio
@pytest.mark.parametrize("half", ["\\ud800", "\ud800"], ids=["escaped", "as it is"])
async def test_lone_surrogates_never_reach_the_model(half: str) -> None:
    raw = f'{{"prompt": "a{half}", "after_seconds": 60}}'
    model = ScriptModel(calling(("schedule_create", raw), then="b\udfff"))
    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(Agent(name="root", model=model)))
        assert await session.send("c\udabc") == "b\\udfff"
        await session.send("again")
    for items in model.inputs:
        json.dumps(items, ensure_ascii=False).encode()
    assert model.inputs[0][0]["content"] == "c\\udabc"
    assert json.loads(model.inputs[1][-1]["output"])["prompt"] == "a\\ud800"
    assert model.inputs[-1][-2]["content"][0]["text"] == "b\\udfff"


@pytest.mark.asyncio
@pytest.mark.parametrize("raw", ["[" * 100_000, f'{{"id": {"9" * 5_000}}}', '{"id": "\\ud83d\\ude00"}'])
async def test_arguments_that_no_parser_likes_are_refused_by_value(raw: str) -> None:
    model = ScriptModel(calling(("schedule_delete", raw)))
    async with AsyncExitStack() as stack:
        session = await opened(stack, OpenAIAgentsRunner(Agent(name="root", model=model)))
        assert await session.send("go") == "done"
    assert "code" in json.loads(model.inputs[1][-1]["output"])
    [call] = [item for item in model.inputs[1] if item.get("type") == "function_call"]
    assert (call["arguments"] == raw) is not raw.startswith("[[")


# -- history ----------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_history_in_our_log_holds_each_item_once_and_survives_the_host(travel, tmp_path: Path) -> None:
    model = ScriptModel(calling(CREATE))
    runner = OpenAIAgentsRunner(Agent(name="root", model=model))
    async with ScheduleHost.open(tmp_path / "agent.db", runner=runner) as host:
        session = await host.session("main")
        turns = session.turns()
        await session.send("go")
        assert shape((await anext(turns)).items) == [
            "go",
            "function_call",
            "function_call_output",
            "assistant",
        ]
    await travel.suspend(61)
    async with ScheduleHost.open(tmp_path / "agent.db", runner=runner) as host:
        turns = (await host.session("main")).turns()
        reminder = await anext(turns)
    assert reminder.is_reminder
    go, call, output, answer, due = model.inputs[-1]
    assert shape([go, call, output, answer]) == ["go", "function_call", "function_call_output", "assistant"]
    assert due == {"role": "user", "content": reminder.message.text}


@pytest.mark.asyncio
@pytest.mark.parametrize("is_closing", [True, False], ids=["context manager", "kept"])
async def test_history_in_their_session_is_sent_once(travel, tmp_path: Path, is_closing: bool) -> None:
    made: list[SQLiteSession] = []

    def make(session_id: str) -> Any:
        made.append(SQLiteSession(session_id, tmp_path / "history.db"))
        return closing(made[-1]) if is_closing else made[-1]

    model = ScriptModel(calling(CREATE))
    async with AsyncExitStack() as stack:
        session = await opened(
            stack, OpenAIAgentsRunner(Agent(name="root", model=model), session_factory=make)
        )
        turns = session.turns()
        await session.send("go")
        first = await anext(turns)
        await session.send("hm")
        await anext(turns)
        await travel(61)
        reminder = await anext(turns)
    go = ["go", "function_call", "function_call_output", "assistant"]
    assert shape(first.items) == go
    assert shape(model.inputs[2]) == [*go, "hm"]
    assert shape(model.inputs[3]) == [*go, "hm", "assistant", reminder.message.text]
    with closing(SQLiteSession("main", tmp_path / "history.db")) as stored:
        assert shape(await stored.get_items()) == [*go, "hm", "assistant", reminder.message.text, "assistant"]
    assert len(made) == (3 if is_closing else 1)
    for session_made in made:
        if is_closing:
            with pytest.raises(RuntimeError, match="closed"):
                await session_made.get_items()
        session_made.close()


@pytest.mark.asyncio
async def test_two_sessions_with_one_agent_keep_their_histories_apart() -> None:
    kept: dict[str, SQLiteSession] = {}
    model = ScriptModel(lambda items: "done" if items[-1].get("type") == "function_call_output" else CREATE)
    for factory in (None, lambda session_id: kept.setdefault(session_id, SQLiteSession(session_id))):
        model.inputs.clear()
        runner = OpenAIAgentsRunner(Agent(name="root", model=model), session_factory=factory)
        async with ScheduleHost.open(store=MemoryStore(), runner=runner) as host:
            sessions = [await host.session(name) for name in ("a", "b")]
            for _ in range(2):
                await asyncio.gather(*(session.send(f"go {session.id}") for session in sessions))
            assert [types_of(session).count("create") for session in sessions] == [2, 2]
        for items in model.inputs:
            assert len({item["content"] for item in items if item.get("role") == "user"}) == 1
    for session in kept.values():
        session.close()


CALL: Any = {"type": "function_call", "call_id": "c1", "name": "schedule_create", "arguments": "{}"}


@pytest.mark.asyncio
async def test_call_without_a_result_in_their_session_gets_one_before_a_reminders_turn(
    travel, tmp_path: Path
) -> None:
    path = tmp_path / "history.db"
    model = ScriptModel(calling(CREATE))
    runner = OpenAIAgentsRunner(
        Agent(name="root", model=model),
        session_factory=lambda session_id: closing(SQLiteSession(session_id, path)),
    )
    async with AsyncExitStack() as stack:
        session = await opened(stack, runner)
        turns = session.turns()
        await session.send("go")
        await anext(turns)
        with closing(SQLiteSession("main", path)) as theirs:  # another program's turn, cut off
            done: Any = {"type": "function_call_output", "call_id": "c2", "output": "ok"}
            await theirs.add_items([{"role": "user", "content": "x"}, CALL, {**CALL, "call_id": "c2"}, done])
        await travel(61)
        reminder = await anext(turns)
    assert reminder.error is None
    cut_off, due = model.inputs[-1][-2:]
    assert cut_off == {"type": "function_call_output", "call_id": "c1", "output": CUT_OFF}
    assert due["content"] == reminder.message.text
    assert outputs(model.inputs[-1][:-1]) == ["ok", CUT_OFF]


@pytest.mark.asyncio
@pytest.mark.parametrize("cut_at", ["model", "tool", "second model call"])
async def test_reminders_turn_that_was_cut_off_goes_on_where_their_session_stands(
    travel, tmp_path: Path, cut_at: str
) -> None:
    hanging = asyncio.Event()
    is_first = True

    async def hang() -> str:
        hanging.set()
        await asyncio.Event().wait()
        return "never"

    @function_tool
    async def look() -> str:
        """Look it up."""
        return await hang() if is_first and cut_at == "tool" else "seen"

    async def script(items: list[Item]) -> Answer:
        if "[SCHEDULE" not in str(items[-1].get("content")):
            if is_first and cut_at == "second model call" and outputs(items) == ["seen"]:
                await hang()
            return "done" if items[-1].get("type") == "function_call_output" else CREATE
        if is_first and cut_at == "model":
            await hang()
        return ("look", "{}")

    model = ScriptModel(script)
    runner = OpenAIAgentsRunner(
        Agent(name="root", model=model, tools=[look]),
        session_factory=lambda session_id: closing(SQLiteSession(session_id, tmp_path / "history.db")),
    )
    async with ScheduleHost.open(tmp_path / "agent.db", runner=runner) as host:
        await (await host.session("main")).send("go")
        await travel(61)
        await hanging.wait()
    is_first = False
    async with ScheduleHost.open(tmp_path / "agent.db", runner=runner) as host:
        session = await host.session("main")
        reminder = await anext(session.turns())
        assert types_of(session).count("dispatch") == 1
    assert (reminder.reply, reminder.message.metadata["attempt"]) == ("done", 2)
    go = ["go", "function_call", "function_call_output", "assistant"]
    with closing(SQLiteSession("main", tmp_path / "history.db")) as stored:
        assert shape(await stored.get_items()) == [
            *go, reminder.message.text, "function_call", "function_call_output", "assistant",
        ]  # fmt: skip


@pytest.mark.asyncio
async def test_text_said_twice_is_two_messages_also_when_a_tool_ended_the_first_turn(tmp_path: Path) -> None:
    model = ScriptModel(lambda items: CREATE)
    runner = OpenAIAgentsRunner(
        Agent(name="root", model=model, tool_use_behavior="stop_on_first_tool"),
        session_factory=lambda session_id: closing(SQLiteSession(session_id, tmp_path / "history.db")),
    )
    async with AsyncExitStack() as stack:
        session = await opened(stack, runner)
        replies = [json.loads(await session.send("go"))["id"] for _ in range(2)]
    assert replies == ["schedule-1", "schedule-2"]
    assert shape(model.inputs[1]) == ["go", "function_call", "function_call_output", "go"]


@pytest.mark.asyncio
async def test_session_closed_in_mid_call_leaves_nothing_half_done(tmp_path: Path) -> None:
    hanging = asyncio.Event()

    async def script(items: list[Item]) -> Answer:
        if not hanging.is_set():
            hanging.set()
            await asyncio.Event().wait()
        return "done"

    runner = OpenAIAgentsRunner(Agent(name="root", model=ScriptModel(script)))
    async with ScheduleHost.open(store=MemoryStore(), runner=runner) as host:
        session = await host.session("main")
        sent = asyncio.create_task(session.send("go"))
        await hanging.wait()
        await session.close()
        with pytest.raises(HostClosedError):
            await sent
        turn = await anext((await host.session("main")).turns())
    assert (turn.message.text, turn.reply, turn.message.metadata["attempt"]) == ("go", "done", 2)


# -- one file for both ------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_one_file_holds_our_log_and_their_session(travel, tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    model = ScriptModel(calling(CREATE))
    runner = OpenAIAgentsRunner(
        Agent(name="root", model=model),
        session_factory=lambda session_id: closing(SQLiteSession(session_id, path)),
    )
    async with ScheduleHost.open(path, runner=runner) as host:
        await (await host.session("main")).send("go")
    await travel.suspend(61)
    async with ScheduleHost.open(path, runner=runner) as host:
        session = await host.session("main", create=False)
        assert (await anext(session.turns())).is_reminder
        with closing(SQLiteSession("main", path)) as theirs:
            await theirs.clear_session()
        assert await session.send("hm") == "done"
    assert shape(model.inputs[-1]) == ["hm"]
    with SqliteStore.open_read_only(path) as reader:
        assert [info.id for info in reader.sessions()] == ["main"]


@pytest.mark.asyncio
async def test_file_that_their_session_made_first_is_refused(tmp_path: Path) -> None:
    SQLiteSession("main", tmp_path / "agent.db").close()
    with pytest.raises(NotADatabaseError):
        async with ScheduleHost.open(tmp_path / "agent.db", runner=OpenAIAgentsRunner(Agent(name="root"))):
            pass


@pytest.mark.asyncio
async def test_write_lock_held_too_long_fails_the_turn_and_both_recover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, timeout=0.05))  # theirs: 5 s
    path = tmp_path / "agent.db"
    runner = OpenAIAgentsRunner(
        Agent(name="root", model=ScriptModel(calling())),
        session_factory=lambda session_id: closing(SQLiteSession(session_id, path)),
    )
    store = await SqliteStore.open(path, busy_timeout_ms=50)
    try:
        async with ScheduleHost.open(store=store, runner=runner, flush_timeout_s=0.2) as host:
            session = await host.session("main")
            await session.send("first")
            with closing(sqlite3.connect(path, isolation_level=None)) as third:
                third.execute("BEGIN IMMEDIATE")
                with pytest.raises(TurnFailedError, match="OperationalError"):
                    await session.send("while it is held")
                third.execute("ROLLBACK")
            assert await session.send("afterwards") == "done"
            assert await session.log.writer.flush()
    finally:
        await store.close()


def test_unsupported_version_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirement, "version", lambda distribution: "0.23.4")
    with pytest.raises(requirement.AdapterRequirementError, match=r"openai-agents>=0\.24,<0\.25.*0\.23\.4"):
        importlib.reload(openai_agents)

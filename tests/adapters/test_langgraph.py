"""LangGraph: the adapter on the framework itself, with a model that answers by a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers.openai_tools import parse_tool_call
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from pydantic import BaseModel

from schedule_sm import CompositionError, ScheduleHost
from schedule_sm.adapters.langgraph import (
    CUT_OFF,
    MALFORMED,
    MALFORMED_IN_A_ROW,
    UNREADABLE,
    Graph,
    LangGraphRunner,
    ScheduleMiddleware,
    langchain_tools,
)
from schedule_sm.embedded import BuiltinRunner, LiveSession
from schedule_sm.embedded.errors import HostClosedError, TurnFailedError
from schedule_sm.stores.memory import MemoryStore
from schedule_sm.testing.adapter_contract import ADAPTER_CHECKS, Call, Request, Scripted, run_check
from schedule_sm.testing.adapter_suite import FRAMING, Reply, create, ended, operations
from schedule_sm.tool_catalog import tool_catalog
from schedule_sm.tool_spec import ToolSpec
from tests.adapters.langgraph_model import (
    Kind,
    LangGraph,
    ScriptModel,
    calling,
    graph_of,
    own_graph,
    tool_named,
)

IN_THREAD: Any = {"configurable": {"thread_id": "s"}}
ONCE = {"bad_arguments_of_every_kind_are_answered_with_a_value"}
"""Dozens of turns for what does not depend on where the history is."""
NOT_FOR_OWN_GRAPHS = {
    "a_turn_cut_off_anywhere_is_offered_again",  # dozens of turns, and the runner does the same
}
LIVES_ON = {"the_next_turn_sees_what_was_said", "a_reminder_whose_turn_crashed_is_offered_again"}
"""Checks in which a second runner goes on with the first one's history."""


def every(left_out: set[str]) -> Any:
    checks = [check for check in ADAPTER_CHECKS if check.__name__ not in left_out]
    return pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)


@pytest.mark.asyncio
@every(set())
async def test_contract_with_the_history_in_our_log(check, travel) -> None:
    await run_check(check, LangGraph("agent"), travel)


@pytest.mark.asyncio
@every(ONCE | NOT_FOR_OWN_GRAPHS)
async def test_contract_with_a_graph_of_nodes_and_edges(check, travel) -> None:
    await run_check(check, LangGraph("own graph"), travel)


@pytest.mark.asyncio
@every(ONCE)
async def test_contract_with_the_history_in_a_checkpointer(check, travel) -> None:
    saver = InMemorySaver()
    lives_on = check.__name__ in LIVES_ON
    await run_check(check, LangGraph("agent", lambda: saver if lives_on else InMemorySaver()), travel)


@asynccontextmanager
async def session_of(runner: Any, store: MemoryStore | None = None) -> AsyncIterator[LiveSession]:
    async with ScheduleHost.open(store=store or MemoryStore(), runner=runner) as host:
        yield await host.session("s")


def agent_runner(
    script: Any, own: Sequence[BaseTool] = (), saver: Any = None, **options: Any
) -> LangGraphRunner:
    """A runner of create_agent with the middleware."""
    model = ScriptModel(script=script)

    def build(tools: list[BaseTool]) -> Graph:
        return create_agent(model, [*own], middleware=[ScheduleMiddleware(tools)], checkpointer=saver)

    return LangGraphRunner(build, owns_history=saver is not None, **options)


def bare_runner(script: Any, **options: Any) -> LangGraphRunner:
    model = ScriptModel(script=script)
    return LangGraphRunner(lambda tools: create_agent(model, tools), **options)


def tools_of(live: LiveSession, turn_id: str = "t") -> list[BaseTool]:
    return langchain_tools([ToolSpec(tool, live.agent, turn_id) for tool in live.agent.ctx.tools])


def call_of(name: str, args: Any, call_id: str = "c1") -> dict[str, Any]:
    return {"type": "tool_call", "name": name, "args": args, "id": call_id}


def shape(messages: Sequence[BaseMessage]) -> list[str]:
    return [
        f"{message.type} {message.tool_call_id}" if isinstance(message, ToolMessage) else message.type
        for message in messages
    ]


def tool_of(work: Callable[..., Any], name: str) -> BaseTool:
    return StructuredTool.from_function(coroutine=work, name=name, description="Work.")


# -- tools ----------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_tools_are_the_catalogue_and_their_results_carry_a_status() -> None:
    async with session_of(BuiltinRunner()) as live:
        tools = tools_of(live)
        assert {tool.name: (tool.description, tool.args_schema) for tool in tools} == {
            name: (constants["description"], constants["parameters"])
            for name, constants in tool_catalog().items()
        }
        make, show, _ = tools
        made = await make.ainvoke(call_of("schedule_create", {"prompt": "stretch", "after_seconds": 60}))
        assert (made.status, made.tool_call_id, json.loads(made.content)["id"]) == (
            "success",
            "c1",
            "schedule-1",
        )
        refused = await make.ainvoke(call_of("schedule_create", {"self": 1, "config": 2, "run_manager": 3}))
        assert (refused.status, json.loads(refused.content)["code"]) == ("error", "invalid_selector")
        extra = {"self": 1, "config": 2, "run_manager": 3, "args": [4], "no identifier": 5}
        assert json.loads((await show.ainvoke(call_of("schedule_list", extra))).content) == [
            json.loads(made.content)
        ]
        assert json.loads(await show.ainvoke({})) == [json.loads(made.content)], "without a call around it"


@pytest.mark.asyncio
async def test_synchronous_call_says_to_await() -> None:
    async with session_of(BuiltinRunner()) as live:
        with pytest.raises(
            NotImplementedError, match=r"schedule_list runs on its session's event loop.* ainvoke"
        ):
            tools_of(live)[1].invoke({"self": 1})


@pytest.mark.asyncio
async def test_call_of_a_closed_session_is_answered_with_a_value() -> None:
    async with session_of(BuiltinRunner()) as live:
        tools = tools_of(live)
    late = await tools[1].ainvoke(call_of("schedule_list", {}))
    assert (late.status, json.loads(late.content)["code"]) == ("error", "internal_error")


@pytest.mark.asyncio
async def test_numbers_that_json_lacks_do_not_spoil_the_history() -> None:
    """LangChain's parser takes NaN; what was said of it is kept as null."""
    model = Scripted([Call("schedule_create", {"prompt": "x", "after_seconds": float("nan")}, "c1")])
    async with session_of(agent_runner(model)) as live:
        assert await live.send("remind me") == "re: remind me"
        assert '"invalid_rule"' in model.requests[1].results[0]
        assert await live.send("next") == "re: next"
        assert json.dumps(ended(live), allow_nan=False)


@pytest.mark.asyncio
async def test_other_tools_get_their_arguments_as_they_are() -> None:
    got: list[int] = []

    async def count(n: int) -> str:
        """Take a number."""
        got.append(n)
        return "counted"

    own = StructuredTool.from_function(coroutine=count)
    async with session_of(agent_runner(Scripted([Call("count", {"n": 10**20}, "c1")]), [own])) as live:
        assert await live.send("count") == "re: count"
    assert got == [10**20]


@pytest.mark.parametrize("call_id", [None, ""])
@pytest.mark.parametrize("make_saver", [None, InMemorySaver])
@pytest.mark.parametrize("kind", ["agent", "bare agent", "own graph"])
@pytest.mark.asyncio
async def test_calls_without_an_id_are_carried_out_each(kind: Kind, make_saver: Any, call_id: Any) -> None:
    one = {"prompt": "x", "after_seconds": 60}
    model = Scripted([Call("schedule_create", one, call_id), Call("schedule_create", one, call_id)])
    async with session_of(LangGraph(kind, make_saver).runner(model)) as live:
        assert await live.send("remind me") == "re: remind me"
        assert operations(live) == ["create", "create"]
        assert await live.send("next") == "re: next"
        assert [item["type"] for item in ended(live)[0]["items"]] == ["human", "ai", "tool", "tool", "ai"]
        assert [item["type"] for item in ended(live)[1]["items"]] == ["human", "ai"]


# -- malformed calls ------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("runner_of", [bare_runner, agent_runner])
async def test_response_of_malformed_calls_is_answered_and_the_model_asked_again(runner_of) -> None:
    calls = [Call("schedule_create", "{", "c1"), Call("another", "{", "c2"), Call("schedule_list", "", "c3")]
    model = Scripted(calls)
    async with session_of(runner_of(model)) as live:
        assert await live.send("remind me") == "re: remind me"
        [turn] = ended(live)
    refused, unknown, listed = model.requests[1].results
    assert (json.loads(refused)["code"], unknown, listed) == ("invalid_selector", MALFORMED, "[]")
    assert [item["type"] for item in turn["items"]] == ["human", "ai", "tool", "tool", "tool", "ai"]
    assert [item["data"]["status"] for item in turn["items"][2:5]] == ["error", "error", "success"]


@pytest.mark.asyncio
async def test_malformed_call_beside_a_good_one_does_not_end_a_bare_agents_turn() -> None:
    """From langchain 1.5 on, create_agent answers it in words of its own; else the next turn finds it answered."""
    model = Scripted([create("c1"), Call("schedule_create", "{", "c2")])
    async with session_of(bare_runner(model)) as live:
        assert await live.send("remind me") == "re: remind me"
        assert await live.send("next") == "re: next"
        assert operations(live) == ["create"]
    assert '"schedule-1"' in "".join(model.requests[1].results)


@pytest.mark.asyncio
async def test_model_that_only_sends_malformed_calls_fails_its_turn_only() -> None:
    model = Scripted(*([Call("schedule_create", "{", f"c{number}")] for number in range(MALFORMED_IN_A_ROW)))
    async with session_of(bare_runner(model)) as live:
        with pytest.raises(TurnFailedError, match="GraphRecursionError"):
            await live.send("first")
        assert await live.send("second") == "re: second"


def unreadable(arguments: str) -> AIMessage:
    """Parse a call as LangChain's packages do, which raises."""
    raw = {"id": "c1", "function": {"name": "schedule_create", "arguments": arguments}}
    return AIMessage("", tool_calls=[parse_tool_call(raw)])


@pytest.mark.asyncio
@pytest.mark.parametrize("arguments", ['"x"', "5", "true", "NaN", "[1]", "[" * 100_000])
async def test_response_that_langchain_cannot_read_is_asked_for_again(arguments: str) -> None:
    requests: list[Request] = []

    async def script(request: Request) -> Reply:
        requests.append(request)
        if len(requests) == 1:
            unreadable(arguments)
        return "done" if request.results else [create("c2")]

    async with session_of(agent_runner(script)) as live:
        assert await live.send("remind me") == "done"
        assert operations(live) == ["create"]
        await live.send("next")
    assert [list(request.texts) for request in requests] == [
        ["remind me"],
        ["remind me", UNREADABLE],
        ["remind me"],
        ["remind me", "next"],
        ["remind me", "next"],
    ]


@pytest.mark.asyncio
async def test_model_that_only_sends_what_langchain_cannot_read_fails_its_turn_only() -> None:
    asked = 0

    async def script(request: Request) -> Reply:
        nonlocal asked
        asked += 1
        return "fine" if asked > MALFORMED_IN_A_ROW else str(unreadable("true"))

    async with session_of(agent_runner(script)) as live:
        with pytest.raises(TurnFailedError, match="GraphRecursionError"):
            await live.send("first")
        assert await live.send("second") == "fine"


@pytest.mark.asyncio
@pytest.mark.parametrize("fault", [lambda: Point(x="no"), lambda: too_deep()])
async def test_a_fault_of_the_models_own_code_is_not_the_models_to_mend(fault: Callable[[], Any]) -> None:
    asked = 0

    async def script(request: Request) -> Reply:
        nonlocal asked
        asked += 1
        return str(fault())

    async with session_of(agent_runner(script)) as live:
        with pytest.raises(TurnFailedError, match=r"ValidationError|RecursionError"):
            await live.send("first")
    assert asked == 1


class Point(BaseModel):
    x: int


def too_deep() -> Any:
    return too_deep()


# -- graphs ---------------------------------------------------------------------------------------------------


def test_checkpointer_and_owner_of_the_history_have_to_agree() -> None:
    model = ScriptModel(script=Scripted())
    with pytest.raises(CompositionError, match="needs a graph that is compiled with a checkpointer"):
        LangGraphRunner(lambda tools: create_agent(model, tools), owns_history=True)
    with pytest.raises(CompositionError, match="leave it out, or say owns_history=True"):
        LangGraphRunner(lambda tools: create_agent(model, tools, checkpointer=InMemorySaver()))


@pytest.mark.asyncio
async def test_checkpointer_that_is_made_for_each_turn_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    model = Scripted()
    runner = LangGraphRunner(
        lambda tools: create_agent(ScriptModel(script=model), tools, checkpointer=InMemorySaver()),
        owns_history=True,
    )
    async with session_of(runner) as live:
        with pytest.raises(TurnFailedError, match="CompositionError"):
            await live.send("hello")
    assert "make it outside" in caplog.text
    assert model.requests == []


@pytest.mark.asyncio
async def test_name_taken_in_a_subgraph_is_refused_before_the_model_is_asked() -> None:
    model = Scripted()
    inner = own_graph(ScriptModel(script=model), [tool_named("schedule_list")], None)

    def build(tools: list[BaseTool]) -> Graph:
        graph = StateGraph(MessagesState)
        graph.add_node("inner", inner)
        graph.add_node("outer", own_graph(ScriptModel(script=model), tools, None))
        graph.add_edge(START, "inner")
        graph.add_edge("inner", "outer")
        return graph.compile()

    async with session_of(LangGraphRunner(build)) as live:
        with pytest.raises(TurnFailedError, match="ToolNameTakenError"):
            await live.send("hello")
    assert model.requests == []


class _Answer(BaseModel):
    text: str


@pytest.mark.parametrize("response_format", [_Answer, _Answer.model_json_schema()], ids=["model", "schema"])
@pytest.mark.asyncio
async def test_structured_response_is_shown_as_json(response_format: Any) -> None:
    async def script(request: Request) -> Any:
        return [Call("_Answer", {"text": request.texts[-1]}, f"c{len(request.texts)}")]

    model = ScriptModel(script=script)

    def build(tools: list[BaseTool]) -> Graph:
        middleware = [ScheduleMiddleware(tools)]
        return create_agent(model, [], middleware=middleware, response_format=ToolStrategy(response_format))

    async with session_of(LangGraphRunner(build)) as live:
        assert await live.send("hello") == '{"text":"hello"}'
        assert await live.send("again") == '{"text":"again"}'


@pytest.mark.asyncio
async def test_half_a_character_in_a_structured_response_is_escaped() -> None:
    async def script(request: Request) -> Any:
        return [Call("_Answer", {"text": "\ud83d"}, f"c{len(request.texts)}")]

    def build(tools: list[BaseTool]) -> Graph:
        answer = ToolStrategy(_Answer.model_json_schema())
        middleware = [ScheduleMiddleware(tools)]
        return create_agent(ScriptModel(script=script), [], middleware=middleware, response_format=answer)

    async with session_of(LangGraphRunner(build)) as live:
        for text in ("hello", "again"):
            assert await live.send(text) == '{"text":"\\ud83d"}'


@pytest.mark.asyncio
async def test_artifact_that_is_no_json_is_left_out_of_the_history() -> None:
    async def work() -> tuple[str, object]:
        return "half \ud83d", object()

    own = StructuredTool.from_function(
        coroutine=work, name="work", description="Work.", response_format="content_and_artifact"
    )
    model = Scripted([Call("work", "{}", "c1")])
    async with session_of(agent_runner(model, [own])) as live:
        assert await live.send("first") == "re: first"
        assert await live.send("second") == "re: second"
        assert ended(live)[0]["items"][2]["data"]["artifact"] is None
    assert model.requests[1].results == ["half \\ud83d"]


@pytest.mark.asyncio
async def test_config_and_context_reach_the_run() -> None:
    began: list[Any] = []

    class Handler(AsyncCallbackHandler):
        async def on_chain_start(self, serialized: Any, inputs: Any, **told: Any) -> None:
            began.append(told["metadata"].get("thread_id"))

    class Context(BaseModel):
        user: str

    async def ask(state: MessagesState, runtime: Any) -> Any:
        return {"messages": [AIMessage(f"hello {runtime.context.user}")]}

    graph = StateGraph(MessagesState, context_schema=Context)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    compiled = graph.compile()
    runner = LangGraphRunner(
        lambda tools: compiled, config={"callbacks": [Handler()]}, context=Context(user="there")
    )
    async with session_of(runner) as live:
        assert await live.send("hello") == "hello there"
    assert began[0] == "s"


# -- what a thread holds --------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_call_without_a_result_has_one_before_the_reminders_turn(travel) -> None:
    async def fail() -> str:
        raise RuntimeError("the tool's own fault")

    saver = InMemorySaver()
    model = Scripted([create("c1")], "done", [Call("fail", "{}", "c2"), create("c3", "stand up", 600)])
    runner = agent_runner(model, [tool_of(fail, "fail")], saver)
    async with session_of(runner) as live:
        await live.send("remind me")
        with suppress(TurnFailedError):
            await live.send("now fail")
            raise AssertionError("the turn did not fail")
        await travel(60)
        assert [turn["error"] for turn in ended(live)] == [None, "RuntimeError", None]
        assert [item["type"] for item in ended(live)[-1]["items"]] == ["human", "ai"]
    thread = (
        await create_agent(ScriptModel(script=model), [], checkpointer=saver).aget_state(IN_THREAD)
    ).values
    assert shape(thread["messages"]) == [
        *("human", "ai", "tool c1", "ai"),
        *("human", "ai", "tool c2", "tool c3"),
        *("human", "ai"),
    ]
    assert [message.content for message in thread["messages"][6:8]] == [CUT_OFF, CUT_OFF]
    assert thread["messages"][8].content.startswith(FRAMING)
    assert model.requests[-1].texts[-1].startswith(FRAMING)


@pytest.mark.asyncio
async def test_turn_cut_off_in_a_tool_goes_on_behind_the_repaired_call() -> None:
    started = asyncio.Event()

    async def hang() -> str:
        started.set()
        return await asyncio.Future()

    model = Scripted([Call("hang", "{}", "c1"), Call("schedule_list", "{", "c2")])
    async with ScheduleHost.open(
        store=MemoryStore(), runner=agent_runner(model, [tool_of(hang, "hang")], InMemorySaver())
    ) as host:
        live = await host.session("s")
        turn = asyncio.ensure_future(live.send("hang"))
        await started.wait()
        await live.close()
        with suppress(HostClosedError):
            await turn
        again = await host.session("s")
        await again.agent.when_idle()
        [end] = ended(again)
    assert (end["error"], end["attempt"], end["reply"]) == (None, 2, "re: hang")
    assert list(model.requests[1].texts) == ["hang"], "the message is there once"
    assert [item["type"] for item in end["items"]] == ["human", "ai", "tool", "tool", "ai"]
    assert CUT_OFF in model.requests[1].results


@pytest.mark.asyncio
async def test_calls_without_results_in_the_middle_of_histories_are_repaired() -> None:
    orphans = [
        HumanMessage("old", id="h1"),
        calling([create("c1"), create("c2")]),
        HumanMessage("older", id="h2"),
    ]
    model = Scripted()
    saver = InMemorySaver()
    runner = agent_runner(model, saver=saver)
    graph = create_agent(ScriptModel(script=model), [], checkpointer=saver)
    await graph.aupdate_state(IN_THREAD, {"messages": orphans}, as_node="model")
    output = await runner.run_turn("s", [runner.user_message("new", "h3")], [])
    thread = (await graph.aget_state(IN_THREAD)).values["messages"]
    assert shape(thread) == ["human", "ai", "tool c1", "tool c2", "human", "human", "ai"]
    assert (output.reply, len(output.items)) == ("re: new", 1)

    seen: list[BaseMessage] = []

    async def ask(state: MessagesState) -> Any:
        seen[:] = state["messages"]
        return {"messages": [AIMessage("done")]}

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    plain = LangGraphRunner(lambda tools: builder.compile())
    history = [
        plain.user_message("old", "h1"),
        {"type": "ai", "data": orphans[1].model_dump(mode="json")},
        plain.user_message("new", "h3"),
    ]
    output = await plain.run_turn("s", history, [])
    assert shape(seen) == ["human", "ai", "tool c1", "tool c2", "human"]
    assert (output.reply, len(output.items)) == ("done", 1)


class _SavesLost(InMemorySaver):
    """Keeps the first ``left`` saves, as a crash would leave them, until ``left`` is ``None``."""

    left: int | None = None

    def _keeps(self) -> bool:
        if self.left is None:
            return True
        self.left -= 1
        return self.left >= 0

    def put(self, config: Any, checkpoint: Any, *others: Any) -> Any:
        if self._keeps():
            return super().put(config, checkpoint, *others)
        return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}

    def put_writes(self, *args: Any) -> None:
        if self._keeps():
            super().put_writes(*args)


SAVES = 20
"""More than a turn with one round of calls makes."""


@pytest.mark.parametrize("kept", range(SAVES))
@pytest.mark.parametrize("kind", ["agent", "bare agent", "own graph"])
@pytest.mark.asyncio
async def test_turn_is_answered_whichever_of_its_saves_a_crash_left(kind: Kind, kept: int) -> None:
    """Every call has one result, no tool that may have run runs again, and no model is asked behind its own answer."""
    ran: list[str] = []
    seen: list[str] = []

    async def own() -> str:
        ran.append("own")
        return "own"

    class Model(ScriptModel):
        async def _agenerate(self, messages: Any, *args: Any, **options: Any) -> Any:
            seen.append(messages[-1].type)
            return await super()._agenerate(messages, *args, **options)

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return Model(script=self.script)

    async def script(request: Request) -> Reply:
        return "answer" if request.results else [Call("own", "{}", "c1"), Call("own", "{}", "c2")]

    saver = _SavesLost()
    model = Model(script=script)
    runner = LangGraphRunner(
        lambda tools: graph_of(model, tools, [tool_of(own, "own")], kind, saver), owns_history=True
    )
    message = runner.user_message("hello", "m1")
    saver.left = kept
    first = await runner.run_turn("s", [message], [])
    assert first.reply == "answer"
    assert kept < SAVES - 1 or saver.left >= 0, "the turn makes more saves than this test takes away"
    saver.left = None
    snapshot = await graph_of(model, [], [tool_of(own, "own")], kind, saver).aget_state(IN_THREAD)
    ran.clear()
    output = await runner.run_turn("s", [message], [])
    assert not ran or not any(task.name == "tools" for task in snapshot.tasks)
    assert output.reply == "answer"
    assert [item["type"] for item in output.items] == ["ai", "tool", "tool", "ai"]
    assert [item["data"]["tool_call_id"] for item in output.items[1:3]] == ["c1", "c2"]
    assert set(seen) <= {"human", "tool"}
    assert (await runner.run_turn("s", [runner.user_message("more", "m2")], [])).reply == "answer"


class _SlowSaver(InMemorySaver):
    """Takes its time, as a disk does."""

    async def aput(self, *args: Any) -> Any:
        for _ in range(50):
            await asyncio.sleep(0)
        return self.put(*args)


@pytest.mark.parametrize("kind", ["agent", "own graph"])
@pytest.mark.asyncio
async def test_thread_holds_a_call_before_its_tool_runs(kind: Kind) -> None:
    """So a crash in mid tool never leads to a second, unsuspecting call."""
    saver = _SlowSaver()
    model = ScriptModel(script=Scripted([Call("own", "{}", "c1")]))
    held: list[list[str]] = []

    async def own() -> str:
        thread = await saver.aget_tuple(IN_THREAD)
        assert thread is not None
        held.append(shape(thread.checkpoint["channel_values"]["messages"]))
        return "own"

    runner = LangGraphRunner(
        lambda tools: graph_of(model, tools, [tool_of(own, "own")], kind, saver), owns_history=True
    )
    await runner.run_turn("s", [runner.user_message("hello", "m1")], [])
    assert held == [["human", "ai"]]


@pytest.mark.asyncio
async def test_turn_whose_graph_had_ended_is_not_run_again() -> None:
    """Its end in our log was lost in a crash; the checkpointer kept the answer."""
    model = Scripted("first answer")
    runner = agent_runner(model, saver=InMemorySaver())
    message = runner.user_message("hello", "m1")
    first = await runner.run_turn("s", [message], [])
    assert await runner.run_turn("s", [message], []) == first
    assert len(model.requests) == 1


@pytest.mark.asyncio
async def test_thread_older_than_the_log_keeps_its_messages() -> None:
    model = Scripted()
    runner = agent_runner(model, saver=InMemorySaver())
    await runner.run_turn("s", [runner.user_message("old", "m1")], [])
    output = await runner.run_turn("s", [runner.user_message("new", "m1")], [])
    assert (output.reply, len(output.items)) == ("re: new", 1)
    assert list(model.requests[-1].texts) == ["old", "new"]


@pytest.mark.asyncio
async def test_thread_that_no_library_could_send_is_mended() -> None:
    """A bare agent's turn fails at half a character in a call; the next one works."""
    model = Scripted([Call("schedule_create", '{"prompt": "a\\ud800", "after_seconds": 60}', "c1")])
    saver = InMemorySaver()
    runner = LangGraphRunner(
        lambda tools: create_agent(ScriptModel(script=model), tools, checkpointer=saver), owns_history=True
    )
    async with session_of(runner) as live:
        with pytest.raises(TurnFailedError, match="UnicodeEncodeError"):
            await live.send("first")
        assert operations(live) == ["create"]
        assert await live.send("second") == "re: second"
    assert list(model.requests[-1].texts) == ["first", "second"]


@pytest.mark.asyncio
async def test_graph_that_stops_at_an_interrupt_fails_its_turn_and_the_next_one_works() -> None:
    async def ask_first() -> str:
        return str(interrupt("may I?"))

    model = Scripted([Call("ask_first", "{}", "c1")])
    async with session_of(agent_runner(model, [tool_of(ask_first, "ask_first")], InMemorySaver())) as live:
        with pytest.raises(TurnFailedError, match="CompositionError"):
            await live.send("first")
        assert await live.send("second") == "re: second"
        assert [turn["error"] for turn in ended(live)] == ["CompositionError", None]


@pytest.mark.asyncio
async def test_resumed_graph_that_runs_the_tool_again_makes_no_second_reminder() -> None:
    async with session_of(BuiltinRunner()) as live:
        node = ToolNode(tools_of(live))
        results: list[str] = []

        async def ask(state: MessagesState) -> Any:
            return {"messages": [calling([create("c1")])]}

        async def act(state: MessagesState, config: RunnableConfig) -> Any:
            update = await node.ainvoke(state, config)
            results.append(update["messages"][0].content)
            if len(results) == 1:
                raise RuntimeError("cut off behind the tool")
            return update

        builder = StateGraph(MessagesState)
        builder.add_node("ask", ask)
        builder.add_node("act", act)
        builder.add_edge(START, "ask")
        builder.add_edge("ask", "act")
        builder.add_edge("act", END)
        graph = builder.compile(checkpointer=InMemorySaver())
        with pytest.raises(RuntimeError, match="cut off"):
            await graph.ainvoke({"messages": [HumanMessage("remind me")]}, IN_THREAD)
        await graph.ainvoke(None, IN_THREAD)
        assert operations(live) == ["create"]
        assert results[0] == results[1]


@pytest.mark.asyncio
async def test_history_in_a_file_of_checkpoints_outlives_the_process(tmp_path: Path) -> None:
    aio = pytest.importorskip("langgraph.checkpoint.sqlite.aio")
    for number, texts in enumerate((["first"], ["first", "second"])):
        model = Scripted([create(f"c{number}")])
        async with aio.AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
            runner = agent_runner(model, saver=saver)
            async with ScheduleHost.open(tmp_path / "agent.db", runner=runner) as host:
                live = await host.session("s")
                assert await live.send(texts[-1]) == f"re: {texts[-1]}"
                assert operations(live) == ["create"] * (number + 1)
        assert list(model.requests[0].texts) == texts

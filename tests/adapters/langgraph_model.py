"""The LangGraph adapter under the contract: a chat model of LangChain's that answers by a script, in two graphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from schedule_sm.adapters.langgraph import (
    Graph,
    LangGraphRunner,
    ScheduleMiddleware,
    answer_malformed_calls,
    portable_calls,
)
from schedule_sm.testing.adapter_contract import Call, Request, Script

Kind: TypeAlias = Literal["agent", "bare agent", "own graph"]
"""create_agent with and without the middleware, and a graph of nodes and edges."""


class ScriptModel(BaseChatModel):
    """Answers by ``script``; one that is bound to tools is a model of its own."""

    script: Any
    shown: dict[str, Any] = {}

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        offered = [convert_to_openai_tool(tool)["function"] for tool in tools]
        return ScriptModel(script=self.script, shown={tool["name"]: tool["parameters"] for tool in offered})

    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError("asynchronous only")

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        json.dumps(
            [message.model_dump() for message in messages], ensure_ascii=False
        ).encode()  # as a client does
        reply = await self.script(Request(texts_of(messages), results_of(messages), self.shown))
        message = AIMessage(reply) if isinstance(reply, str) else calling(reply)
        return ChatResult(generations=[ChatGeneration(message=message)])


def calling(calls: Sequence[Call]) -> AIMessage:
    """Return a response of ``calls``, in the shape that LangChain's own parsers give it."""
    good: list[Any] = []
    malformed: list[Any] = []
    order = []
    for call in calls:
        arguments = call.arguments if isinstance(call.arguments, dict) else _parsed(str(call.arguments))
        if isinstance(arguments, dict):
            order.append("tool_calls")
            good.append({"name": call.name, "args": arguments, "id": call.call_id})
        else:
            order.append("invalid_tool_calls")
            malformed.append({"name": call.name, "args": call.arguments, "id": call.call_id, "error": None})
    return AIMessage("", tool_calls=good, invalid_tool_calls=malformed, response_metadata={"order": order})


def _parsed(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(name: str) -> object:
    raise ValueError(name)


def texts_of(messages: Sequence[BaseMessage]) -> list[str]:
    return [str(message.text) for message in messages if isinstance(message, HumanMessage)]


def results_of(messages: Sequence[BaseMessage]) -> list[str]:
    """The results behind the last user message, those of one response in the order of its calls."""
    found: list[str] = []
    begin = max(at for at, message in enumerate(messages) if isinstance(message, HumanMessage))
    turn = messages[begin + 1 :]
    for at, message in enumerate(turn):
        if isinstance(message, AIMessage) and (order := message.response_metadata.get("order")):
            end = next(
                (e for e in range(at + 1, len(turn)) if not isinstance(turn[e], ToolMessage)), len(turn)
            )
            results = {result.tool_call_id: str(result.text) for result in turn[at + 1 : end]}  # type: ignore[attr-defined] # results only
            calls = {kind: iter(getattr(message, kind)) for kind in ("tool_calls", "invalid_tool_calls")}
            ids = [next(calls[kind])["id"] or "" for kind in order]
            found += [results[call_id] for call_id in ids if call_id in results]
    return found


def graph_of(
    model: BaseChatModel, tools: list[BaseTool], own: list[BaseTool], kind: Kind, saver: Any
) -> Graph:
    """Compile a graph of ``kind``."""
    if kind == "agent":
        return create_agent(model, own, middleware=[ScheduleMiddleware(tools)], checkpointer=saver)
    if kind == "bare agent":
        return create_agent(model, [*own, *tools], checkpointer=saver)
    return own_graph(model, [*own, *tools], saver)


def own_graph(model: BaseChatModel, tools: list[BaseTool], saver: Any) -> Graph:
    """A graph without create_agent, whose own nodes answer malformed calls and keep arguments plain."""
    bound = model.bind_tools(tools)

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [portable_calls(await bound.ainvoke(state["messages"]), tools)]}

    async def refuse(state: MessagesState) -> dict[str, Any]:
        return {"messages": await answer_malformed_calls(state["messages"][-1], tools)}

    def after_ask(state: MessagesState) -> list[str] | str:
        last = state["messages"][-1]
        assert isinstance(last, AIMessage)
        return [*["tools"] * bool(last.tool_calls), *["refuse"] * bool(last.invalid_tool_calls)] or END

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode(tools))
    graph.add_node("refuse", refuse)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", after_ask, ["tools", "refuse", END])
    graph.add_edge("tools", "ask")
    graph.add_edge("refuse", "ask")
    return graph.compile(checkpointer=saver)


class LangGraph:
    """What the contract asks of an adapter."""

    def __init__(self, kind: Kind, make_saver: Callable[[], BaseCheckpointSaver[Any]] | None = None) -> None:
        self.name = f"langgraph, {kind}"
        self._kind = kind
        self._make_saver = make_saver

    def runner(self, script: Script, own_tools: Sequence[str] = ()) -> LangGraphRunner:
        model = ScriptModel(script=script)
        own = [tool_named(name) for name in own_tools]
        saver = None if self._make_saver is None else self._make_saver()
        return LangGraphRunner(
            lambda tools: graph_of(model, tools, own, self._kind, saver), owns_history=saver is not None
        )


def tool_named(name: str) -> BaseTool:
    def own() -> str:
        """Do nothing."""
        return "own"

    return StructuredTool.from_function(own, name=name)

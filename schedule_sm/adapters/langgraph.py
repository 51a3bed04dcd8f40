"""LangGraph: the tools of a turn as LangChain tools, and a turn runner around ``graph.ainvoke``.

Arguments reach ``ToolSpec.invoke`` as the model wrote them, malformed ones too. A call that a crash left without a
result gets one before the next message, since models' interfaces refuse such a history.
"""

# ruff: noqa: E402 - a missing or unsupported framework is refused by name before it is imported

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, Literal, NoReturn, TypeAlias, cast

from pydantic import PrivateAttr, ValidationError
from pydantic_core import to_jsonable_python

from schedule_sm.adapters.portable import distinct_ids, portable
from schedule_sm.adapters.requirement import require
from schedule_sm.core.ecmascript import encodable, escape_surrogates, stringify
from schedule_sm.core.errors import CompositionError
from schedule_sm.embedded.errors import ToolNameTakenError
from schedule_sm.embedded.runner import JsonValue, TurnOutput
from schedule_sm.tool_spec import ToolSpec

require("langgraph", ">=1.2,<2", "langgraph")
require("langchain", ">=1.3,<2", "langgraph")

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse, hook_config
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    RemoveMessage,
    ToolCall,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from langgraph.errors import GraphRecursionError
from langgraph.graph import END
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime
from langgraph.types import Durability, StateSnapshot

Graph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
Build: TypeAlias = Callable[[list[BaseTool]], Graph]
"""Takes a turn's tools and compiles a graph whose state has ``messages``."""

CUT_OFF: Final = (
    "This call was cut off and its result is unknown: it may or may not have been carried out. "
    "Check before you repeat it; schedule_list shows which reminders there are."
)
"""What the model reads as the result of a call that has none."""
MALFORMED: Final = (
    "The arguments are no JSON object, so this call was not carried out. Repeat it with valid JSON."
)
"""What the model reads as the result of a malformed call of another tool, or of one that nobody answered."""
UNREADABLE: Final = (
    "Your last response was lost, and none of its tool calls was carried out: the arguments of one are no JSON object. "
    "Answer again, with a JSON object for each call."
)
"""What the model reads when its provider's package could make no message of a response."""
MALFORMED_IN_A_ROW: Final = 25
"""After so many responses of nothing but malformed calls the turn fails: LangGraph's own limit of steps was 25."""

_call_id: ContextVar[str | None] = ContextVar("schedule_sm_langchain_call_id", default=None)


# -- tools ----------------------------------------------------------------------------------------------------


class _BoundTool(BaseTool):
    """One of the turn's tools; an error value is a result with the status ``error``."""

    _spec: ToolSpec = PrivateAttr()

    def __init__(self, spec: ToolSpec) -> None:
        super().__init__(
            name=spec.name,
            description=spec.description,
            args_schema=dict(spec.parameters),  # a mapping, which the framework does not validate against
            handle_tool_error=True,
        )
        self._spec = spec

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - its name there
        call_id = None
        if isinstance(input, dict) and input.get("type") == "tool_call":
            call_id = input["id"] or None
            input = {
                **input,
                "id": call_id or "",
            }  # without an id the framework makes no message of the result
        token = _call_id.set(call_id)
        try:
            return await super().ainvoke(input, config, **kwargs)
        finally:
            _call_id.reset(token)

    async def _arun(self, /, *args: Any, **kwargs: Any) -> str:  # "/": a model may send an argument "self"
        content, is_error = await self.answer(kwargs, _call_id.get())
        if is_error:
            raise ToolException(content)
        return content

    def _run(self, /, *args: Any, **kwargs: Any) -> NoReturn:
        msg = f"{self.name} runs on its session's event loop: call the graph with ainvoke or astream"
        raise NotImplementedError(msg)

    async def answer(self, raw: object, call_id: str | None) -> tuple[str, bool]:
        """Return the content for the model, and whether it is an error value."""
        result = await self._spec.invoke(raw, call_id)
        return result.content, isinstance(result.value, dict) and "message" in result.value


def langchain_tools(tools: Sequence[ToolSpec]) -> list[BaseTool]:
    """Return ``tools`` for a graph or an agent: same names, descriptions and schemas; to be awaited.

    Called without an event loop (``invoke``), they raise ``NotImplementedError``.
    """
    return [_BoundTool(tool) for tool in tools]


async def answer_malformed_calls(message: BaseMessage, tools: Sequence[BaseTool]) -> list[ToolMessage]:
    """Return a result for each call of ``message`` whose arguments LangChain could not read (``invalid_tool_calls``).

    For a tool node of your own: ``ToolNode`` passes over such calls, and models' interfaces refuse a history in which
    a call has no result. ``tools`` are those of the turn; they get the text as the model wrote it.
    """
    bound = {tool.name: tool for tool in tools if isinstance(tool, _BoundTool)}
    results = []
    for call in message.invalid_tool_calls if isinstance(message, AIMessage) else ():
        tool = bound.get(call["name"] or "")
        content, is_error = (MALFORMED, True) if tool is None else await tool.answer(call["args"], call["id"])
        results.append(_result_of(call, content, "error" if is_error else "success"))
    return results


def portable_calls(message: BaseMessage, tools: Sequence[BaseTool]) -> BaseMessage:
    r"""Return a model's ``message`` with calls of ``tools`` that any library can keep and send.

    For a node of your own that asks the model: a checkpointer or the next request fails at arguments that nest too
    deeply, at integers beyond 64 bits and at half characters. The first two become ``None``, the halves ``\udXXX``; a
    call that is refused for such arguments is refused without them too. A call whose id is empty or another's gets one.
    Other tools' arguments stay as they are.
    """
    if not isinstance(message, AIMessage):
        return message
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    ids = distinct_ids((call["id"], (call["name"], call["args"])) for call in calls)
    named = [{**call, "id": call_id} for call, call_id in zip(calls, ids, strict=True)]
    return _with_plain_arguments(_with_calls(message, named), {tool.name for tool in tools})


class ScheduleMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Gives the tools to ``create_agent``, answers malformed calls and keeps what the model is sent valid UTF-8.

    LangChain's own parsers make no message of a response if a call's arguments are JSON but no object, or nest too
    deeply to read; the model is told so and asked again.
    """

    def __init__(self, tools: Sequence[BaseTool]) -> None:
        """Offer ``tools``, as ``build`` gets them; do not give them to ``create_agent`` once more."""
        super().__init__()
        self.tools = tools

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Answer the malformed calls of the last response; back to the model if it has no others."""
        last = state["messages"][-1]
        results = await answer_malformed_calls(last, self.tools)
        if not results:
            return None
        has_others = isinstance(last, AIMessage) and last.tool_calls
        return {"messages": results} if has_others else {"messages": results, "jump_to": "model"}

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Keep out what no library could send or keep: lone surrogates, and calls of these tools that are not plain."""
        messages = [_sendable(message) for message in request.messages]
        for _ in range(MALFORMED_IN_A_ROW):
            try:
                response = await handler(request.override(messages=cast("list[Any]", messages)))
            except (ValidationError, RecursionError) as error:
                if not _is_unreadable(error):
                    raise
                messages = [*messages, HumanMessage(UNREADABLE)]
                continue
            return replace(
                response, result=[portable_calls(message, self.tools) for message in response.result]
            )
        raise _endless()


def _is_unreadable(error: ValidationError | RecursionError) -> bool:
    """Whether ``error`` says that a response's calls could not be read; whatever else it is, is not for the model."""
    if isinstance(error, RecursionError):
        return "decoding a JSON" in str(error)
    return error.title.startswith("AIMessage") and all(
        lack["loc"][:1] == ("tool_calls",) for lack in error.errors()
    )


def _endless() -> GraphRecursionError:
    return GraphRecursionError(f"the model sent {MALFORMED_IN_A_ROW} responses of malformed calls in a row")


# -- turns ----------------------------------------------------------------------------------------------------


class LangGraphRunner:
    """Runs each turn on a graph that is built for it, as tools are fixed when a graph is compiled."""

    format = "langgraph/messages-1"

    def __init__(
        self,
        build: Build,
        *,
        owns_history: bool = False,
        config: RunnableConfig | None = None,
        context: Any = None,
    ) -> None:
        """Run what ``build`` compiles.

        Args:
            build: called for each turn, and here once without tools to see which names the graph has itself. Whatever
                outlives a turn (model, checkpointer, store) is made outside of it.
            owns_history: the graph's checkpointer holds the history, in the thread named as the session; by default
                our log holds it.
            config: for each run, such as ``callbacks`` or ``recursion_limit``; ``thread_id`` is set here.
            context: for each run, if the graph has a ``context_schema``.

        Raises:
            CompositionError: if the graph has no checkpointer and is to own the history, or the other way round, or
                makes a new one each time.
        """
        self._build = build
        self._owns_history = owns_history
        self._config = config or {}
        self._context = context
        bare = build([])
        self._checkpointer = bare.checkpointer
        self._own_names = _tool_names(bare)
        if owns_history and not bare.checkpointer:
            msg = "owns_history=True needs a graph that is compiled with a checkpointer"
            raise CompositionError(msg)
        if bare.checkpointer and not owns_history:
            msg = "the graph has a checkpointer: leave it out, or say owns_history=True"
            raise CompositionError(msg)

    def user_message(self, text: str, message_id: str) -> JsonValue:
        r"""Return ``text`` as a human message in JSON; lone surrogates become ``\udXXX``."""
        [item] = _to_items([HumanMessage(text, id=message_id)])
        return item

    async def run_turn(
        self, session_id: str, history: Sequence[JsonValue], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        """Run the turn and return what it added, also when a checkpointer holds the history.

        Raises:
            ToolNameTakenError: if the graph itself has a tool of the same name as one of ``tools``.
            CompositionError: if the graph stops at an interrupt, which a turn cannot wait for.
            Exception: whatever the graph raises.
        """
        for tool in tools:
            if tool.name in self._own_names:
                raise ToolNameTakenError(tool.name)
        bound = langchain_tools(tools)
        turn = _GraphTurn(self._graph(bound), bound, self._run_config(session_id), self._context)
        messages = _to_messages(history)
        if self._owns_history:
            return await turn.go_on_in_thread(messages[-1])
        return await turn.begin(messages)

    def _graph(self, tools: list[BaseTool]) -> Graph:
        graph = self._build(tools)
        if graph.checkpointer is not self._checkpointer:
            msg = "build makes a checkpointer for each turn, which would forget the last one: make it outside"
            raise CompositionError(msg)
        return graph

    def _run_config(self, session_id: str) -> RunnableConfig:
        configurable = {**self._config.get("configurable", {}), "thread_id": session_id}
        return {**self._config, "configurable": configurable}


class _GraphTurn:
    """One turn on its graph."""

    def __init__(self, graph: Graph, tools: list[BaseTool], config: RunnableConfig, context: Any) -> None:
        self._graph = graph
        self._tools = tools
        self._config = config
        self._context = context

    async def begin(self, messages: list[BaseMessage]) -> TurnOutput:
        """Run the turn of the message that ends ``messages``, which are the whole history."""
        state = await self._invoke(_with_results(messages))
        return await self._end(state, messages[-1])

    async def go_on_in_thread(self, message: BaseMessage) -> TurnOutput:
        """Run the turn of ``message`` behind what the checkpointer holds, or go on with it if it has begun there."""
        snapshot = await self._graph.aget_state(self._config)
        known = _known(snapshot)
        if (
            snapshot.tasks
        ):  # not ``next``, which leaves out tasks whose writes were kept and their step was not
            if _has_begun(known, message) and _is_safe_to_resume(snapshot):
                return await self._end(await self._invoke(None), message)
            await self._graph.aupdate_state(
                self._config, None, as_node=END
            )  # keeps those writes, ends the rest
            known = _known(await self._graph.aget_state(self._config))
        has_begun = _has_begun(known, message)
        if has_begun and not snapshot.tasks and known[-1].id != message.id:
            # the graph had ended; only the turn's end was lost
            return await self._end(snapshot.values, message)
        if not has_begun and any(message.id == known_message.id for known_message in known):
            # the thread is older than the log, and a message under a known id would take the old one's place
            message = message.model_copy(update={"id": str(uuid.uuid4())})
        return await self._end(await self._invoke([*_repairs(known), message]), message)

    async def _end(self, state: dict[str, Any], message: BaseMessage) -> TurnOutput:
        """Go on while the graph has ended with malformed calls, then return what came behind ``message``."""
        for _ in range(MALFORMED_IN_A_ROW):
            messages: list[BaseMessage] = state["messages"]
            last = messages[-1]
            is_open = isinstance(last, AIMessage) and not last.tool_calls
            results = await answer_malformed_calls(last, self._tools) if is_open else []
            if not results:
                return _output(state, message)
            state = await self._invoke(results if self._graph.checkpointer else [*messages, *results])
        raise _endless()

    async def _invoke(self, messages: Sequence[BaseMessage] | None) -> dict[str, Any]:
        """Run the graph behind ``messages``; without any, from where its thread stands."""
        given = None if messages is None else {"messages": messages}
        # "sync": a tool runs only once the thread holds its call, or a turn offered again would not know of it
        durability: Durability | None = "sync" if self._graph.checkpointer else None
        state = await self._graph.ainvoke(given, self._config, context=self._context, durability=durability)
        if "__interrupt__" in state:
            msg = "the graph stopped at an interrupt; a turn cannot wait for its answer, so ask inside the graph"
            raise CompositionError(msg)
        return cast("dict[str, Any]", state)


def _known(snapshot: StateSnapshot) -> list[BaseMessage]:
    return cast("list[BaseMessage]", snapshot.values.get("messages", []))


def _has_begun(known: Sequence[BaseMessage], message: BaseMessage) -> bool:
    said = [known_message for known_message in known if isinstance(known_message, HumanMessage)]
    return bool(said) and (said[-1].id, said[-1].content) == (message.id, message.content)


def _is_safe_to_resume(snapshot: StateSnapshot) -> bool:
    """Whether no tool would run twice: no call is open, or the tasks of the step have all been kept."""
    known = _known(snapshot)
    is_kept = all(task.result is not None for task in snapshot.tasks)
    return is_kept or len(_with_results(known)) == len(known)


def _output(state: dict[str, Any], message: BaseMessage) -> TurnOutput:
    messages: list[BaseMessage] = state["messages"]
    begin = max(
        (at for at, other in enumerate(messages) if other.id == message.id), default=len(messages) - 2
    )
    added = messages[begin + 1 :]
    structured = state.get("structured_response")
    if structured is not None:
        reply = stringify(to_jsonable_python(structured, fallback=str))
    else:
        reply = escape_surrogates(str(added[-1].text)) if added else ""
    return TurnOutput(_to_items(added), reply)


def _tool_names(graph: Graph) -> frozenset[str]:
    """Return the names of the tools in the graph's tool nodes and in those of its subgraphs."""
    graphs = [graph, *(subgraph for _, subgraph in graph.get_subgraphs(recurse=True))]
    nodes = [node.bound for one in graphs if isinstance(one, Pregel) for node in one.nodes.values()]
    return frozenset(name for node in nodes if isinstance(node, ToolNode) for name in node.tools_by_name)


# -- messages -------------------------------------------------------------------------------------------------


def _with_plain_arguments(message: BaseMessage, names: Container[str | None] | None = None) -> BaseMessage:
    """Return ``message`` with plain arguments in its calls of the tools called ``names``, by default of all tools."""
    if not isinstance(message, AIMessage):
        return message
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    plain = [
        {**call, "args": encodable(portable(call["args"]))}
        if names is None or call["name"] in names
        else call
        for call in calls
    ]
    if plain == calls:
        return message
    # some providers' packages keep the arguments in the content too
    content = encodable(portable(message.content)) if isinstance(message.content, list) else message.content
    return _with_calls(message.model_copy(update={"content": content}), plain)


def _with_calls(message: AIMessage, calls: Sequence[Any]) -> AIMessage:
    good = len(message.tool_calls)
    return message.model_copy(update={"tool_calls": calls[:good], "invalid_tool_calls": calls[good:]})


def _with_results(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return ``messages`` with a result for each call that has none, behind the results of its response."""
    whole: list[BaseMessage] = []
    open_calls: dict[str, ToolCall | InvalidToolCall] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            open_calls.pop(message.tool_call_id, None)
        else:
            whole += [_missing_result(call) for call in open_calls.values()]
            open_calls = {call["id"] or "": call for call in _calls(message)}
        whole.append(message)
    return whole + [_missing_result(call) for call in open_calls.values()]


def _calls(message: BaseMessage) -> Sequence[ToolCall | InvalidToolCall]:
    return (*message.tool_calls, *message.invalid_tool_calls) if isinstance(message, AIMessage) else ()


def _repairs(known: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return the messages that mend a thread: one under a known id takes the place of the old one."""
    whole = _with_results([_sendable(message) for message in known])
    if [message.id for message in whole[: len(known)]] != [message.id for message in known]:
        return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *whole]
    old = {id(message) for message in known}
    return [message for message in whole if id(message) not in old]


def _missing_result(call: ToolCall | InvalidToolCall) -> ToolMessage:
    is_malformed = call.get("type") == "invalid_tool_call"
    return _result_of(call, MALFORMED if is_malformed else CUT_OFF, "error")


def _result_of(
    call: ToolCall | InvalidToolCall, content: str, status: Literal["success", "error"]
) -> ToolMessage:
    """Return the result of ``call``."""
    return ToolMessage(content, name=call["name"], tool_call_id=call["id"] or "", status=status)


def _to_messages(items: Iterable[JsonValue]) -> list[BaseMessage]:
    """Return what ``_to_items`` has made JSON of."""
    return messages_from_dict(cast("Any", list(items)))


def _to_items(messages: Sequence[BaseMessage]) -> list[JsonValue]:
    """Return messages as JSON that any provider can be sent again; what is no JSON, such as artifacts, is left out."""
    dumped = to_jsonable_python(
        [message_to_dict(_with_plain_arguments(message)) for message in messages],
        inf_nan_mode="null",
        fallback=lambda _: None,
    )
    return cast("list[JsonValue]", encodable(dumped))


def _sendable(message: BaseMessage) -> BaseMessage:
    """Return ``message``, or without what a provider's library cannot send: lone surrogates, NaN."""
    try:
        json.dumps(message.model_dump(), ensure_ascii=False, allow_nan=False, default=str).encode()
    except (ValueError, RecursionError):
        return _to_messages(_to_items([message]))[0]
    return message

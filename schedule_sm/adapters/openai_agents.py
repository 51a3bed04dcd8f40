"""openai-agents: the tools of a turn as ``FunctionTool``s, and a turn runner around ``Runner.run``.

Arguments reach ``ToolSpec.invoke`` as the model wrote them; the framework validates nothing.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from pydantic_core import to_jsonable_python

from schedule_sm.adapters.portable import distinct_ids
from schedule_sm.adapters.requirement import require
from schedule_sm.core.ecmascript import encodable, escape_surrogates, stringify
from schedule_sm.core.errors import ScheduleError
from schedule_sm.embedded.errors import ToolNameTakenError
from schedule_sm.embedded.runner import JsonValue, TurnOutput
from schedule_sm.tool_spec import ToolSpec

require("openai-agents", ">=0.24,<0.25", "openai-agents")

from agents import (  # noqa: E402 - a missing or unsupported framework is refused by name first
    Agent,
    FunctionTool,
    Handoff,
    Model,
    ModelProvider,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    Runner,
    Session,
    Tool,
    TResponseInputItem,
)
from agents.run_config import DEFAULT_MAX_TURNS  # noqa: E402 - as above
from agents.tool_context import ToolContext  # noqa: E402 - as above
from openai.types.responses import ResponseFunctionToolCall  # noqa: E402 - as above

SessionFactory: TypeAlias = Callable[[str], Session | AbstractContextManager[Session]]
"""Takes a session's id. A ``Session`` is kept for the later turns; a context manager is left after each turn."""

CUT_OFF: Final = (
    "This call was cut off before its result was kept: it may have taken effect or not. "
    "Look at what is there before you repeat it."
)
"""What the model reads as the result of a call that their Session holds without one."""


class ApprovalNeededError(ScheduleError):
    """A tool of the agent's asked for an approval; a turn here cannot be paused, so it fails."""

    code = "approval_needed"


def function_tools(tools: Sequence[ToolSpec]) -> list[Tool]:
    """Return ``tools`` for an agent: same names, descriptions and schemas; a call's result is the tool's JSON text."""
    return [_function_tool(tool) for tool in tools]


def _function_tool(tool: ToolSpec) -> FunctionTool:
    async def invoke(context: ToolContext[Any], raw: str) -> str:
        return (await tool.invoke(raw, context.tool_call_id)).content

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=dict(tool.parameters),
        on_invoke_tool=invoke,
        strict_json_schema=False,  # true would rewrite the schema
    )


class OpenAIAgentsRunner:
    """Runs each turn with ``Runner.run`` on a clone of an agent that has the turn's tools; the agent is not changed.

    Whatever it hands off to has the tools too. Each turn begins with ``agent``, also after a handoff.
    """

    format = "openai-agents/responses-input-1"

    def __init__(
        self,
        agent: Agent[Any],
        *,
        run_config: RunConfig | None = None,
        session_factory: SessionFactory | None = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        context: Any = None,
    ) -> None:
        """Run ``agent``.

        Args:
            agent: one object may serve any number of sessions.
            run_config: by default tracing is off, a call to an unknown tool is answered with an error, and names
                that are there twice are refused, also those of MCP servers.
            session_factory: makes the framework's ``Session`` that holds the history; by default our log holds it.
            max_turns: how often the model may be called in one turn; ``None`` for no limit.
            context: given to every run.
        """
        self._agent = agent
        run_config = run_config or RunConfig(
            tracing_disabled=True,
            tool_not_found_behavior="return_error_to_model",
            tool_name_collision_policy="error",
        )
        self._run_config = replace(
            run_config,
            model=_encodable_model(run_config.model),
            model_provider=cast("ModelProvider", _EncodableModels(run_config.model_provider)),
        )
        self._session_factory = session_factory
        self._kept: dict[str, Session] = {}
        self._max_turns = max_turns
        self._context = context

    def user_message(self, text: str, message_id: str) -> JsonValue:
        r"""Return ``text`` as a Responses input item; lone surrogates become ``\udXXX``."""
        return {"role": "user", "content": escape_surrogates(text)}

    async def run_turn(
        self, session_id: str, history: Sequence[JsonValue], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        """Run the turn and return what it added, also when their Session holds the history.

        Raises:
            ToolNameTakenError: if an agent has a tool or a handoff of the same name as one of ``tools``.
            ApprovalNeededError: if a tool of the agent's asked for an approval.
            AgentsException: of the framework, such as ``MaxTurnsExceeded``.
        """
        agent = _Equipment(tools).equip(self._agent)
        items = cast("list[TResponseInputItem]", list(history))
        async with self._session(session_id) as session:
            result = await Runner.run(
                agent,
                items if session is None else await _settle_session(session, items),
                context=self._context,
                max_turns=self._max_turns,
                run_config=self._run_config,
                session=session,
            )
        if result.interruptions:
            names = sorted({str(item.name) for item in result.interruptions})
            msg = f"{', '.join(names)} asked for an approval; a turn cannot wait for one, so ask inside the tool"
            raise ApprovalNeededError(msg)
        new_items = [encodable(item.to_input_item()) for item in result.new_items]
        return TurnOutput(new_items, _reply(result.final_output))

    @asynccontextmanager
    async def _session(self, session_id: str) -> AsyncIterator[Session | None]:
        """Open their Session in a thread, as its constructor may wait for a lock on a file."""
        if self._session_factory is None or session_id in self._kept:
            yield self._kept.get(session_id)
            return
        made = await asyncio.to_thread(self._session_factory, session_id)
        if not isinstance(made, AbstractContextManager):
            self._kept[session_id] = made
            yield made
            return
        with_session = ExitStack()
        try:
            yield await asyncio.to_thread(with_session.enter_context, made)
        finally:
            await asyncio.to_thread(with_session.close)


class _Equipment:
    """Clones of an agent and of what it hands off to, each with the tools of one turn; handoffs may go in circles."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = function_tools(tools)
        self._clones: dict[int, tuple[Agent[Any], Agent[Any]]] = {}

    def equip(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the one clone of ``agent``."""
        if id(agent) in self._clones:
            return self._clones[id(agent)][1]
        names = {tool.name for tool in agent.tools}
        names |= {handoff.tool_name for handoff in agent.handoffs if isinstance(handoff, Handoff)}
        for tool in self._tools:
            if tool.name in names:
                raise ToolNameTakenError(tool.name)
        clone = agent.clone(tools=[*agent.tools, *self._tools])
        for known in (agent, clone):  # a handoff may return either
            self._clones[id(known)] = (known, clone)
        clone.model = _encodable_model(agent.model)
        clone.handoffs = [self._equip_handoff(handoff) for handoff in agent.handoffs]
        return clone

    def _equip_handoff(self, handoff: Agent[Any] | Handoff[Any, Any]) -> Agent[Any] | Handoff[Any, Any]:
        if isinstance(handoff, Agent):
            return self.equip(handoff)
        invoke = handoff.on_invoke_handoff

        async def invoke_equipped(context: RunContextWrapper[Any], raw: str) -> Agent[Any]:
            return self.equip(await invoke(context, raw))

        equipped = copy.copy(handoff)
        equipped.on_invoke_handoff = invoke_equipped
        return equipped


async def _settle_session(
    session: Session, history: Sequence[TResponseInputItem]
) -> list[TResponseInputItem]:
    """Mend what a cut-off turn left in ``session``; return what is still to be said in this one.

    A call without a result gets one, since models' interfaces refuse it and the framework would hide it. If the
    turn that was cut off was this one, its message is there already: it goes on from there.
    """
    message = history[-1]
    stored = await session.get_items()
    begin = max((at for at, item in enumerate(stored) if item.get("role") == "user"), default=len(stored))
    last_turn = stored[begin:]
    calls = [item.get("call_id") for item in last_turn if item.get("type") == "function_call"]
    answered = {item.get("call_id") for item in last_turn if item.get("type") == "function_call_output"}
    results = [
        {"type": "function_call_output", "call_id": call_id, "output": CUT_OFF}
        for call_id in calls
        if call_id not in answered
    ]
    if results:
        await session.add_items(cast("list[TResponseInputItem]", results))
    has_begun = last_turn[:1] == [message] and last_turn[-1].get("role") != "assistant"
    is_this_one = has_begun and stored.count(message) > history[:-1].count(message)
    return [] if is_this_one else [message]


def _reply(output: object) -> str:
    """Return the final output as text: as JSON if the agent has an output type."""
    if isinstance(output, str):
        return escape_surrogates(output)
    return stringify(to_jsonable_python(output, fallback=str))


class _StandIn:
    """Passes for another object, whose class the framework asks for, and does one thing differently."""

    def __init__(self, real: Any) -> None:
        self._real = real

    @property  # type: ignore[misc] # isinstance() only reads it
    def __class__(self) -> Any:
        return type(self._real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _EncodableModel(_StandIn):
    r"""Lone surrogates, such as a cut-off stream leaves, become ``\udXXX`` in what a model reads and in its calls.

    They would fail each request where it is encoded, and the framework fails the turn of a call whose arguments it
    cannot hash or whose nesting it cannot read, or whose id is empty or another's, before the tool is asked.
    """

    async def get_response(self, *, input: Any, **others: Any) -> ModelResponse:  # noqa: A002 - the framework's name
        response: ModelResponse = await self._real.get_response(input=encodable(input), **others)
        calls = [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]
        ids = distinct_ids((call.call_id, (call.name, call.arguments)) for call in calls)
        for call, call_id in zip(calls, ids, strict=True):
            call.call_id, call.arguments = call_id, _encodable_arguments(call.arguments)
        return response


def _encodable_model(model: str | Model | None) -> str | Model | None:
    return cast("Model", _EncodableModel(model)) if isinstance(model, Model) else model


class _EncodableModels(_StandIn):
    """A provider of such models."""

    def get_model(self, model_name: str | None) -> Any:
        return _EncodableModel(self._real.get_model(model_name))


def _encodable_arguments(raw: str) -> str:
    """Return ``raw`` to the byte, unless it holds lone surrogates or nests too deeply."""
    try:
        arguments = json.loads(raw)
        escaped = encodable(arguments)
        return raw if escaped == arguments else json.dumps(escaped)
    except RecursionError:
        return json.dumps(escape_surrogates(raw))  # a text is no object either: refused by value
    except ValueError:
        return escape_surrogates(raw)

"""pydantic-ai: the tools of a turn as a toolset of that run, and a turn runner around ``Agent.run``.

Arguments reach ``ToolSpec.invoke`` as the model wrote them, and every answer is a value: a refused call costs none of
the agent's retries. Reminders go between runs, never into one.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from schedule_sm.adapters.portable import distinct_ids, portable
from schedule_sm.adapters.requirement import require
from schedule_sm.core.ecmascript import encodable, escape_surrogates, stringify
from schedule_sm.core.errors import CompositionError
from schedule_sm.embedded.runner import JsonValue, TurnOutput
from schedule_sm.tool_spec import ToolSpec, decode_arguments

require("pydantic-ai-slim", ">=2.60,<3", "pydantic-ai")

from pydantic_ai import (  # noqa: E402 - a missing or unsupported framework is refused by name first
    AbstractToolset,
    Agent,
    DeferredToolRequests,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    RunContext,
    ToolCallPart,
    ToolDefinition,
    ToolsetTool,
    UserPromptPart,
)
from pydantic_ai.capabilities import AbstractCapability  # noqa: E402 - as above
from pydantic_ai.models import ModelRequestContext  # noqa: E402 - as above
from pydantic_core import to_jsonable_python  # noqa: E402 - as above

_SET_HERE: Final = frozenset({"user_prompt", "message_history", "conversation_id", "deferred_tool_results"})


class _AnyArguments:
    """Stands where the framework validates arguments, and refuses nothing: the tool is the only judge."""

    def validate_json(self, input: str | bytes | bytearray, **options: object) -> Any:  # noqa: A002 - its name there
        """Return an object, which hooks of the agent can read, or else the text that the model sent."""
        decoded = decode_arguments(input)
        return decoded if isinstance(decoded, dict) else input

    def validate_python(self, input: Any, **options: object) -> Any:  # noqa: A002 - its name there
        """Return what a provider's library has decoded already."""
        return input


class ScheduleToolset(AbstractToolset[Any]):
    """The tools of one turn, to be given to one run: ``agent.run(..., toolsets=[ScheduleToolset(tools)])``.

    A name that the agent already has ends the run with the framework's ``UserError`` before the model is asked.
    """

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        """Offer ``tools`` as they are."""
        self._tools = {tool.name: tool for tool in tools}

    @property
    def id(self) -> str:
        """The same in every run."""
        return "schedule-sm"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return names, descriptions and schemas as the catalogue has them."""
        return {name: self._offered(tool) for name, tool in self._tools.items()}

    def _offered(self, tool: ToolSpec) -> ToolsetTool[Any]:
        definition = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=dict(tool.parameters),
            strict=False,  # strict would rewrite the schema
        )
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=0, args_validator=_AnyArguments())

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        """Return the JSON text of the tool's value, an error's too."""
        return (await self._tools[name].invoke(tool_args, ctx.tool_call_id)).content


class _PortableCalls(AbstractCapability[Any]):
    """Makes plain what the turn's tools are called with, else the run's next request could not be encoded.

    Gives each call an id of its own, else the run would end before a tool is asked.
    """

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._names = {tool.name for tool in tools}

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        return _with_portable_calls(_with_distinct_ids(response), self._names)


class PydanticAIRunner:
    """Runs each turn with ``agent.run``; one agent object may serve any number of sessions."""

    format = "pydantic-ai/model-messages-1"

    def __init__(self, agent: Agent[Any, Any], **run_kwargs: Any) -> None:
        """Run ``agent``.

        Args:
            agent: give it ``instructions``, not ``system_prompt``: a system prompt is left out of a run that begins
                with a history, and every run here does.
            run_kwargs: handed to every ``agent.run``, such as ``deps``, ``usage_limits``, ``model_settings`` or
                ``event_stream_handler``; ``toolsets`` and ``capabilities`` are added to the runner's own.

        Raises:
            CompositionError: for an argument that the runner itself gives.
        """
        taken = sorted(_SET_HERE & run_kwargs.keys())
        if taken:
            msg = f"the runner itself gives {', '.join(taken)} to each run; leave it out"
            raise CompositionError(msg)
        self._agent = agent
        self._toolsets: Sequence[AbstractToolset[Any]] = run_kwargs.pop("toolsets", None) or ()
        self._capabilities: Sequence[Any] = run_kwargs.pop("capabilities", None) or ()
        self._run_kwargs = run_kwargs

    def user_message(self, text: str, message_id: str) -> JsonValue:
        """Return a request with one user prompt, as the framework's messages look in JSON."""
        [item] = _to_items([ModelRequest(parts=[UserPromptPart(content=text)])])
        return item

    async def run_turn(
        self, session_id: str, history: Sequence[JsonValue], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        """Run the turn of the user message that ends ``history``.

        Raises:
            CompositionError: if the run stops for an approval or an external call, which a turn cannot wait for.
            Exception: whatever the run raises.
        """
        result = await self._agent.run(
            message_history=ModelMessagesTypeAdapter.validate_python(history),
            conversation_id=session_id,
            toolsets=[*self._toolsets, ScheduleToolset(tools)],
            capabilities=[*self._capabilities, _PortableCalls(tools)],
            **self._run_kwargs,
        )
        if isinstance(result.output, DeferredToolRequests):
            msg = "the run stopped for an approval or an external call; a turn cannot wait for it"
            raise CompositionError(msg)
        return TurnOutput(_to_items(result.new_messages()), _reply(result.output))


def _reply(output: object) -> str:
    """Return what the user is shown: text, or the JSON text of another output type."""
    if isinstance(output, str):
        return escape_surrogates(output)
    return stringify(to_jsonable_python(output, fallback=str))


def _to_items(messages: list[ModelMessage]) -> list[JsonValue]:
    """Return ``messages`` as any provider can be sent them again: valid UTF-8 and no NaN, else the session is stuck."""
    plain = [_with_portable_calls(item) if isinstance(item, ModelResponse) else item for item in messages]
    dumped = ModelMessagesTypeAdapter.dump_python(plain, mode="json")
    return cast("list[JsonValue]", encodable(to_jsonable_python(dumped, inf_nan_mode="null")))


def _with_distinct_ids(response: ModelResponse) -> ModelResponse:
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    ids = distinct_ids((call.tool_call_id, (call.tool_name, call.args)) for call in calls)
    if len(set(ids)) == len(calls) and ids == [call.tool_call_id for call in calls]:
        return response
    unused = dict.fromkeys(ids)  # what repeats another call, id and all, is that call
    left = iter(ids)
    parts: list[ModelResponsePart] = []
    for part in response.parts:
        if not isinstance(part, ToolCallPart):
            parts.append(part)
        elif (call_id := next(left)) in unused:
            del unused[call_id]
            parts.append(replace(part, tool_call_id=call_id))
    return replace(response, parts=parts)


def _with_portable_calls(response: ModelResponse, names: Container[str] | None = None) -> ModelResponse:
    """Return ``response`` with plain arguments in its calls of the tools called ``names``, by default of all tools."""
    parts = [
        replace(part, args=encodable(portable(part.args)))
        if isinstance(part, ToolCallPart) and (names is None or part.tool_name in names)
        else part
        for part in response.parts
    ]
    return replace(response, parts=parts)

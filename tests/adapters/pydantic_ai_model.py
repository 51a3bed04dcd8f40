"""pydantic-ai's own offline model, answering by a script of the adapter contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel

from schedule_sm.adapters.pydantic_ai import PydanticAIRunner
from schedule_sm.testing.adapter_contract import Request, Script


class PydanticAI:
    name = "pydantic-ai"

    def runner(self, script: Script, own_tools: Sequence[str] = ()) -> PydanticAIRunner:
        return PydanticAIRunner(agent_of(script, own_tools))


class _WithObjects(WrapperModel):
    """Arguments that are objects, as some providers' libraries give them; FunctionModel fails at deep ones itself."""

    def __init__(self, wrapped: Model, objects: dict[str, Any]) -> None:
        super().__init__(wrapped)
        self._objects = objects

    async def request(self, *args: Any) -> ModelResponse:
        response = await super().request(*args)
        for part in response.parts:
            if isinstance(part, ToolCallPart):
                part.args = self._objects.pop(part.tool_call_id, part.args)
        return response


def agent_of(script: Script, own_tools: Sequence[str] = ()) -> Agent[None, str]:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        reply = await script(request_of(messages, info))
        if isinstance(reply, str):
            return ModelResponse(parts=[TextPart(reply)])
        objects.update({call.call_id: call.arguments for call in reply if isinstance(call.arguments, dict)})
        texts = [("{}" if isinstance(call.arguments, dict) else call.arguments) for call in reply]
        return ModelResponse(
            parts=[
                ToolCallPart(call.name, text, tool_call_id=call.call_id)  # type: ignore[arg-type]  # whatever a model sends
                for call, text in zip(reply, texts, strict=True)
            ]
        )

    objects: dict[str, Any] = {}
    agent = Agent(_WithObjects(FunctionModel(answer), objects), instructions="Keep reminders.")
    for name in own_tools:
        agent.tool_plain(name=name)(_own_tool)
    return agent


def _own_tool(text: str) -> str:
    """Answer as the agent's own tool."""
    return text


def request_of(messages: list[ModelMessage], info: AgentInfo) -> Request:
    texts: list[str] = []
    results: list[str] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                assert isinstance(part.content, str)
                texts.append(part.content)
                results.clear()
            elif isinstance(part, ToolReturnPart):
                results.append(part.model_response_str())
    tools: dict[str, Any] = {tool.name: tool.parameters_json_schema for tool in info.function_tools}
    return Request(tuple(texts), tuple(results), tools)

"""A host with turns of its own whose tools come over MCP: the adapters for MCP under the contract of the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from schedule_sm.core.ecmascript import escape_surrogates
from schedule_sm.embedded import JsonValue, TurnOutput
from schedule_sm.testing.adapter_contract import ADAPTER_CHECKS, Call, Request, Script
from schedule_sm.tool_spec import ToolSpec, decode_arguments

Connect = Callable[[Sequence[ToolSpec], Sequence[str]], AbstractAsyncContextManager[Any]]
"""Tools, names of tools that the server has already; yields a connected client."""

_NEEDS = {
    "bad_arguments_of_every_kind_are_answered_with_a_value": "arguments that are no object, which MCP cannot carry",
    "arguments_that_no_library_could_carry_are_answered_with_a_value": "a client that can carry them",
    "calls_without_an_id_of_their_own_are_each_answered": "the model's call id",
    "a_turn_cut_off_anywhere_is_offered_again": "the model's call id, which MCP does not carry",
    "a_call_repeated_in_a_turn_offered_again_makes_no_second_reminder": "the model's call id",
}
"""Checks that do not apply, and what they need."""
CHECKS = [check for check in ADAPTER_CHECKS if check.__name__ not in _NEEDS]


class LoopRunner:
    """Asks the scripted model until it answers with text; its tools are behind a client of one turn's server."""

    format = "mcp-loop/1"

    def __init__(self, script: Script, connect: Connect, own_tools: Sequence[str]) -> None:
        self._script = script
        self._connect = connect
        self._own_tools = own_tools

    def user_message(self, text: str, message_id: str) -> JsonValue:
        return {"user": escape_surrogates(text)}

    async def run_turn(
        self, session_id: str, history: Sequence[JsonValue], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        items: list[Any] = list(history)
        async with self._connect(tools, self._own_tools) as client:
            shown = {tool.name: tool.input_schema for tool in await listed(client)}
            while True:
                texts = [item["user"] for item in items if "user" in item]
                begin = max(at for at, item in enumerate(items) if "user" in item)
                results = [item["result"] for item in items[begin:] if "result" in item]
                reply = await self._script(Request(texts, results, shown))
                if isinstance(reply, str):
                    return TurnOutput(items[len(history) :], escape_surrogates(reply))
                answers = await asyncio.gather(*(_called(client, call) for call in reply))
                items += [{"result": answer} for answer in answers]


async def listed(client: Any) -> Sequence[Any]:
    """The tools as the client is shown them: mcp's client answers with a page, fastmcp's with a list."""
    answer = await client.list_tools()
    return answer if isinstance(answer, list) else answer.tools


async def _called(client: Any, call: Call) -> str:
    """What a host does with a call: what is no object goes under a name that no tool knows."""
    arguments = decode_arguments(call.arguments)
    if not isinstance(arguments, dict):
        arguments = {"arguments": arguments}
    return text_of(await call_tool(client, call.name, arguments))


async def call_tool(client: Any, name: str, arguments: Any) -> Any:
    """Call; an error value is a result with either client."""
    options = {"raise_on_error": False} if type(client).__module__.startswith("fastmcp") else {}
    return await client.call_tool(name, arguments, **options)


def text_of(result: Any) -> str:
    """The one text of a result."""
    [content] = result.content
    return str(content.text)


def value_of(result: Any) -> Any:
    """The value behind the text of a result."""
    return json.loads(text_of(result))

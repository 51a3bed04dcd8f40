"""The adapter contract over an adapter without a framework, and over some that break it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from schedule_sm.core.ecmascript import escape_surrogates
from schedule_sm.embedded.errors import ToolNameTakenError
from schedule_sm.embedded.runner import JsonValue, TurnOutput
from schedule_sm.testing.adapter_contract import (
    ADAPTER_CHECKS,
    Call,
    Request,
    Script,
    check_adapter,
    run_check,
)
from schedule_sm.tool_spec import ToolSpec


class Plain:
    """Does by hand what an adapter has a framework do; ``fault`` is what it does wrong."""

    name = "plain"

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    def runner(self, script: Script, own_tools: Sequence[str] = ()) -> PlainRunner:
        return PlainRunner(script, own_tools, self.fault)


class PlainRunner:
    format = "plain/1"

    def __init__(self, script: Script, own_tools: Sequence[str], fault: str) -> None:
        self.script, self.own_tools, self.fault = script, own_tools, fault
        self.shared: list[Any] = []

    def user_message(self, text: str, message_id: str) -> JsonValue:
        return {"text": escape_surrogates(text)}

    async def run_turn(
        self, session_id: str, history: Sequence[JsonValue], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        by_name = {tool.name: tool for tool in tools}
        if self.own_tools and self.fault != "takes the last of two":
            raise ToolNameTakenError(self.own_tools[0])
        items: list[Any] = self.shared if self.fault == "one history for all" else []
        while True:
            reply = await self.script(self.request([*history, *items], tools))
            if isinstance(reply, str):
                if self.fault != "shows halves of characters":
                    reply = escape_surrogates(reply)
                past = list(history) if self.fault == "keeps all messages" else []
                return TurnOutput([*past, *items, {"said": reply}], reply)
            for call in reply:
                if self.fault == "keeps calls as they are":
                    items.append({"arguments": call.arguments})
                items.append({"result": await self.result(by_name.get(call.name), call)})

    async def result(self, tool: ToolSpec | None, call: Call) -> str:
        if tool is None:
            return "there is no such tool"
        arguments = call.arguments
        if self.fault == "decodes by itself" and isinstance(arguments, str):
            arguments = json.loads(arguments)
        if self.fault == "calls with keywords" and isinstance(arguments, dict):
            arguments = (lambda self=None, **given: given)(**arguments)
        content = (await tool.invoke(arguments, None if self.fault == "drops ids" else call.call_id)).content
        return json.dumps(content) if self.fault == "encodes twice" else content

    def request(self, items: list[Any], tools: Sequence[ToolSpec]) -> Request:
        texts = [item["text"] for item in items if "text" in item]
        last = max(number for number, item in enumerate(items) if "text" in item)
        results = [item["result"] for item in items[last:] if "result" in item]
        title = {"title": "Arguments"} if self.fault == "adds titles" else {}
        return Request(texts, results, {tool.name: {**title, **tool.parameters} for tool in tools})


@pytest.mark.asyncio
async def test_an_adapter_that_only_translates_passes(travel) -> None:
    await check_adapter(Plain(), travel)


FAULTS = {
    "adds titles": "the_model_is_shown_the_catalogue",
    "encodes twice": "a_good_call_is_answered_with_the_view",
    "decodes by itself": "bad_arguments_of_every_kind_are_answered_with_a_value",
    "calls with keywords": "bad_arguments_of_every_kind_are_answered_with_a_value",
    "shows halves of characters": "lone_surrogates_harm_nothing",
    "keeps calls as they are": "arguments_that_no_library_could_carry_are_answered_with_a_value",
    "takes the last of two": "a_tool_name_taken_twice_is_refused_before_the_model_is_asked",
    "one history for all": "the_next_turn_sees_what_was_said",
    "keeps all messages": "the_next_turn_sees_what_was_said",
    "drops ids": "a_turn_cut_off_anywhere_is_offered_again",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.asyncio
async def test_a_fault_is_found_and_the_check_named(fault: str, travel) -> None:
    [check] = [check for check in ADAPTER_CHECKS if check.__name__ == FAULTS[fault]]
    with pytest.raises(AssertionError, match=f"plain, {FAULTS[fault]}: "):
        await run_check(check, Plain(fault), travel)

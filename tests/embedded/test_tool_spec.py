"""A bound tool takes whatever a model sent and always answers with a value."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from schedule_sm.adapters.tool_spec import ToolSpec, decode_arguments
from schedule_sm.host import ToolResult


class _Echo:
    name, description, parameters, output_schema = "echo", "says it again", {"type": "object"}, {}

    async def execute(self, raw: object, caller: object, **ids: Any) -> ToolResult:
        if raw == {"raise": True}:
            raise RuntimeError("secret")
        return ToolResult((raw, caller, ids), "")


@pytest.mark.parametrize(
    ("raw", "decoded"),
    [
        ('{"a": 1}', {"a": 1}),
        (b'{"a": 30.0}', {"a": 30.0}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        ("  \n", {}),
        ("{", "{"),
        ('{"a": NaN}', '{"a": NaN}'),
        ("[" * 100_000, "[" * 100_000),
        ("1" * 5_000, "1" * 5_000),
        (b"\xff\xfe", b"\xff\xfe"),
        (None, None),
        (7, 7),
        ("[1]", [1]),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_arguments_are_decoded_or_left_as_they_are(raw: object, decoded: object) -> None:
    assert decode_arguments(raw) == decoded


@pytest.mark.asyncio
async def test_calls_go_to_the_tool_on_behalf_of_its_agent() -> None:
    agent = SimpleNamespace()
    spec = ToolSpec(_Echo(), agent, "turn-1")
    assert (spec.name, spec.description, spec.parameters, spec.output_schema) == (
        "echo",
        "says it again",
        {"type": "object"},
        {},
    )
    result = await spec.invoke('{"a": 1}', "call-1")
    assert result.value == ({"a": 1}, agent, {"call_id": "call-1", "turn_id": "turn-1"})
    assert (await spec.invoke({}, turn_id="turn-2")).value[2]["turn_id"] == "turn-2"


@pytest.mark.asyncio
async def test_a_tool_that_raises_is_a_value_that_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    result = await ToolSpec(_Echo(), None).invoke({"raise": True})
    assert result.value["code"] == "internal_error"
    assert "secret" not in result.content
    assert "secret" in caplog.text

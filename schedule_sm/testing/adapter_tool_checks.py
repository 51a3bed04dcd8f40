"""The part of the adapter contract about tools: what the model is shown, and that every call is answered.

``schedule_sm.testing.adapter_contract`` runs it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.embedded.errors import TurnFailedError
from schedule_sm.testing.adapter_suite import (
    FRAMING,
    Call,
    Reply,
    Request,
    Scripted,
    Suite,
    create,
    ended,
    operations,
)
from schedule_sm.tool_catalog import TOOL_NAMES, tool_catalog
from schedule_sm.tool_spec import ToolSpec

_NAMES_OF_FRAMEWORKS: Final = (
    *("self", "args", "kwargs", "config", "ctx", "context", "run_manager", "runtime", "state", "store"),
    *("callbacks", "tool_call_id", "call_id", "turn_id", "caller", "raw", "name", "input", "at"),
)
"""Argument names that a framework might take for its own."""
BAD_ARGUMENTS: Final[tuple[tuple[str, object, str], ...]] = (
    ("schedule_create", '{"prompt": "x", "after_seconds": ', "invalid_selector"),
    ("schedule_create", "stretch in a minute", "invalid_selector"),
    ("schedule_create", "[1]", "invalid_selector"),
    ("schedule_create", "null", "invalid_selector"),
    ("schedule_create", '"{\\"prompt\\": \\"x\\", \\"after_seconds\\": 60}"', "invalid_selector"),
    ("schedule_create", "5", "invalid_selector"),
    ("schedule_create", "", "invalid_selector"),
    ("schedule_create", {}, "invalid_selector"),
    ("schedule_create", '{"prompt": "x", "after_seconds": NaN}', "invalid_selector"),
    ("schedule_create", '{"prompt": "x", "after_seconds": 1e400}', "invalid_rule"),
    ("schedule_create", {"prompt": "x", "after_seconds": "60"}, "invalid_rule"),
    ("schedule_create", {"prompt": "x", "after_seconds": True}, "invalid_rule"),
    ("schedule_create", {"prompt": "x", "after_seconds": 1.5}, "invalid_rule"),
    ("schedule_create", {"prompt": "x", "after_seconds": 0}, "invalid_rule"),
    ("schedule_create", {"prompt": "x", "after_seconds": None}, "invalid_rule"),
    ("schedule_create", {"prompt": ["x"], "after_seconds": 60}, "invalid_prompt"),
    ("schedule_create", {"after_seconds": 60}, "invalid_prompt"),
    ("schedule_create", {"prompt": "x", "after_seconds": 9_007_199_254_740_991}, "time_out_of_range"),
    ("schedule_delete", "{}", "invalid_rule"),
    ("schedule_delete", {"id": " schedule-1"}, "invalid_rule"),
    ("schedule_delete", {"id": 1}, "invalid_rule"),
    ("schedule_list", "[]", "invalid_selector"),
    *(
        ("schedule_create", {"prompt": "x", "after_seconds": 60, name: "x"}, "invalid_selector")
        for name in _NAMES_OF_FRAMEWORKS
    ),
)
"""Tool, arguments as a model sends them, and the code of the error value that must come back."""


def _nested(levels: int) -> Any:
    """Return arrays in objects in arrays, so many levels deep."""
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


_DEEP: Final = 300
"""Levels that Python reads and writes, and pydantic serializes no longer."""
_BOTTOMLESS: Final = 100_000
"""Levels that nothing reads."""
_UNPORTABLE: Final[tuple[tuple[str, dict[str, Any], str], ...]] = (
    ("schedule_create", {"prompt": "x", "after_seconds": _nested(_DEEP)}, "invalid_rule"),
    ("schedule_create", {"prompt": _nested(_DEEP), "after_seconds": 60}, "invalid_prompt"),
    ("schedule_create", {"prompt": "x", "after_seconds": 60, "z": _nested(_DEEP)}, "invalid_selector"),
    ("schedule_create", {"prompt": "x", "after_seconds": 2**64}, "invalid_rule"),
    ("schedule_create", {"prompt": "x", "after_seconds": -(2**63) - 1}, "invalid_rule"),
    ("schedule_create", {"prompt": "x", "after_seconds": [10**400]}, "invalid_rule"),
    ("schedule_create", {"prompt": "x", "after_seconds": 60, "\ud83d": 1}, "invalid_selector"),
    ("schedule_create", {"prompt": "x", "after_seconds": {"\ud83d": "\udc00"}}, "invalid_rule"),
    ("schedule_delete", {"id": _nested(_DEEP)}, "invalid_rule"),
    ("schedule_delete", {"id": 2**64}, "invalid_rule"),
)
BEYOND_LIBRARIES: Final[tuple[tuple[str, object, str], ...]] = (
    *_UNPORTABLE,
    *((name, json.dumps(arguments), code) for name, arguments, code in _UNPORTABLE),
    ("schedule_create", f'{{"prompt": "x", "after_seconds": 1{"0" * 5_000}}}', "invalid_selector"),
    ("schedule_create", '{"a":' * _BOTTOMLESS + "1" + "}" * _BOTTOMLESS, "invalid_selector"),
    ("schedule_create", '{"prompt": ' + "[" * _BOTTOMLESS, "invalid_selector"),
)
"""The same, where the frameworks' own serializers, providers' libraries or checkpointers would fail."""


async def the_model_is_shown_the_catalogue(suite: Suite) -> None:
    """The three tools with their exact argument schemas, no titles added."""
    model = Scripted()
    async with suite.session(model) as live:
        await live.send("hello")
    shown = model.requests[0].tools
    for name in TOOL_NAMES:
        assert json.dumps(shown[name]) == json.dumps(tool_catalog()[name]["parameters"]), name


async def a_good_call_is_answered_with_the_view(suite: Suite) -> None:
    """Each of the three works; the model reads the tool's content byte for byte."""
    model = Scripted([create("c1")], [Call("schedule_list", "", "c2")])
    async with suite.session(model) as live:
        assert await live.send("remind me") == "re: remind me"
        assert operations(live) == ["create"]
    [view] = json.loads(model.requests[2].results[-1])
    assert (view["id"], view["prompt"], view["afterSeconds"]) == ("schedule-1", "stretch", 60)
    assert list(model.requests[1].results) == [json.dumps(view, separators=(",", ":"))]
    model = Scripted([create("c1")], [Call("schedule_delete", {"id": "schedule-1"}, "c2")])
    async with suite.session(model) as live:
        assert await live.send("remind me") == "re: remind me"
        assert operations(live) == ["create", "delete"]
    assert model.requests[2].results[-1] == '{"id":"schedule-1","deleted":true}'


async def bad_arguments_of_every_kind_are_answered_with_a_value(suite: Suite) -> None:
    """The turn goes on, the next turn works, and nothing is recorded."""
    await _refused_by_value(suite, BAD_ARGUMENTS)


async def arguments_that_no_library_could_carry_are_answered_with_a_value(suite: Suite) -> None:
    """Nested without end, beyond 64 bits, half characters in keys: the turn goes on, and so does the next life."""
    await _refused_by_value(suite, BEYOND_LIBRARIES)


async def _refused_by_value(suite: Suite, cases: Sequence[tuple[str, object, str]]) -> None:
    """Have each of ``cases`` refused in a turn of its own; the history can be kept and sent once more."""

    async def script(request: Request) -> Reply:
        if request.results or request.texts[-1] == "later":
            return request.results[-1] if request.results else "done"
        name, arguments, _ = cases[int(request.texts[-1])]
        return [Call(name, arguments, f"c{request.texts[-1]}")]

    async with suite.host(script) as host:
        live = await host.session("s")
        for number, (name, arguments, code) in enumerate(cases):
            shown = (name, repr(arguments)[:80])
            value = json.loads(await live.send(str(number)))
            assert value["code"] == code, (shown, value)
            assert value["message"], (shown, value)
        assert operations(live) == []
        assert json.dumps(ended(live), allow_nan=False, ensure_ascii=False).encode()
        await live.close()
        assert await (await host.session("s")).send("later") == "done"


async def refusals_use_up_nothing(suite: Suite) -> None:
    """A model may err several times in one turn and still succeed."""
    bad = [[Call("schedule_create", "{", f"c{number}")] for number in range(5)]
    model = Scripted(*bad, [create("good")])
    async with suite.session(model) as live:
        assert await live.send("remind me") == "re: remind me"
        assert operations(live) == ["create"]


async def lone_surrogates_harm_nothing(suite: Suite) -> None:
    """A truncated stream's half characters in texts, prompt and arguments; what is read or shown is valid UTF-8."""
    model = Scripted(
        [Call("schedule_create", '{"prompt": "a\\ud800", "after_seconds": 60}', "c1")], "half \udfff"
    )
    async with suite.session(model) as live:
        assert await live.send("half \ud83d") == "half \\udfff"
        assert operations(live) == ["create"]
        await suite.travel(60)
        assert operations(live) == ["create", "dispatch"]
        await live.send("next")
        assert [turn["error"] for turn in ended(live)] == [None, None, None]
        assert json.dumps(ended(live), ensure_ascii=False).encode()
    assert model.requests[1].results[0].encode()
    assert model.requests[2].texts[-1].startswith(FRAMING)


async def a_call_of_an_unknown_tool_harms_no_later_turn(suite: Suite) -> None:
    """Frameworks differ in what becomes of that turn; the next one works."""
    model = Scripted([Call("schedule_update", "{}", "c1")])
    async with suite.session(model) as live:
        with suppress(TurnFailedError):
            await live.send("first")
        assert await live.send("second") == "re: second"


async def calls_of_one_response_are_each_answered(suite: Suite) -> None:
    """In parallel or not: every call has its own result, in the order of the calls."""
    calls = [create(f"c{number}", f"prompt {number}", 60 + number) for number in range(6)]
    model = Scripted([*calls, Call("schedule_create", "{", "bad"), Call("schedule_list", "{}", "list")])
    async with suite.session(model) as live:
        await live.send("remind me")
        assert operations(live) == ["create"] * 6
    *created, refused, listed = [json.loads(result) for result in model.requests[1].results]
    assert [view["prompt"] for view in created] == [f"prompt {number}" for number in range(6)]
    assert {view["id"] for view in created} == {f"schedule-{number}" for number in range(1, 7)}
    assert refused["code"] == "invalid_selector"
    assert {view["id"] for view in listed} <= {view["id"] for view in created}


async def calls_without_an_id_of_their_own_are_each_answered(suite: Suite) -> None:
    """Some models give none, or one for all; only a call that repeats another, id and all, is that call."""
    for call_id in ("", "c1"):
        others = [create(call_id), create(call_id, "stand up"), Call("schedule_list", "{}", call_id)]
        model = Scripted([*others, Call("schedule_create", "{", call_id)], [create(call_id), create(call_id)])
        async with suite.session(model) as live:
            assert await live.send("remind me") == "re: remind me"
            changes = [event["data"] for event in live.events if event["type"] == SCHEDULE_CHANGE]
            prompts = sorted(change["schedule"]["prompt"] for change in changes)
            assert prompts == ["stand up", "stretch", *["stretch"] * (0 if call_id else 2)]
            assert await live.send("next") == "re: next"
        assert len(model.requests[1].results) == 4
        assert '"invalid_selector"' in model.requests[1].results[3]


async def a_call_from_another_event_loop_is_refused(suite: Suite) -> None:
    """The value is ``internal_error``; nothing is recorded."""
    model = Scripted([create("c1")])
    runner = suite.adapter.runner(model)
    async with suite.session(Scripted()) as live:
        tools = [ToolSpec(tool, live.agent, "t") for tool in live.agent.ctx.tools]

        def elsewhere() -> None:
            history = [runner.user_message("remind me", "m")]
            asyncio.run(runner.run_turn("s", history, tools))

        await asyncio.to_thread(elsewhere)
        assert operations(live) == []
    assert json.loads(model.requests[1].results[0])["code"] == "internal_error"


async def a_tool_name_taken_twice_is_refused_before_the_model_is_asked(suite: Suite) -> None:
    """The turn fails and says why; the host lives on."""
    model = Scripted()
    async with suite.host(model, own_tools=("schedule_create",)) as host:
        live = await host.session("s")
        for text in ("first", "second"):
            with suppress(TurnFailedError):
                await live.send(text)
                raise AssertionError("the turn did not fail")
        assert len(ended(live)) == 2
    assert model.requests == []

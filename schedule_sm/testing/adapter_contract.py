"""``check_adapter``: the suite that every framework adapter has to pass, ours and other people's.

Each check drives a real ``ScheduleHost`` with a runner over the framework's own offline model and says in its name what
must hold. In a project of your own::

    @pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=lambda check: check.__name__)
    @pytest.mark.asyncio
    async def test_my_adapter(check, travel):
        await run_check(check, MyAdapter(), travel)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from schedule_sm.embedded.errors import HostClosedError, TurnFailedError
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.adapter_suite import (
    FRAMING,
    Adapter,
    Call,
    Reply,
    Request,
    Script,
    Scripted,
    Suite,
    after_a_crash,
    create,
    ended,
    operations,
)
from schedule_sm.testing.travel import Travel
from schedule_sm.tool_catalog import TOOL_NAMES, tool_catalog
from schedule_sm.tool_spec import ToolSpec

__all__ = [
    "ADAPTER_CHECKS",
    "Adapter",
    "Call",
    "Reply",
    "Request",
    "Script",
    "Scripted",
    "Suite",
    "check_adapter",
    "run_check",
]

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
CUTS: Final = 24
"""At how many places of a turn it is cut off, spread evenly over the loop's steps."""


# -- tools ----------------------------------------------------------------------------------------------------


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

    async def script(request: Request) -> Reply:
        if request.results:
            return request.results[-1]
        name, arguments, _ = BAD_ARGUMENTS[int(request.texts[-1])]
        return [Call(name, arguments, f"c{request.texts[-1]}")]

    async with suite.session(script) as live:
        for number, (name, arguments, code) in enumerate(BAD_ARGUMENTS):
            value = json.loads(await live.send(str(number)))
            assert value["code"] == code, (name, arguments, value)
            assert value["message"], (name, arguments, value)
        assert operations(live) == []


async def refusals_use_up_nothing(suite: Suite) -> None:
    """A model may err several times in one turn and still succeed."""
    bad = [[Call("schedule_create", "{", f"c{number}")] for number in range(5)]
    model = Scripted(*bad, [create("good")])
    async with suite.session(model) as live:
        assert await live.send("remind me") == "re: remind me"
        assert operations(live) == ["create"]


async def lone_surrogates_harm_nothing(suite: Suite) -> None:
    """A truncated stream's half characters in text, prompt and arguments; what the model reads is valid UTF-8."""
    model = Scripted([Call("schedule_create", '{"prompt": "a\\ud800", "after_seconds": 60}', "c1")])
    async with suite.session(model) as live:
        await live.send("half \ud83d")
        assert operations(live) == ["create"]
        await suite.travel(60)
        assert operations(live) == ["create", "dispatch"]
        await live.send("next")
        assert [turn["error"] for turn in ended(live)] == [None, None, None]
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


# -- turns ----------------------------------------------------------------------------------------------------


async def two_sessions_of_one_agent_are_kept_apart(suite: Suite) -> None:
    """At once, with the same call ids: each has its own tools and its own history."""
    met = asyncio.Barrier(2)
    seen: list[Request] = []

    async def script(request: Request) -> Reply:
        seen.append(request)
        if request.results:
            return "done"
        await met.wait()
        return [create("c1", request.texts[-1]), Call("schedule_list", "{}", "c2")]

    async with suite.host(script) as host:
        sessions = [await host.session(name) for name in ("one", "two")]
        await asyncio.gather(*(live.send(f"for {live.id}") for live in sessions))
        for live in sessions:
            [record] = [event["data"] for event in live.events if event["type"] == "schedule/change"]
            assert record["schedule"]["prompt"] == f"for {live.id}"
    for request in seen:
        assert len(request.texts) == 1
        assert all(request.texts[0] in result or result == "[]" for result in request.results)


async def a_due_reminder_gets_a_turn_of_its_own(suite: Suite) -> None:
    """Reserve, followup, turn: one user message in the session's own history."""
    model = Scripted([create("c1")])
    async with suite.session(model) as live:
        await live.send("remind me")
        await suite.travel(59)
        assert len(model.requests) == 2
        await suite.travel(1)
        assert operations(live) == ["create", "dispatch"]
        assert ended(live)[-1]["message"] == "s/schedule-1"
        assert ended(live)[-1]["error"] is None
    assert model.requests[-1].texts[0] == "remind me"
    assert model.requests[-1].texts[-1].startswith(FRAMING)
    assert len(model.requests) == 3


async def a_reminder_due_in_mid_turn_waits_for_its_end(suite: Suite) -> None:
    """It never goes into a running turn, whose model may take its time."""
    finish = asyncio.Event()
    seen: list[Request] = []

    async def script(request: Request) -> Reply:
        seen.append(request)
        if request.texts[-1] == "long":
            await finish.wait()
        elif not request.results and request.texts[-1] == "remind me":
            return [create("c1")]
        return "done"

    async with suite.session(script) as live:
        await live.send("remind me")
        turn = asyncio.ensure_future(live.send("long"))
        await suite.travel(300)
        assert (len(seen), operations(live)) == (3, ["create"])
        finish.set()
        await turn
        await suite.travel.settle()
        assert operations(live) == ["create", "dispatch"]
    assert seen[2].texts[-1] == "long"
    assert seen[3].texts[-1].startswith(FRAMING)


async def a_model_that_fails_fails_its_own_turn_only(suite: Suite) -> None:
    """The next turn works; a second message behind an unanswered one is no trouble."""

    async def script(request: Request) -> Reply:
        if request.texts[-1] == "first":
            raise RuntimeError("the provider is down")
        return f"re: {' '.join(request.texts)}"

    async with suite.session(script) as live:
        with suppress(TurnFailedError):
            await live.send("first")
            raise AssertionError("the turn did not fail")
        assert await live.send("second") == "re: first second"


# -- history --------------------------------------------------------------------------------------------------


async def the_next_turn_sees_what_was_said(suite: Suite) -> None:
    """In this life and in the next, from a file; the items are JSON."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        model = Scripted([create("c1"), Call("schedule_create", "{", "c2")])
        await _say(suite, model, path, "first", "second")
        assert [list(request.texts) for request in model.requests][1:] == [["first"], ["first", "second"]]
        assert [len(request.results) for request in model.requests] == [0, 2, 0]
        model = Scripted()
        await _say(suite, model, path, "third")
        assert list(model.requests[0].texts) == ["first", "second", "third"]
        assert list(model.requests[0].results) == []


async def _say(suite: Suite, model: Script, path: Path, *texts: str) -> None:
    store = await SqliteStore.open(path)
    try:
        async with suite.session(model, store) as live:
            for text in texts:
                assert await live.send(text) == f"re: {text}"
            for turn in ended(live):
                assert turn["error"] is None
                assert json.dumps(turn["items"], allow_nan=False)
    finally:
        await store.close()


# -- interruptions --------------------------------------------------------------------------------------------


async def a_turn_cut_off_anywhere_is_offered_again(suite: Suite) -> None:
    """Closed after any number of the loop's steps and opened again: one turn's end, one reminder, no half history.

    The model repeats its call under the same id, as a graph does that is resumed.
    """
    steps = await _cut_off_after(suite, None)
    for cut in range(CUTS):
        await _cut_off_after(suite, 1 + steps * cut // CUTS)


async def _cut_off_after(suite: Suite, steps: int | None) -> int:
    """Close the session in mid-turn after so many steps of the loop; returns how many the turn took in all."""

    async def script(request: Request) -> Reply:
        await asyncio.sleep(0)
        has_view = any(
            '"scheduledAt"' in result for result in request.results
        )  # else: cut off, result unknown
        return "done" if has_view else [create("c1")]

    async with suite.host(script) as host:
        live = await host.session("s")
        turn = asyncio.ensure_future(live.send("remind me"))
        taken = 0
        while not turn.done() and taken != steps:
            await asyncio.sleep(0)
            taken += 1
        await live.close()
        with suppress(HostClosedError):
            await turn
        again = await host.session("s")
        await again.agent.when_idle()
        assert [end["error"] for end in ended(again)] == [None], f"after {steps} steps"
        assert operations(again) == ["create"], f"after {steps} steps"
    return taken


async def a_reminder_whose_turn_crashed_is_offered_again(suite: Suite) -> None:
    """Attempt 2, the same text, with what had become durable; from a file, by a runner that knows nothing of it."""
    started = asyncio.Event()
    seen: list[Request] = []

    async def dies(request: Request) -> Reply:
        seen.append(request)
        if not request.texts[-1].startswith(FRAMING):
            return "done" if request.results else [create("c1")]
        if not request.results:
            return [create("c2", "stand up", 600)]
        started.set()
        return await asyncio.Future()

    with TemporaryDirectory() as folder:
        left = await SqliteStore.open(Path(folder) / "left.db")
        async with suite.session(dies) as live:
            await live.send("remind me")
            await suite.travel(60)
            assert started.is_set()
            await after_a_crash(live, left)
        model = Scripted("presented")
        async with suite.session(model, left) as again:
            await again.agent.when_idle()
            assert [end["attempt"] for end in ended(again)] == [1, 2]
            assert operations(again) == ["create", "dispatch", "create"]
            assert await again.send("thanks") == "re: thanks"
        await left.close()
    assert list(model.requests[0].texts) == list(seen[-1].texts)


async def a_call_repeated_in_a_turn_offered_again_makes_no_second_reminder(suite: Suite) -> None:
    """Within one process: same turn, same call id, same arguments, the first one's view."""
    started = asyncio.Event()
    results: list[str] = []

    async def script(request: Request) -> Reply:
        if not request.results:
            return [create("c1")]
        results.append(request.results[-1])
        if len(results) == 1:
            started.set()
            return await asyncio.Future()
        return "done"

    async with suite.host(script) as host:
        live = await host.session("s")
        turn = asyncio.ensure_future(live.send("remind me"))
        await started.wait()
        await live.close()
        with suppress(HostClosedError):
            await turn
        again = await host.session("s")
        await again.agent.when_idle()
        assert operations(again) == ["create"]
        assert [end["attempt"] for end in ended(again)] == [2]
    assert results[0] == results[1]


ADAPTER_CHECKS: Final = (
    the_model_is_shown_the_catalogue,
    a_good_call_is_answered_with_the_view,
    bad_arguments_of_every_kind_are_answered_with_a_value,
    refusals_use_up_nothing,
    lone_surrogates_harm_nothing,
    a_call_of_an_unknown_tool_harms_no_later_turn,
    calls_of_one_response_are_each_answered,
    a_call_from_another_event_loop_is_refused,
    a_tool_name_taken_twice_is_refused_before_the_model_is_asked,
    two_sessions_of_one_agent_are_kept_apart,
    a_due_reminder_gets_a_turn_of_its_own,
    a_reminder_due_in_mid_turn_waits_for_its_end,
    a_model_that_fails_fails_its_own_turn_only,
    the_next_turn_sees_what_was_said,
    a_turn_cut_off_anywhere_is_offered_again,
    a_reminder_whose_turn_crashed_is_offered_again,
    a_call_repeated_in_a_turn_offered_again_makes_no_second_reminder,
)
"""Every check, for a parametrised test: ``await run_check(check, adapter, travel)``."""

_Check: TypeAlias = Callable[[Suite], Awaitable[None]]


async def run_check(check: _Check, adapter: Adapter, travel: Travel) -> None:
    """Run one of ``ADAPTER_CHECKS``; ``travel`` moves the clocks (the fixture, or ``run_virtual``).

    Raises:
        AssertionError: where the adapter departs from the contract; it names the check.
    """
    try:
        await check(Suite(adapter, travel))
    except Exception as error:
        msg = f"{adapter.name}, {check.__name__}: {type(error).__name__}: {error}"
        raise AssertionError(msg) from error


async def check_adapter(adapter: Adapter, travel: Travel) -> None:
    """Run the whole suite; it stops at the first check that fails and names it.

    Raises:
        AssertionError: where the adapter departs from the contract.
    """
    for check in ADAPTER_CHECKS:
        await run_check(check, adapter, travel)

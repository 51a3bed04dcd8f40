"""The part of the adapter contract about turns: sessions, reminders, the history, and a turn that is cut off.

``schedule_sm.testing.adapter_contract`` runs it.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from schedule_sm.embedded.errors import HostClosedError, TurnFailedError
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.adapter_suite import (
    FRAMING,
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

CUTS: Final = 24
"""At how many places of a turn it is cut off, spread evenly over the loop's steps."""


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

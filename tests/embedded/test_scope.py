"""Scopes: what was registered goes away in reverse order, whatever raises."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from schedule_sm.embedded.errors import ToolNameTakenError
from schedule_sm.embedded.scope import Events, Scope, Tools


def scope() -> Scope:
    return Scope("test", tools=Tools(), events=Events())


@pytest.mark.asyncio
async def test_closing_undoes_in_reverse_order_and_nothing_stops_it(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    ctx = scope()

    async def slow() -> None:
        await asyncio.sleep(0)
        done.append("async")

    def broken() -> None:
        done.append("broken")
        raise RuntimeError("no")

    async def broken_later() -> None:
        await asyncio.sleep(0)
        raise RuntimeError("no")

    ctx.defer(lambda: done.append("first"))
    ctx.defer(slow)
    ctx.defer(broken)
    ctx.defer(broken_later)
    taken_back = ctx.defer(lambda: done.append("never"))
    ctx.defer(lambda: ctx.defer(lambda: done.append("late")) and None)
    taken_back()
    await ctx.close()
    await ctx.close()
    assert done == ["late", "broken", "async", "first"]
    assert caplog.text.count("something deferred on scope 'test' raised") == 2


@pytest.mark.asyncio
async def test_handlers_end_with_their_scope_and_harm_no_other(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[object] = []
    events = Events()
    ctx, other = (Scope(name, tools=Tools(), events=events) for name in "ab")

    def broken(*news: object) -> None:
        raise RuntimeError("no")

    ctx.on("x", broken)
    ctx.on("x", lambda *news: heard.append(news))
    undo = other.on("x", lambda *news: heard.append("other"))
    ctx.emit("x", 1, 2)
    ctx.emit("y")
    assert heard == [(1, 2), "other"]
    undo()
    await ctx.close()
    other.emit("x")
    assert heard == [(1, 2), "other"]
    assert "a handler of x raised" in caplog.text


def test_tool_names_are_unique_among_all_that_can_be_seen() -> None:
    outer = Tools()
    inner, sibling = Tools(outer), Tools(outer)
    a, b = SimpleNamespace(name="a"), SimpleNamespace(name="b")
    outer.register(a)
    dispose = inner.register(b)
    for taken in (a, b):
        with pytest.raises(ToolNameTakenError, match="another name"):
            inner.register(taken)
    sibling.register(b)
    assert list(inner) == [a, b]
    dispose()
    dispose()
    assert list(inner) == [a]
    inner.register(b)

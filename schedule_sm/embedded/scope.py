"""Scopes: what a plugin or an agent registers lives as long as its scope and goes away in reverse order.

A scope sees the tools of the scopes around it; names are unique among all that can be seen together.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias

from schedule_sm.embedded.errors import ToolNameTakenError
from schedule_sm.host import Dispose, Tool

Closer: TypeAlias = Callable[[], Awaitable[None] | None]

_logger = logging.getLogger(__name__)


class Tools:
    """The tools of one scope."""

    def __init__(self, outer: Tools | None = None) -> None:
        """Start empty, inside ``outer``."""
        self._outer = outer
        self._tools: dict[str, Tool] = {}

    def register(self, tool: Tool, /) -> Dispose:
        """Offer ``tool`` in this scope until the disposer is called.

        Raises:
            ToolNameTakenError: if a tool of that name can already be seen here.
        """
        if any(tool.name == other.name for other in self):
            raise ToolNameTakenError(tool.name)
        self._tools[tool.name] = tool

        def dispose() -> None:
            if self._tools.get(tool.name) is tool:
                del self._tools[tool.name]

        return dispose

    def __iter__(self) -> Iterator[Tool]:
        """Iterate over what can be seen here, outermost first."""
        if self._outer is not None:
            yield from self._outer
        yield from tuple(self._tools.values())


class Events:
    """Handlers by event name; emitting is synchronous."""

    def __init__(self) -> None:
        """Start without handlers."""
        self._handlers: dict[str, dict[object, Callable[..., object]]] = {}

    def on(self, event: str, handler: Callable[..., object]) -> Dispose:
        """Call ``handler`` at each ``event`` until the disposer is called."""
        key = object()
        handlers = self._handlers.setdefault(event, {})
        handlers[key] = handler

        def dispose() -> None:
            handlers.pop(key, None)

        return dispose

    def emit(self, event: str, *news: object) -> None:
        """Call every handler of ``event``; what one raises is logged and stops nobody."""
        for handler in tuple(self._handlers.get(event, {}).values()):
            try:
                handler(*news)
            except Exception:  # a subscriber's failure is its own
                _logger.exception("a handler of %s raised", event)


def once(end: Callable[[], None]) -> Dispose:
    """Return ``end`` such that only its first call does anything."""
    is_ended = False

    def end_once() -> None:
        nonlocal is_ended
        if not is_ended:
            is_ended = True
            end()

    return end_once


class Scope:
    """Tools, events, and what is to be undone at the end."""

    def __init__(self, name: str, *, tools: Tools, events: Events) -> None:
        """Begin the scope called ``name``."""
        self.name = name
        self.tools = tools
        self._events = events
        self._closers: dict[object, Closer] = {}

    def on(self, event: str, handler: Callable[..., object], /) -> Dispose:
        """Call ``handler`` at each ``event`` until the disposer is called or the scope ends."""
        undo = self._events.on(event, handler)
        key = object()

        def dispose() -> None:
            undo()
            self._closers.pop(key, None)

        self._closers[key] = undo
        return dispose

    def emit(self, event: str, *news: object) -> None:
        """Tell the handlers of ``event``."""
        self._events.emit(event, *news)

    def defer(self, close: Closer, /) -> Dispose:
        """Run ``close`` (sync or async) when the scope ends, in reverse order; the disposer takes it back."""
        key = object()
        self._closers[key] = close

        def dispose() -> None:
            self._closers.pop(key, None)

        return dispose

    async def close(self) -> None:
        """End the scope: undo everything, the latest first; one that raises does not stop the rest."""
        while self._closers:
            _, close = self._closers.popitem()
            try:
                result = close()
                if inspect.isawaitable(result):
                    await result
            except Exception:  # the others have to be undone all the same
                _logger.exception("something deferred on scope %r raised", self.name)

"""The stdio transport of ``schedule-sm mcp``: stdout carries the protocol alone, and no end waits for a pipe.

The framework's own reads and writes in threads that are waited for at the end, and leaves a line that it cannot read
without an answer; so it is given streams of ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from concurrent.futures import Future
from typing import Any, Final

from schedule_sm.adapters.mcp import Subscribers
from schedule_sm.adapters.portable import LEVELS
from schedule_sm.cli.stdin_lines import StdinLines
from schedule_sm.stores.writer_thread import WriterThread

from mcp import types  # isort: skip - the adapter refuses a missing or unsupported framework by name
from mcp.server.lowlevel import Server  # isort: skip - as above
from mcp.server.stdio import stdio_server  # isort: skip - as above
from pydantic import ValidationError

_STDOUT: Final = 1
_STDERR: Final = 2
DRAIN_S: Final = 2.0
"""How long the end of the input waits for answers to what was asked before it."""
_ANSWER: Final = '{"jsonrpc":"2.0","id":'
"""How the framework's answers begin, and no notification."""
_STREAM: Final = "subscriptions/listen"
"""The one request whose answer is the end of its stream."""
_DIGITS: Final = 400
"""A number with more digits is beyond any float."""
_OPENING: Final = frozenset("[{")
_CLOSING: Final = frozenset("]}")
_BRACKETS: Final = _OPENING | _CLOSING
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}]|[^][{}"]+')
"""A JSON string, one that is cut off too, a bracket, or what lies between."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


async def serve_stdio(server: Server[Subscribers], wire: Wire) -> None:
    """Serve the one client at the other end of stdin and ``wire`` until it closes either.

    Raises:
        BrokenPipeError: if it reads no more.
    """
    lines = StdinLines()
    try:
        # declared as files of anyio, of which only these methods are used
        streams: Any = (Requests(lines, wire), wire)
        async with stdio_server(*streams) as (read, write):
            await server.run(read, write, server.create_initialization_options())
    except ExceptionGroup as group:
        if group.split(BrokenPipeError)[1] is not None:
            raise
        raise BrokenPipeError from group
    finally:
        lines.close()


class Wire:
    """What stdout was before: until the end of the ``with``, whatever else is printed goes to stderr."""

    def __enter__(self) -> Wire:
        """Take stdout over."""
        self._fd = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
        self._thread = WriterThread("schedule-sm stdout")
        self._writing: Future[None] | None = None
        self._unanswered: set[str | int] = set()
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        return self

    def __exit__(self, *_: object) -> None:
        """Give stdout back; a thread that waits for the client is left behind with it."""
        os.dup2(self._fd, _STDOUT)
        if self._writing is None or self._writing.done():
            self._thread.shutdown(wait=False)
            os.close(self._fd)

    async def write(self, text: str) -> None:
        """Write all of ``text``, one message; a client that does not read keeps nobody from leaving."""
        self._writing = self._thread.submit(self._write_all, text.encode())
        await asyncio.wrap_future(self._writing)
        if text.startswith(_ANSWER):
            self._unanswered.discard(json.loads(text)["id"])
            if not self._unanswered:
                self._all_answered.set()

    async def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def expect_answer(self, message_id: str | int) -> None:
        """Note that the client waits for an answer."""
        self._unanswered.add(message_id)
        self._all_answered.clear()

    async def answered(self) -> None:
        """Return when the client has every answer that it waits for, at the latest after DRAIN_S."""
        try:
            async with asyncio.timeout(DRAIN_S):
                await self._all_answered.wait()
        except TimeoutError:
            return

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]


class Requests:
    """Messages of the client as lines that the framework can read; the others are answered here."""

    def __init__(self, lines: StdinLines, wire: Wire) -> None:
        """Read ``lines``; answer on ``wire``."""
        self._lines = lines
        self._wire = wire

    def __aiter__(self) -> Requests:
        return self

    async def __anext__(self) -> str:
        while (line := await self._lines.read()) is not None:
            text, message = line, _parsed(line)
            if message is None:
                text = _mended(line)
                message = _parsed(text)
            if isinstance(message, types.JSONRPCRequest) and message.method != _STREAM:
                self._wire.expect_answer(message.id)
            if message is not None:
                return text
            if line.strip():
                await self._wire.write(_refusal(line))
        await self._wire.answered()  # at the end of the input the framework drops what is in flight
        raise StopAsyncIteration


def _parsed(text: str) -> types.JSONRPCMessage | None:
    try:
        return types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError:
        return None


def _decoded(line: str) -> Any:
    """Return the JSON of a line; an integer too long for Python is infinite, as any number too large is."""
    try:
        return json.loads(
            _shallow(line), parse_int=lambda digits: int(digits) if len(digits) < _DIGITS else float(digits)
        )
    except ValueError:
        return None


def _shallow(line: str) -> str:
    """Return JSON text with ``null`` for every object and array that nests deeper than any reader here goes."""
    depth, kept = 0, []
    for token in _TOKEN.findall(line):
        if token in _CLOSING:
            depth -= 1
        if depth < LEVELS or (depth == LEVELS and token not in _BRACKETS):
            kept.append(token)
        elif depth == LEVELS and token in _OPENING:
            kept.append("null")
        if token in _OPENING:
            depth += 1
    return "".join(kept)


def _mended(line: str) -> str:
    r"""Return a message that a model's text made unreadable for the framework.

    Lone surrogates become ``\udXXX``, and what nests deeper than 64 levels ``null``, which the tools refuse alike.
    """
    text = json.dumps(_decoded(line), ensure_ascii=False)
    return _SURROGATE.sub(lambda found: rf"\\u{ord(found[0]):04x}", text)


def _refusal(line: str) -> str:
    """Return the JSON-RPC error for what is no message, with its id if it has one."""
    decoded = _decoded(line)
    found = decoded.get("id") if isinstance(decoded, dict) else None
    message_id = found if type(found) in (str, int) else None
    error = {"code": types.PARSE_ERROR, "message": "this line is no JSON-RPC message that can be read"}
    return f"{json.dumps({'jsonrpc': '2.0', 'id': message_id, 'error': error})}\n"

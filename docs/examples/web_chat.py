"""A chat in the browser: Starlette, server-sent events, and each reminder as a receipt.

Run ``pip install 'schedule-sm[examples]'``, then ``python web_chat.py chat.db``, and open http://127.0.0.1:8000.
One session, no login: keep it on this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from socket import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from schedule_sm import ReminderReceipts, ScheduleHost
from schedule_sm.embedded import BuiltinRunner, LiveSession, Turn
from schedule_sm.embedded.errors import HostClosedError, TurnFailedError

PAGE = Path(__file__).with_name("web_chat.html")
SILENCE_S = 15.0
"""After so long without a turn a comment is sent, so that proxies keep the connection."""
MESSAGE_LIMIT = 4_000
"""Characters of one message; the page's input has the same limit."""


def create_app(path: str | os.PathLike[str]) -> Starlette:
    """Return the chat, its one session kept in the SQLite file at ``path``."""

    @asynccontextmanager
    async def open_session(app: Starlette) -> AsyncIterator[None]:
        async with ScheduleHost.open(path, runner=BuiltinRunner()) as host:
            app.state.session = await host.session("web")
            app.state.sending = set()
            yield

    routes = [
        Route("/", show_page),
        Route("/messages", queue_message, methods=["POST"]),
        Route("/turns", follow_turns),
    ]
    return Starlette(routes=routes, lifespan=open_session)


async def show_page(request: Request) -> Response:
    """The page; everything in it comes through ``/turns``."""
    return FileResponse(PAGE, headers={"Content-Security-Policy": "frame-ancestors 'none'"})


async def queue_message(request: Request) -> Response:
    """Queue what the user said; the answer comes as a turn, to every open page."""
    if request.headers.get("content-type") != "application/json":  # other sites' forms cannot send this
        return JSONResponse({"error": "send JSON"}, status_code=415)
    try:
        text = (await request.json())["text"]
    except (ValueError, TypeError, LookupError):
        text = None
    if not isinstance(text, str) or not text.strip() or len(text) > MESSAGE_LIMIT:
        return JSONResponse({"error": f"send 1 to {MESSAGE_LIMIT} characters of text"}, status_code=422)
    state = request.app.state
    sending = asyncio.create_task(send(state.session, text.strip()))
    state.sending.add(sending)  # the event loop itself keeps no strong reference
    sending.add_done_callback(state.sending.discard)
    return JSONResponse({}, status_code=202)


async def send(session: LiveSession, text: str) -> None:
    """Have the turn of ``text`` run. If it fails, the turn itself says so; if the host closes, it runs next time."""
    with suppress(TurnFailedError, HostClosedError):
        await session.send(text)


async def follow_turns(request: Request) -> Response:
    """Send every turn, then each new one as it ends. A browser that reconnects says which it saw last."""
    seen = request.headers.get("last-event-id", "")
    after_seq = int(seen) if seen.isascii() and seen.isdecimal() else -1
    stream = server_sent_events(request.app.state.session, after_seq)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def server_sent_events(session: LiveSession, after_seq: int) -> AsyncIterator[str]:
    """Turns as server-sent events (HTML standard, section 9.2): id, data, blank line."""
    turns = session.turns(after_seq=after_seq)
    receipts = ReminderReceipts(session.events, session.header.seed_length)
    while True:
        try:
            turn = await asyncio.wait_for(anext(turns), SILENCE_S)
        except TimeoutError:
            yield ": still here\n\n"
        except StopAsyncIteration:
            return
        else:
            yield f"id: {turn.seq}\ndata: {json.dumps(describe(turn, receipts))}\n\n"


def describe(turn: Turn, receipts: ReminderReceipts) -> dict[str, Any]:
    """What the page is told of one turn: a question and its answer, or a reminder's receipt."""
    if not turn.is_reminder:
        return {"asked": turn.message.text, "reply": turn.reply, "error": turn.error}
    receipt = receipts.at(turn.message.seq + 1)  # the embedded host writes message and dispatch in one step
    assert receipt is not None
    late_ms = turn.message.metadata["late_ms"]
    return {"receipt": receipt.model_dump(mode="json", by_alias=True), "lateMs": late_ms}


class ChatServer(uvicorn.Server):
    """A server that ends in order while pages are open: they follow the turns for as long as the session lives."""

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Close the session, which ends every stream, then the server."""
        await app.state.session.close()
        await super().shutdown(sockets)


if __name__ == "__main__":
    app = create_app(sys.argv[1] if len(sys.argv) > 1 else "chat.db")
    config = uvicorn.Config(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
    with suppress(KeyboardInterrupt):
        ChatServer(config).run()

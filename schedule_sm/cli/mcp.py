"""``schedule-sm mcp``: a session's tools, and what is due in it, for an MCP client that starts this as its server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.cli.held_store import held_store
from schedule_sm.cli.options import session_option
from schedule_sm.cli.signals import first_signal
from schedule_sm.embedded.without_turns import SessionWithoutTurns
from schedule_sm.stores.errors import SessionHeldError


def mcp(
    store: Annotated[
        Path,
        typer.Option(
            envvar="SCHEDULE_SM_STORE",
            metavar="FILE",
            help="The store: a JSONL folder, or an SQLite file, created if need be; held until the client leaves.",
        ),
    ],
    session: Annotated[str, session_option(help="The session, created with its first reminder.")] = "main",
) -> None:
    """Serve the three tools and the resource schedule://due over MCP, on stdin and stdout.

    Meant to be started by an MCP client; needs the extra mcp. MCP cannot start a turn: a due reminder is announced to
    clients that subscribe to schedule://due, and no dispatch is recorded for that. It stays overdue until it is
    deleted, or until a host with turns (such as chat) opens the session and delivers it.

    Warnings go to stderr. The end of input, Ctrl-C and SIGTERM end it in order.

    Example: schedule-sm mcp --store agent.db --session main
    """
    # an extra, and slow to import
    from schedule_sm.adapters.mcp import schedule_server
    from schedule_sm.cli.mcp_stdio import Wire, serve_stdio

    if sys.stdin is not None and sys.stdin.isatty():
        typer.echo("speaking MCP on stdin and stdout; this is for an MCP client to start", err=True)
    with Wire() as wire:
        code = asyncio.run(
            _serve(store, session, lambda live: serve_stdio(schedule_server(live.tools, live), wire))
        )
    if code:
        raise typer.Exit(code)


async def _serve(
    path: Path, session_id: str, serve: Callable[[SessionWithoutTurns], Coroutine[Any, Any, None]]
) -> int:
    """Serve until the client leaves, a signal comes or the session is lost; returns the exit code."""
    with first_signal() as signalled:
        async with (
            held_store(path) as store,
            SessionWithoutTurns.open(session_id=session_id, store=store) as session,
        ):
            serving = asyncio.create_task(serve(session), name="schedule-sm mcp")
            lost = asyncio.create_task(session.wait_lost(), name="schedule-sm mcp is lost")
            watched: set[asyncio.Future[Any]] = {serving, lost, signalled}
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            for task in (serving, lost):
                task.cancel()
            await asyncio.wait(watched - {signalled})
        failure = None if serving.cancelled() else serving.exception()
        if signalled.done():
            return signalled.result()  # whatever being cut off made of a pipe
        if failure is not None:
            raise failure
        if serving.cancelled():
            raise SessionHeldError(str(path), session_id)
        return ExitCode.OK

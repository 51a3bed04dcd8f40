"""``schedule-sm chat``: talk to the built-in agent; its reminders arrive between turns."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from schedule_sm.cli.chat_model import model_runner
from schedule_sm.cli.conversation import Conversation
from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.cli.held_store import held_store
from schedule_sm.cli.options import session_option
from schedule_sm.cli.rendering import visible
from schedule_sm.cli.screens import LineScreen, PromptScreen, choose_screen
from schedule_sm.cli.signals import first_signal
from schedule_sm.clock import wall_ms
from schedule_sm.core.errors import ScheduleError
from schedule_sm.embedded.builtin_runner import HELP, BuiltinRunner
from schedule_sm.embedded.runtime import ScheduleHost
from schedule_sm.stores.errors import StoreError, StoreIOError
from schedule_sm.stores.faults import fault_of


class UnwrittenError(ScheduleError):
    """The chat ended before the disk had everything."""

    def __init__(self, count: int, fault: StoreError) -> None:
        """Say how many events there were, and name the ``fault``."""
        super().__init__(f"what was said last ({count} events) may be lost: {fault.message}")
        self.code = fault.code


LONGEST_WAIT_S: Final = 31_536_000.0
"""A year: what `--wait` takes at most."""

DRAIN_S: Final = 10.0
"""How long the end of piped input waits for what is due; as long as a flush may take."""
_LOOK_AGAIN_S: Final = 0.05
_PATIENCE_S: Final = 1.0
"""A turn or a close that takes longer says so: the disk does not answer."""


def chat(
    store: Annotated[
        Path | None,
        typer.Option(
            envvar="SCHEDULE_SM_STORE",
            metavar="FILE",
            help="The store: a JSONL folder, or an SQLite file, created if need be; by default a file of yours.",
        ),
    ] = None,
    session: Annotated[str, session_option(help="The session, created if it is not there.")] = "main",
    wait: Annotated[
        float,
        typer.Option(
            min=0,
            max=LONGEST_WAIT_S,
            metavar="SECONDS",
            help="At the end of piped input, stay this long for reminders not due yet.",
        ),
    ] = 0.0,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER:NAME",
            help="Talk to this model through pydantic-ai, such as openai:gpt-5, instead of to the built-in agent.",
        ),
    ] = None,
) -> None:
    """Talk to the built-in agent; it understands "remind me in 10 minutes to stretch".

    Reminders arrive between turns, also while you type. /list, /why [ID], /help and /quit are commands; Ctrl-C and
    Ctrl-D leave. Opening the session again delivers what came due meanwhile and says how late it is.

    In a pipe (echo "remind me in 2 seconds to stretch" | schedule-sm chat --wait 5) each line is one request and each
    answer plain lines. At the end of input every request has been answered and every reminder that is due by then is
    delivered; later ones stay in the store, unless --wait gives them time.

    --model needs the extra pydantic-ai, the provider's package and its key in the environment; what is missing is
    named. Each turn, a reminder's too, is then a call of that model. --model test needs no provider: it is
    pydantic-ai's test model, which calls every tool with made-up arguments and answers with the results as raw JSON.

    Example: schedule-sm chat --store agent.db
    """
    path = _default_store() if store is None else store
    code = asyncio.run(_chat(path, session, wait, model))
    if code:
        raise typer.Exit(code)


async def _chat(path: Path, session_id: str, wait_s: float, model: str | None) -> int:
    """Chat until somebody leaves, the input ends or a signal comes; returns the exit code."""
    runner = BuiltinRunner() if model is None else model_runner(model)
    introduction = HELP if model is None else f"I am {visible(model)}, and I keep reminders."
    screen = choose_screen()
    with first_signal() as signalled:
        async with held_store(path) as store, ScheduleHost.open(store=store, runner=runner) as host:
            live = await host.session(session_id)
            conversation = Conversation(live, screen, introduction)
            with screen.open():
                if screen.is_interactive:
                    where = f"session {visible(session_id)} in {visible(str(path))}; /help tells what I understand"
                    screen.show(where, "dim")
                following = asyncio.create_task(conversation.follow(), name="schedule-sm chat follows")
                talking = asyncio.create_task(_talk(conversation, screen, wait_s), name="schedule-sm chat")
                watched: set[asyncio.Future[Any]] = {talking, following, signalled}
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                if not talking.done():
                    talking.cancel()
                    await asyncio.wait({talking})
                await _with_patience(live.close(), "the disk does not answer yet; Ctrl-C leaves at once")
                await asyncio.wait({following})
            for task in (talking, following):
                if not task.cancelled():
                    task.result()
            left = conversation.farewell()
            if left is not None:
                typer.echo(left, err=True)
            if conversation.unwritten:
                fault = store.last_fault or StoreIOError("the store", "it did not answer in time")
                raise UnwrittenError(conversation.unwritten, fault)
        return signalled.result() if signalled.done() else ExitCode.OK


async def _talk(conversation: Conversation, screen: PromptScreen | LineScreen, wait_s: float) -> None:
    """Answer line by line; a prompt comes back while a slow disk is waited for, a pipe's next line does not."""
    slow: set[asyncio.Task[bool]] = set()
    try:
        while (line := await screen.read()) is not None:
            answering = asyncio.create_task(conversation.handle(line), name="schedule-sm chat answers")
            slow.add(answering)
            answering.add_done_callback(slow.discard)
            await asyncio.wait({answering}, timeout=_PATIENCE_S if screen.is_interactive else None)
            if not answering.done():
                screen.show("(no answer yet; /why says more)", "dim")
            elif not answering.result():
                return
        if not screen.is_interactive:
            await _drain(conversation, wait_s)
    finally:
        for task in slow:
            task.cancel()
        if slow:
            await asyncio.wait(slow)


async def _drain(conversation: Conversation, wait_s: float) -> None:
    """Return when everything due by now, or by the end of ``wait_s``, has been delivered."""
    loop = asyncio.get_running_loop()
    due_ms = wall_ms() + int(wait_s * 1_000)
    give_up_at = loop.time() + wait_s + DRAIN_S
    while conversation.is_waiting_for(due_ms) and loop.time() < give_up_at:  # noqa: ASYNC110 - three services to ask
        await asyncio.sleep(_LOOK_AGAIN_S)


async def _with_patience(ending: Coroutine[Any, Any, None], notice: str) -> None:
    task = asyncio.create_task(ending, name="schedule-sm chat leaves")
    done, _ = await asyncio.wait({task}, timeout=_PATIENCE_S)
    if not done:
        typer.echo(notice, err=True)
    await task


def _default_store() -> Path:
    """Return the store in the user's data folder, which is created, for this user only."""
    if os.name == "posix" and sys.platform != "darwin":
        folder = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "schedule-sm"
    else:
        folder = Path(typer.get_app_dir("schedule-sm"))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise fault_of(error, str(folder)) from error
    return folder / "chat.db"

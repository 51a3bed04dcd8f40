"""``schedule-sm verify``: replay every session of a store and say what is wrong, and where."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from schedule_sm.cli.consoles import console
from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.cli.options import OneSession, StoreFile, open_reader
from schedule_sm.cli.rendering import visible
from schedule_sm.cli.session_check import Finding, check_session

PROGRESS_FROM: Final = 20_000
"""With fewer events the answer is there before a bar could be read."""
_STEP: Final = 1_000
"""Events between two updates of the bar."""


def verify(file: StoreFile, session: OneSession = None) -> None:
    """Replay every session under the invariant; exit 1 if anything is wrong.

    Each finding is one line: session, event number, what was found, what was expected. The store is read as it stands
    at this moment, without a lock and without writing: a host may be running on it.

    Example: schedule-sm verify agent.db
    """
    findings = sessions = events = 0
    with open_reader(file) as reader:
        infos = reader.sessions(sound_only=True) if session is None else [reader.session(session)]
        events = sum(info.next_seq for info in infos)
        with _progress(events) as advance:
            for line in reader.damage():
                findings += _tell(Finding(None, None, line, "an undamaged file"))
            for info in infos:
                for finding in check_session(info, reader.events(info.id), on_event=advance):
                    findings += _tell(finding)
        sessions = len(infos)
    said = f"{sessions} session{'s' * (sessions != 1)}, {events} event{'s' * (events != 1)}"
    if not findings:
        typer.echo(f"{visible(str(file))}: {said}, nothing wrong")
        return
    typer.echo(
        f"schedule-sm: {findings} finding{'s' * (findings != 1)} in {said}; export the sound sessions with"
        " `schedule-sm export --session` and restore the others from a backup",
        err=True,
    )
    raise typer.Exit(ExitCode.FAILED)


def _tell(finding: Finding) -> int:
    typer.echo(visible(finding.sentence()))
    return 1


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """Yield what counts one event; draw a bar on stderr if that is a terminal and there is much to do."""
    if total < PROGRESS_FROM or not sys.stderr.isatty():
        yield lambda: None
        return
    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as progress:
        task = progress.add_task("", total=total)
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if done % _STEP == 0:
                progress.update(task, completed=done)

        yield advance

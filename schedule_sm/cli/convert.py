"""``schedule-sm convert``: the sessions of an SQLite file as a JSONL folder, or the other way round."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from schedule_sm.cli.consoles import console
from schedule_sm.cli.export_format import ImportRefusedError
from schedule_sm.cli.options import Reader, open_reader
from schedule_sm.cli.rendering import visible
from schedule_sm.cli.session_check import Finding, check_session
from schedule_sm.clock import wall_ms
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.jsonl_transfer import check_free, write_database, write_folder
from schedule_sm.stores.protocol import SessionInfo, StoredEvent

_STEP: Final = 500
"""Events between two updates of the bar."""

_Advance: TypeAlias = Callable[[], None]


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            readable=False,  # whether it can be read is for the reader to say, with an exit code of its own
            help="The store to read: an SQLite file or a JSONL folder, which a running host may be using.",
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET",
            help="The store to write, of the other kind: not there yet, or empty.",
        ),
    ],
) -> None:
    """Write the sessions of an SQLite file as a JSONL folder, or those of a folder as an SQLite file.

    Everything is verified first, as `schedule-sm verify` does it; if anything is wrong, nothing is written. The target
    appears whole, in one step. The source stays as it is, read as it stands at this moment, without a lock.

    Example: schedule-sm convert agent.db agent.sessions
    """
    to_folder = not source.is_dir()
    with open_reader(source) as reader:
        try:
            check_free(target, is_folder=to_folder)  # before the long part
        except OSError as error:
            raise fault_of(error, str(target)) from error
        infos = reader.sessions()
        events = sum(info.next_seq for info in infos)
        with _progress("verifying", events) as advance:
            _verify(reader, infos, source, advance)
        with _progress("writing", events) as advance:
            sessions = ((info, _counted(reader.events(info.id), advance)) for info in infos)
            if to_folder:
                write_folder(target, sessions)
            else:
                write_database(target, sessions, wall_ms())
    typer.echo(
        f"converted {len(infos)} session{'s' * (len(infos) != 1)} with {events} event{'s' * (events != 1)}"
        f" into {visible(str(target))}"
    )


def _verify(reader: Reader, infos: list[SessionInfo], source: Path, advance: _Advance) -> None:
    findings = [Finding(None, None, line, "an undamaged file") for line in reader.damage()]
    for info in infos:
        findings += check_session(info, reader.events(info.id), on_event=advance)
    if findings:
        more = f" ({len(findings) - 1} more)" if len(findings) > 1 else ""
        msg = f"{source} is not sound, nothing was written: {findings[0].sentence()}{more}; restore it from a backup"
        raise ImportRefusedError(msg)


def _counted(events: Iterator[StoredEvent], advance: _Advance) -> Iterator[StoredEvent]:
    for event in events:
        advance()
        yield event


@contextmanager
def _progress(what: str, total: int) -> Iterator[_Advance]:
    """Yield what counts one event; draw a bar on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    columns = (TextColumn(f"{what:>9}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as progress:
        task = progress.add_task("", total=total)
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            if done % _STEP == 0 or done == total:
                progress.update(task, completed=done)

        yield advance

"""``schedule-sm import``: read an export back, all of it or nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.cli.export_format import ExportedSession, ImportRefusedError, read_export
from schedule_sm.cli.options import UnreadableError
from schedule_sm.cli.rendering import visible
from schedule_sm.cli.session_check import Finding, check_session
from schedule_sm.clock import wall_ms
from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.wake import replay_wake_at
from schedule_sm.stores.errors import FolderMissingError, StoreMissingError
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.protocol import Append, NewSession, SessionInfo
from schedule_sm.stores.sqlite_import import NewRows, import_sessions


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The store to write; created if it is not there.")
    ],
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="What `schedule-sm export` wrote; - is stdin.")
    ],
) -> None:
    """Read an export into a store, in one transaction.

    Everything is verified first, as `schedule-sm verify` does it. If anything is wrong, if a session is there already
    or if a host holds the store, nothing is written.

    Example: schedule-sm import copy.db agent.jsonl
    """
    sessions = _read(source)
    seen: set[str] = set()
    findings: list[Finding] = []
    written: list[NewRows] = []
    for session in sessions:
        if session.id in seen:
            findings.append(Finding(session.id, None, "it stands there a second time", "each session once"))
        seen.add(session.id)
        wake_at = _wake_at(session)
        info = SessionInfo(
            session.id,
            seed_length=session.seed_length,
            parent=session.parent,
            epoch=0,
            next_seq=len(session.events),
            wake_at=wake_at,
            created_at=session.created_at,
        )
        findings += check_session(info, session.events)
        header = NewSession(session.seed_length, session.parent)
        written.append(
            NewRows(Append(session.id, 0, 0, session.events, wake_at, header=header), session.created_at)
        )
    if findings:
        for finding in findings:
            typer.echo(visible(finding.sentence()), err=True)
        typer.echo(f"schedule-sm: {visible(source)} is not sound; nothing was imported", err=True)
        raise typer.Exit(ExitCode.IMPORT_REFUSED)
    import_sessions(file, written, wall_ms())
    events = sum(len(session.events) for session in sessions)
    typer.echo(f"imported {len(sessions)} sessions with {events} events into {visible(str(file))}")


def _wake_at(session: ExportedSession) -> int | None:
    """Return what the replay gives; for a log that has none, anything: it is refused for its own sake."""
    try:
        return replay_wake_at(EncodedLog(session.events), session.seed_length)
    except ScheduleLogError:
        return None


def _read(source: str) -> list[ExportedSession]:
    if source == "-":
        return read_export(sys.stdin.buffer, "stdin")
    path = Path(source)
    try:
        with path.open("rb") as file:
            return _read_file(file, source)
    except FileNotFoundError as error:
        missing = (
            FolderMissingError(str(path.parent)) if not path.parent.is_dir() else StoreMissingError(source)
        )
        raise missing from error
    except IsADirectoryError as error:
        msg = f"{source} is a folder; name a file that `schedule-sm export` wrote"
        raise ImportRefusedError(msg) from error
    except PermissionError as error:
        raise UnreadableError(source) from error
    except OSError as error:
        raise fault_of(error, source) from error


def _read_file(file: BinaryIO, name: str) -> list[ExportedSession]:
    return read_export(file, name)

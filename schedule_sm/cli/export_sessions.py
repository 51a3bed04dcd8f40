"""``schedule-sm export``: sessions of a store as JSON Lines."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer

from schedule_sm.cli.export_format import export_lines
from schedule_sm.cli.options import Reader, StoreFile, check_session_id, complete_session, open_reader
from schedule_sm.cli.replay import read_body
from schedule_sm.core.errors import ScheduleError, ScheduleLogError
from schedule_sm.stores.errors import FolderMissingError
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.protocol import SessionInfo, StoredEvent


class FileExistsAlreadyError(ScheduleError):
    """The file to write is there already."""

    code = "file_exists"


def export(
    file: StoreFile,
    session: Annotated[
        list[str] | None,
        typer.Option(
            "--session",
            metavar="ID",
            help="This session only; may be given several times.",
            autocompletion=complete_session,
            callback=check_session_id,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write, a new one that only you can read; stdout if not given."),
    ] = None,
) -> None:
    """Write sessions as JSON Lines: a header for the file and for each session, then its events in order.

    The store is read as it stands at this moment, without a lock: a host may be running on it. `schedule-sm import`
    reads the result back.

    Example: schedule-sm export agent.db --out agent.jsonl
    """
    with open_reader(file) as reader:
        wanted = dict.fromkeys(session or ())
        infos = [reader.session(session_id) for session_id in wanted] if wanted else reader.sessions()
        lines = export_lines(infos, (_checked(info, reader) for info in infos))
        if out is None:
            for line in lines:
                sys.stdout.write(f"{line}\n")  # not typer.echo, which flushes each line
            return
        with _new_file(out) as written:
            for line in lines:
                written.write(f"{line}\n")


def _checked(info: SessionInfo, reader: Reader) -> Iterator[StoredEvent]:
    """Iterate over the events of a session whose rows are whole; what they mean is for ``verify``."""
    seq = 0
    for event in reader.events(info.id):
        if event.seq != seq:
            msg = f"it has the number {event.seq}, expected {seq}"
            raise ScheduleLogError(msg, seq=seq, session_id=info.id)
        try:
            read_body(seq, event.body)
        except ScheduleLogError as error:
            raise error.located(session_id=info.id) from error
        yield event
        seq += 1
    if seq != info.next_seq:
        msg = f"it has {seq} events, expected {info.next_seq}"
        raise ScheduleLogError(msg, session_id=info.id)


@contextmanager
def _new_file(path: Path) -> Iterator[IO[str]]:
    """Yield a new file, 0600, that is removed again if it cannot be written to its end."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError as error:
        msg = f"{path} exists; remove it first, or name another file"
        raise FileExistsAlreadyError(msg) from error
    except FileNotFoundError as error:
        raise FolderMissingError(str(path.parent)) from error
    except OSError as error:
        raise fault_of(error, str(path)) from error
    try:
        with os.fdopen(descriptor, "w", encoding="ascii", newline="\n") as file:
            yield file
    except OSError as error:
        path.unlink(missing_ok=True)
        if error.errno == errno.EPIPE:
            raise
        raise fault_of(error, str(path)) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise

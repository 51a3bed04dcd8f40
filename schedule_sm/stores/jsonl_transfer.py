"""Writing whole sessions to a new place, SQLite file or JSONL folder: all of them or none, epochs and all.

What is written becomes the target in one step, by a rename: a process killed anywhere leaves the target as it was.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from schedule_sm.stores import sqlite_rows as rows
from schedule_sm.stores.errors import FolderMissingError, StoreError, StoreIOError
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.jsonl_bytes import put, sync
from schedule_sm.stores.jsonl_folder import file_name, sync_folder, write_mark
from schedule_sm.stores.jsonl_lines import event_lines, meta_line
from schedule_sm.stores.protocol import Append, NewSession, Outcome, SessionInfo, StoredEvent
from schedule_sm.stores.sqlite_file import HeldFile, uri
from schedule_sm.stores.sqlite_schema import migrate

WholeSessions: TypeAlias = Iterable[tuple[SessionInfo, Iterable[StoredEvent]]]
"""Each session with all of its events; they are taken one by one."""

_AT_ONCE: Final = 1_000
"""Events in memory, and in one batch of a session's file."""


class TargetTakenError(StoreError):
    """There is something at the place to write."""

    code = "import_refused"

    def __init__(self, place: str) -> None:
        """Name the place."""
        super().__init__(place, f"{place} is there already; nothing was written, name a place that is not")


def check_free(target: Path, *, is_folder: bool) -> None:
    """Raise unless ``target`` is not there, or is an empty folder or a file without bytes, as asked for.

    Raises:
        FolderMissingError, TargetTakenError: as their names say.
        OSError: if it cannot be looked at.
    """
    if not target.parent.is_dir():
        raise FolderMissingError(str(target.parent))
    if target.is_symlink():
        raise TargetTakenError(str(target))
    if target.exists():
        is_empty = not any(target.iterdir()) if target.is_dir() else not target.stat().st_size
        if target.is_dir() is not is_folder or not is_empty:
            raise TargetTakenError(str(target))
    if not is_folder:
        for suffix in ("-wal", "-journal"):  # SQLite would replay it into a file of this name
            if Path(f"{target}{suffix}").exists():
                raise TargetTakenError(f"{target}{suffix}")


def write_folder(target: Path, sessions: WholeSessions) -> None:
    """Write ``sessions`` as the JSONL store ``target``, a folder that is not there or is empty; blocking.

    Raises:
        TargetTakenError: if there is something.
        StoreError: if it cannot be written.

    Whatever is raised, also by ``sessions``, the target is as it was.
    """
    try:
        check_free(target, is_folder=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            write_mark(fresh)
            for info, events in sessions:
                _write_file(fresh / file_name(info.id), info, iter(events))
            sync_folder(fresh)
            if os.name != "posix" and target.exists():
                target.rmdir()  # elsewhere an empty folder is not replaced
            fresh.rename(target)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        sync_folder(target.parent)
    except OSError as error:
        raise fault_of(error, str(target)) from error


def _write_file(path: Path, info: SessionInfo, events: Iterator[StoredEvent]) -> None:
    size = _put(path, meta_line(replace(info, next_seq=0)), 0)
    count = 0
    while part := tuple(islice(events, _AT_ONCE)):
        size = _put(path, event_lines(part, info.wake_at), size)
        count += len(part)
    _check_count(path, info, count)
    if not count:
        _put(path, meta_line(info), size)


def _put(path: Path, data: bytes, size: int) -> int:
    sync(put(path, data, size, size, is_new=not size), size)
    return size + len(data)


def write_database(target: Path, sessions: WholeSessions, now_ms: int) -> None:
    """Write ``sessions`` as the SQLite store ``target``, a file that is not there or has no bytes; blocking.

    Raises:
        TargetTakenError: if there is something.
        StoreError: if it cannot be written, or a host holds it.

    Whatever is raised, also by ``sessions``, the target is as it was.
    """
    try:
        check_free(target, is_folder=False)
        is_new = not target.exists()
        held = HeldFile(target, now_ms)
        fresh = target.with_name(f".{target.name}.converting")
        try:
            check_free(target, is_folder=False)  # nothing was written between the look and the lock
            _write_rows(fresh, sessions)
            fresh.replace(target)
            sync_folder(target.parent)
        except BaseException:
            fresh.unlink(missing_ok=True)
            if is_new and not target.stat().st_size:
                target.unlink()
            raise
        finally:
            held.release()
    except (OSError, sqlite3.Error) as error:
        raise fault_of(error, str(target)) from error


def _write_rows(fresh: Path, sessions: WholeSessions) -> None:
    for suffix in ("", "-journal"):  # left by a process that was killed
        Path(f"{fresh}{suffix}").unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(f"{uri(fresh)}?mode=rw", uri=True, isolation_level=None)
    try:
        migrate(connection, str(fresh))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        for info, events in sessions:
            _write_session(connection, fresh, info, iter(events))
        connection.execute("COMMIT")
    finally:
        connection.close()
        with suppress(OSError):
            Path(f"{fresh}-journal").unlink(missing_ok=True)


def _write_session(
    connection: sqlite3.Connection, place: Path, info: SessionInfo, events: Iterator[StoredEvent]
) -> None:
    rows.acquire(connection, info.id, info.created_at)
    connection.execute("UPDATE sessions SET epoch = ? WHERE id = ?", (info.epoch, info.id))
    header: NewSession | None = NewSession(info.seed_length, info.parent)
    count = 0
    while part := tuple(islice(events, _AT_ONCE)):
        append = Append(info.id, info.epoch, count, part, info.wake_at, header=header)
        if rows.apply(connection, append, is_held=True) is not Outcome.COMMITTED:
            raise StoreIOError(str(place), f"session {info.id!r} was refused")
        header = None
        count += len(part)
    _check_count(place, info, count)


def _check_count(place: Path, info: SessionInfo, count: int) -> None:
    if count != info.next_seq:
        raise StoreIOError(str(place), f"session {info.id!r} has {count} events, expected {info.next_seq}")

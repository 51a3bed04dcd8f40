"""Reading an SQLite store that may be in use by a running host: one snapshot, no lock taken, nothing written.

``sqlite`` is the writing half.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from schedule_sm.stores import sqlite_rows as rows
from schedule_sm.stores.errors import (
    FolderMissingError,
    SessionUnknownError,
    StoreBusyError,
    StoreMissingError,
)
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.protocol import SessionInfo, StoredEvent
from schedule_sm.stores.sqlite_file import check_magic, real_file, uri, wal_of
from schedule_sm.stores.sqlite_schema import check_schema

_AT_ONCE: Final = 256
"""Events fetched together: each time a file that is read as it stood is looked at."""


class SqliteReader:
    """What the file held at the moment of opening; a context manager, to be used in the thread that opened it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open ``path`` read-only and take the snapshot.

        Raises:
            StoreError: its class says what is wrong with the file or its place.
        """
        self.path = real_file(path)
        if not self.path.parent.is_dir():
            raise FolderMissingError(str(self.path.parent))
        if not self.path.exists():
            raise StoreMissingError(str(self.path))
        check_magic(self.path)
        # A file in use has a WAL. One without a WAL is read as it stands: to share it, the engine would put files
        # beside it, with its permissions, and leave them there.
        self._as_it_stood: tuple[int, int] | None = None
        with self._reading():
            if not wal_of(self.path).exists():
                self._as_it_stood = self._state()
            options = "mode=ro" if self._as_it_stood is None else "mode=ro&immutable=1"
            self._connection = self._snapshot(options)

    def _state(self) -> tuple[int, int]:
        """Return what changes with the file itself, which a host writes only when it copies its WAL there."""
        status = self.path.stat()
        return status.st_mtime_ns, status.st_size

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise what goes wrong as the store's; whatever was read, if a file that is read as it stood has changed.

        Pages of before and after look like damage, or make up a session that never was.
        """
        fault: sqlite3.Error | OSError | None = None
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            fault = error
        try:
            has_changed = self._as_it_stood is not None and self._state() != self._as_it_stood
        except FileNotFoundError:
            raise StoreMissingError(str(self.path)) from fault
        except OSError as error:
            raise fault_of(error, str(self.path)) from error
        if has_changed:
            raise StoreBusyError(str(self.path)) from fault
        if fault is not None:
            raise fault_of(fault, str(self.path)) from fault

    def _snapshot(self, options: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{uri(self.path)}?{options}",
            uri=True,
            isolation_level=None,
            timeout=2,
        )
        try:
            connection.execute("BEGIN")
            self.version = check_schema(connection, str(self.path))
        except BaseException:
            connection.close()
            raise
        return connection

    def sessions(self, *, sound_only: bool = False) -> list[SessionInfo]:
        """Return every session that has events, by id; damage is the whole file's, whatever ``sound_only`` says."""
        if not self.version:
            return []
        ids = self._query("SELECT id FROM sessions WHERE next_seq > 0 ORDER BY id")
        with self._reading():
            found = [rows.session_info(self._connection, row[0]) for row in ids]
        return [info for info in found if info is not None]

    def session(self, session_id: str) -> SessionInfo:
        """Return one session.

        Raises:
            SessionUnknownError: with ids like it.
        """
        if not self.version:  # a fresh file without tables
            raise SessionUnknownError(str(self.path), session_id)
        with self._reading():
            info = rows.session_info(self._connection, session_id)
            if info is not None:
                return info
            unknown = rows.unknown_session(self._connection, str(self.path), session_id)
        raise unknown

    def events(
        self, session_id: str, after_seq: int = -1, *, types: Collection[str] | None = None
    ) -> Iterator[StoredEvent]:
        """Iterate over the session's events behind ``after_seq`` in order, of ``types`` only if given."""
        with self._reading():
            found = rows.read_events(self._connection, session_id, after_seq, types)
        while some := self._next(found):
            yield from map(StoredEvent._make, some)

    def _next(self, found: sqlite3.Cursor) -> list[tuple[int, str, int, str]]:
        with self._reading():  # nothing is handed out before it is known to be of the file as it stood
            return found.fetchmany(_AT_ONCE)

    def damage(self) -> list[str]:
        """Return what the engine finds wrong with the file itself, one line each; O(file)."""
        found = [row[0] for row in self._query("PRAGMA quick_check(20)") if row[0] != "ok"]
        if not self.version:  # a fresh file without tables
            return found
        orphans = self._query(
            "SELECT DISTINCT session FROM events WHERE session NOT IN (SELECT id FROM sessions) LIMIT 20"
        )
        return found + [f"events of a session {row[0]!r} that is not listed" for row in orphans]

    def _query(self, statement: str) -> list[tuple[str]]:
        with self._reading():
            return self._connection.execute(statement).fetchall()

    def close(self) -> None:
        """Give the snapshot back; harmless when called twice."""
        self._connection.close()

    def __enter__(self) -> SqliteReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

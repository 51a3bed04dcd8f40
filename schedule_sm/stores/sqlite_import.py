"""Writing whole sessions into an SQLite store in one transaction: all of them or none.

The store itself commits session by session, so that one's refusal harms no other; an import wants the opposite.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from schedule_sm.stores import sqlite_rows as rows
from schedule_sm.stores.errors import StoreError
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.protocol import Append, Outcome
from schedule_sm.stores.sqlite_file import HeldFile, real_file, uri
from schedule_sm.stores.sqlite_schema import migrate


class NewRows(NamedTuple):
    """A session to be written."""

    append: Append
    """All of its events, expected seq 0, with its header; the epoch does not matter."""
    created_at: int
    """When it was first acquired, as epoch ms."""


class SessionsExistError(StoreError):
    """Some of the sessions are there already."""

    code = "import_refused"

    def __init__(self, place: str, session_ids: Sequence[str]) -> None:
        """Name the sessions."""
        named = ", ".join(map(repr, session_ids))
        super().__init__(
            place, f"{place} holds {named} already; nothing was imported, import into another file"
        )
        self.session_ids = tuple(session_ids)


def import_sessions(path: str | os.PathLike[str], sessions: Sequence[NewRows], now_ms: int) -> None:
    """Write ``sessions`` into the store at ``path``, which is created if it is not there; blocking.

    Raises:
        SessionsExistError: if one of them is there already.
        StoreError: if the store cannot be used.

    Whatever is raised, nothing was written, and no database that was not there is left behind.
    """
    place = real_file(path)
    is_new = not place.exists()
    file = HeldFile(place, now_ms)
    try:
        _write(place, sessions)
    except BaseException as error:
        if is_new:
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(f"{place}{suffix}").unlink(missing_ok=True)
        if isinstance(error, (sqlite3.Error, OSError)):
            raise fault_of(error, str(place)) from error
        raise
    finally:
        file.release()


def _write(place: Path, sessions: Sequence[NewRows]) -> None:
    connection = sqlite3.connect(f"{uri(place)}?mode=rw", uri=True, timeout=2, isolation_level=None)
    try:
        migrate(connection, str(place))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        refused = [new.append.session_id for new in sessions if not _is_written(connection, new)]
        if refused:
            raise SessionsExistError(str(place), refused)
        connection.execute("COMMIT")
    finally:
        connection.close()  # without a commit this rolls back


def _is_written(connection: sqlite3.Connection, new: NewRows) -> bool:
    info = rows.acquire(connection, new.append.session_id, new.created_at)
    if info.next_seq:
        return False
    connection.execute("UPDATE sessions SET created_at = ? WHERE id = ?", (new.created_at, info.id))
    append = replace(new.append, epoch=info.epoch, expected_seq=0)
    return rows.apply(connection, append, is_held=True) is Outcome.COMMITTED

"""What a fault of the operating system or of SQLite means to a store: one class of ``errors`` for each."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from schedule_sm.stores.errors import (
    DiskFullError,
    NotADatabaseError,
    StoreBusyError,
    StoreError,
    StoreIOError,
    StoreReadOnlyError,
)

_ERRNO_FAULTS: Final[dict[int, type[DiskFullError | StoreReadOnlyError]]] = {
    errno.ENOSPC: DiskFullError,
    errno.EDQUOT: DiskFullError,
    errno.EROFS: StoreReadOnlyError,
    errno.EACCES: StoreReadOnlyError,
    errno.EPERM: StoreReadOnlyError,
}

_SQLITE_FAULTS: Final[
    dict[int, type[StoreReadOnlyError | DiskFullError | StoreBusyError | NotADatabaseError]]
] = {
    sqlite3.SQLITE_FULL: DiskFullError,
    sqlite3.SQLITE_READONLY: StoreReadOnlyError,
    sqlite3.SQLITE_BUSY: StoreBusyError,
    sqlite3.SQLITE_LOCKED: StoreBusyError,
    sqlite3.SQLITE_NOTADB: NotADatabaseError,
}


def primary_code(error: sqlite3.Error) -> int:
    """Return the engine's code for the kind of ``error`` (https://sqlite.org/rescode.html); 0 if it has none."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def fault_of(error: Exception, place: str) -> StoreError:
    """Return the store error that ``error`` (of SQLite or the operating system) stands for."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, sqlite3.Error):
        known = _SQLITE_FAULTS.get(primary_code(error))
        return StoreIOError(place, str(error)) if known is None else known(place)
    if isinstance(error, OSError):
        cause = _ERRNO_FAULTS.get(error.errno or 0)
        return StoreIOError(place, error.strerror or type(error).__name__) if cause is None else cause(place)
    return StoreIOError(place, type(error).__name__)

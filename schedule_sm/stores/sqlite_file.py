"""The file behind an SQLite store: its lock, its permissions, and what each fault of the engine means.

The lock itself is ``held_lock``'s.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import stat
from pathlib import Path
from typing import Final

from schedule_sm.stores.errors import (
    DiskFullError,
    FolderMissingError,
    NotADatabaseError,
    StoreBusyError,
    StoreError,
    StoreIOError,
    StoreReadOnlyError,
)
from schedule_sm.stores.held_lock import HeldLock

_logger = logging.getLogger(__name__)

_MAGIC: Final = b"SQLite format 3\0"
_PRIVATE: Final = 0o600


class HeldFile:
    """The exclusive right to write one store file, until ``release`` or the end of the process."""

    def __init__(self, path: Path, now_ms: int) -> None:
        """Check ``path``, create it 0600 if it is not there, and lock it, or raise at once.

        Raises:
            StoreError: the class that says what is wrong with the place.
        """
        self.path = path
        check_place(path)
        lock, holder = Path(f"{path}.lock"), Path(f"{path}.holder")
        try:
            self._lock = HeldLock(path, lock, holder, now_ms, write=_write_private)
        except OSError as error:
            raise fault_of(error, str(path)) from error
        try:
            _create_private(path)
        except OSError as error:
            self.release()
            raise fault_of(error, str(path)) from error
        _warn_if_exposed(path)

    def release(self) -> None:
        """Let another host in; harmless when called twice."""
        self._lock.release()


def check_place(path: Path) -> None:
    """Raise what is wrong with ``path`` before anything is created beside it.

    Raises:
        FolderMissingError, NotADatabaseError, StoreReadOnlyError: as their names say.
    """
    folder = path.parent
    if not folder.is_dir():
        raise FolderMissingError(str(folder))
    if path.is_dir():
        raise NotADatabaseError(str(path), "it is a folder")
    if path.exists():
        check_magic(path)
        if not os.access(path, os.W_OK):
            raise StoreReadOnlyError(str(path))
    if not os.access(folder, os.W_OK):
        raise StoreReadOnlyError(str(folder))


def real_file(path: str | os.PathLike[str]) -> Path:
    """Return the file itself where ``path`` is a symbolic link: one file must have one lock and one WAL name."""
    given = Path(path)
    return Path(os.path.realpath(given)) if given.is_symlink() else given


def check_magic(path: Path) -> None:
    """Raise NotADatabaseError unless the file is empty or begins as SQLite files do."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except OSError as error:
        raise fault_of(error, str(path)) from error
    if head and head != _MAGIC:
        raise NotADatabaseError(str(path))


def _create_private(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE))
    except FileExistsError:
        return


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, _PRIVATE), "w") as file:
        file.write(text)


def _warn_if_exposed(path: Path) -> None:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & (stat.S_IRGRP | stat.S_IROTH):
        _logger.warning("%s can be read by other users of this machine; run `chmod 600` on it", path)


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


def fault_of(error: Exception, place: str) -> StoreError:
    """Return the store error that ``error`` (of SQLite or the operating system) stands for."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        known = None if code is None else _SQLITE_FAULTS.get(code & 0xFF)  # the low byte is the primary code
        return StoreIOError(place, str(error)) if known is None else known(place)
    if isinstance(error, OSError):
        cause = _ERRNO_FAULTS.get(error.errno or 0)
        return StoreIOError(place, error.strerror or type(error).__name__) if cause is None else cause(place)
    return StoreIOError(place, type(error).__name__)

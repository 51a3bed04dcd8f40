"""The file behind an SQLite store: its lock, its permissions, and what each fault of the engine means.

The lock is the operating system's (``filelock``), so a crash drops it. Who holds it stands in a second file, because
an attempt to lock may truncate the lock file itself.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sqlite3
import stat
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from schedule_sm.core.instants import format_instant
from schedule_sm.stores.errors import (
    DiskFullError,
    FolderMissingError,
    NotADatabaseError,
    StoreBusyError,
    StoreError,
    StoreIOError,
    StoreLockedError,
    StoreReadOnlyError,
)

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
        self._lock = FileLock(f"{path}.lock", timeout=0, mode=_PRIVATE, thread_local=False)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise self._locked() from error
        except OSError as error:
            raise fault_of(error, str(path)) from error
        try:
            self._holder_path.unlink(missing_ok=True)
            _write_private(self._holder_path, json.dumps({"pid": os.getpid(), "since": now_ms}))
            _create_private(path)
        except OSError as error:
            self.release()
            raise fault_of(error, str(path)) from error
        _warn_if_exposed(path)

    @property
    def _holder_path(self) -> Path:
        return Path(f"{self.path}.holder")

    def _locked(self) -> StoreLockedError:
        try:
            holder = json.loads(self._holder_path.read_text("ascii"))
            pid, since_ms = int(holder["pid"]), int(holder["since"])
        except (OSError, ValueError, KeyError, TypeError):
            return StoreLockedError(str(self.path), None, None, None)  # it is just starting or ending
        return StoreLockedError(str(self.path), pid, since_ms, format_instant(since_ms))

    def release(self) -> None:
        """Let another host in; harmless when called twice."""
        if self._lock.is_locked:
            try:
                self._holder_path.unlink(missing_ok=True)
            except OSError:
                _logger.warning("%s could not be removed; the next host overwrites it", self._holder_path)
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

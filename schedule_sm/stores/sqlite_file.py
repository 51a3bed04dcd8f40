"""The file behind an SQLite store: its lock, its permissions, and whether it is one.

The lock itself is ``held_lock``'s.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from schedule_sm.stores.errors import (
    FolderMissingError,
    NotADatabaseError,
    StoreError,
    StoreIOError,
    StoreLinkedError,
    StoreReadOnlyError,
)
from schedule_sm.stores.faults import fault_of, primary_code
from schedule_sm.stores.held_lock import HeldLock

_logger = logging.getLogger(__name__)

_PRIVATE: Final = 0o600


class HeldFile:
    """The exclusive right to write one store file, until ``release`` or the end of the process."""

    def __init__(self, path: Path, now_ms: int) -> None:
        """Check ``path``, create it 0600 if it is not there, and lock it, or raise at once.

        Raises:
            StoreError: the class that says what is wrong with the place.
        """
        self.path = path
        self._name, self._wal_name = str(path), str(wal_of(path))  # asked for with each commit
        check_place(path)
        lock, holder = Path(f"{path}.lock"), Path(f"{path}.holder")
        try:
            self._lock = HeldLock(path, lock, holder, now_ms, write=_write_private)
        except OSError as error:
            raise fault_of(error, self._name) from error
        try:
            _create_private(path)
            _check_links(path)
            self._inode = _inode(self._name)
            _warn_if_exposed(path)
        except (OSError, StoreLinkedError) as error:
            self.release()
            raise fault_of(error, self._name) from error

    def check_lock(self) -> None:
        """See ``HeldLock.check``."""
        self._lock.check()

    def wal(self) -> int:
        """Return which WAL stands beside the file now: its inode, 0 for none.

        Raises:
            StoreIOError: if the file is not the one that was locked: with its WAL, another file is no database.
        """
        if _inode(self._name) != self._inode:
            raise StoreIOError(self._name, "another program has removed or replaced it")
        return _inode(self._wal_name)

    def look_again(self, fault: StoreError) -> StoreError:
        """Return what the operating system says of the place where the engine says only that I/O failed."""
        if not isinstance(fault, StoreIOError):
            return fault
        try:
            self._lock.try_to_write()
        except OSError as error:
            found = fault_of(error, self._name)
            return fault if isinstance(found, StoreIOError) else found
        return fault

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
    if path.exists():
        check_magic(path)
        if not os.access(path, os.W_OK):
            raise StoreReadOnlyError(str(path))
    if not os.access(folder, os.W_OK):
        raise StoreReadOnlyError(str(folder))


def real_file(path: str | os.PathLike[str]) -> Path:
    """Return the file itself where ``path`` is a symbolic link: one file must have one lock and one WAL name."""
    given = Path(path).absolute()  # it stays the same file when the process changes its folder
    return Path(os.path.realpath(given)) if given.is_symlink() else given


def _inode(name: str) -> int:
    try:
        return os.stat(name).st_ino
    except FileNotFoundError:
        return 0


def _check_links(path: Path) -> None:
    if path.stat().st_nlink > 1:  # the lock and the WAL go by the name
        raise StoreLinkedError(str(path))


def check_magic(path: Path) -> None:
    """Raise NotADatabaseError unless the file is empty or begins as SQLite files do.

    The engine looks, never this process by itself: closing any descriptor of a file drops every POSIX lock that the
    process has on it, those of a running host's connection too. The next program that reads the file would then take
    itself for the last one and delete the WAL under the host (https://sqlite.org/howtocorrupt.html, section 2.2).
    Beside a WAL, damage does not count: the engine does not see it here, and a checkpoint that runs, or was cut off,
    leaves a file that is sound only together with it.
    """
    if path.is_dir():
        raise NotADatabaseError(str(path), "it is a folder (JsonlStore opens one of JSON Lines)")
    if not path.is_file():
        raise NotADatabaseError(str(path), "it is no file")
    if not os.access(path, os.R_OK):
        raise StoreReadOnlyError(str(path))
    has_wal = wal_of(path).exists()  # a host that closes takes it away, one that opens brings it
    try:
        with closing(sqlite3.connect(f"{uri(path)}?mode=ro&immutable=1", uri=True)) as connection:
            connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error as error:
        if primary_code(error) != sqlite3.SQLITE_CORRUPT or not (has_wal or wal_of(path).exists()):
            raise fault_of(error, str(path)) from error


def wal_of(path: Path) -> Path:
    """Return where the WAL of the file at ``path`` stands while there is one."""
    return Path(f"{path}-wal")


def uri(path: Path) -> str:
    """Return ``path`` as SQLite takes it, without options; two slashes at its beginning would name another machine."""
    name = os.fsencode(path.absolute())
    return f"file:{quote(b'/' + name.lstrip(b'/') if name.startswith(b'//') else name)}"


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

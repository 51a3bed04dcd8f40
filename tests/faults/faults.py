"""The faults: each can be switched on and off for one store file while its host runs."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

WRITE, SYNC = 1, 2


class Fault(Protocol):
    """Something that can be wrong with the place of a store."""

    def begin(self, path: Path) -> None:
        """From now on it is wrong."""

    def end(self) -> None:
        """It is right again."""


class PreloadedFault:
    """Calls fail or hang in ``bad_disk.c``, which this process was started with."""

    _slots = 0

    def __init__(self, error: int, what: int) -> None:
        self._error, self._what = error, what
        self._slot = PreloadedFault._slots
        PreloadedFault._slots += 1

    def begin(self, path: Path) -> None:
        _library().bad_disk_set(self._slot, os.fsencode(path), self._error, self._what)

    def end(self) -> None:
        _library().bad_disk_set(self._slot, None, 0, 0)


def unsynced_bytes(path: Path) -> int:
    """Return how much of a WAL or of a folder was written and not synced with success; 0 without the library."""
    library = _library()
    if not hasattr(library, "bad_disk_unsynced"):
        return 0
    return int(library.bad_disk_unsynced(os.fsencode(path if path.is_dir() else f"{path}-wal")))


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


class WriteLock:
    """Another program holds SQLite's write lock."""

    def begin(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("BEGIN IMMEDIATE")

    def end(self) -> None:
        self._connection.close()


class FullFileSystem:
    """The file system of the store is filled to its last byte; only on a small one."""

    def begin(self, path: Path) -> None:
        self._ballast = path.with_name("ballast")
        with self._ballast.open("wb", buffering=0) as ballast:
            for size in (65_536, 4_096, 512, 1):
                try:
                    while ballast.write(b"\0" * size):
                        pass
                except OSError as full:
                    if full.errno != errno.ENOSPC:
                        raise

    def end(self) -> None:
        self._ballast.unlink()


class FileSizeLimit:
    """No file of this process may be written beyond its first 1,000 bytes: less than a page."""

    def begin(self, path: Path) -> None:
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, self._before[1]))

    def end(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


FAULTS: Final[dict[str, Callable[[], Fault]]] = {
    "write-eio": lambda: PreloadedFault(errno.EIO, WRITE),
    "sync-eio": lambda: PreloadedFault(errno.EIO, SYNC),
    "read-only": lambda: PreloadedFault(errno.EROFS, WRITE | SYNC),
    "no-space": lambda: PreloadedFault(errno.ENOSPC, WRITE),
    "sync-hangs": lambda: PreloadedFault(0, SYNC),
    "write-hangs": lambda: PreloadedFault(0, WRITE),
    "locked": WriteLock,
    "full": FullFileSystem,
    "size-limit": FileSizeLimit,
}

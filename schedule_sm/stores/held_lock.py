"""The exclusive right to write one store, and who has it.

The lock is the operating system's (``filelock``), so a crash drops it. Who holds it stands in a second file, because
an attempt to lock may truncate the lock file itself.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from schedule_sm.core.instants import format_instant
from schedule_sm.stores.errors import StoreIOError, StoreLockedError

_PRIVATE: Final = 0o600
_logger = logging.getLogger(__name__)


class HeldLock:
    """The lock of one store, until ``release`` or the end of the process."""

    def __init__(
        self, place: Path, lock: Path, holder: Path, now_ms: int, *, write: Callable[[Path, str], None]
    ) -> None:
        """Take ``lock`` for the store at ``place`` and ``write`` into ``holder`` who has it, or raise at once.

        Raises:
            StoreLockedError: naming the process that has it, and since when, where that is known.
            OSError: if a file cannot be written; no lock is kept.
        """
        self._place = place
        self._holder = holder
        self._lock = FileLock(str(lock), timeout=0, mode=_PRIVATE, thread_local=False)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise self._locked() from error
        self._file = lock
        try:
            self._inode = os.stat(lock).st_ino  # before anything that may release it
            holder.unlink(missing_ok=True)
            write(holder, json.dumps({"pid": os.getpid(), "since": now_ms}))
        except OSError:
            self.release()
            raise

    def _locked(self) -> StoreLockedError:
        try:
            holder = json.loads(self._holder.read_text("ascii"))
            pid, since_ms = int(holder["pid"]), int(holder["since"])
            since = format_instant(since_ms)
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return StoreLockedError(str(self._place), None, None, None)  # it is just starting or ending
        return StoreLockedError(str(self._place), pid, since_ms, since)

    def check(self) -> None:
        """Raise if the lock's file was removed or replaced: another host may hold a lock under its name by now.

        Raises:
            StoreIOError: nothing may be written then.
        """
        try:
            found = os.stat(self._file).st_ino
        except FileNotFoundError:
            found = None
        if found != self._inode:
            raise StoreIOError(
                str(self._place), "its lock was removed; end every host on it and start one again"
            )

    def try_to_write(self) -> None:
        """Write what stands in the holder's file once more, to see whether the place can be written.

        Raises:
            OSError: if it cannot.
        """
        with self._holder.open("r+b", buffering=0) as file:
            first = file.read(1)
            file.seek(0)
            file.write(first)
            os.fsync(file.fileno())

    def release(self) -> None:
        """Let another host in; harmless when called twice."""
        if self._lock.is_locked:
            try:
                self.check()
                self._holder.unlink(missing_ok=True)
            except StoreIOError:
                pass  # what stands there now is another host's
            except OSError:
                _logger.warning("%s could not be removed; the next host overwrites it", self._holder)
            self._lock.release()

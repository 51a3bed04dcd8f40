"""Putting bytes into one session file and making them durable; what is not certain never stays behind.

``jsonl_files`` says what is written; nothing else writes to a session's file.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from schedule_sm.stores.errors import StoreIOError, StoreLinkedError
from schedule_sm.stores.jsonl_folder import PRIVATE_FILE

_BINARY: Final = getattr(os, "O_BINARY", 0)  # Windows


def put(path: Path, data: bytes, at: int, keep: int, *, is_new: bool, inode: int | None = None) -> int:
    """Write ``data`` at the offset ``at`` of a file whose first ``keep`` bytes are good; return the open file.

    Args:
        path: the file.
        data: what is written.
        at: where it begins, in bytes.
        keep: how many bytes are good.
        is_new: whether the file is created if it is not there.
        inode: which file it has to be, if that is known.

    Raises:
        OSError, StoreError: nothing of ``data`` is left behind the good bytes, as far as the disk allows.
    """
    descriptor = os.open(path, os.O_WRONLY | _BINARY | (os.O_CREAT if is_new else 0), PRIVATE_FILE)
    try:
        _check_file(os.fstat(descriptor), keep, inode, path)
        if _cut(descriptor, keep):
            os.fsync(descriptor)  # before anything is put there: a crash must not mix the two
        os.lseek(descriptor, at, os.SEEK_SET)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    except BaseException:
        with suppress(OSError):
            _cut(descriptor, keep)  # half a batch on a full disk is in everybody's way
        os.close(descriptor)
        raise
    return descriptor


def sync(descriptor: int, keep: int) -> None:
    """Make an open file durable and close it; after a fault it is cut to the ``keep`` bytes that were good before.

    Raises:
        OSError: what was put there is not durable.
    """
    try:
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            _cut(descriptor, keep)  # what is not certain must not look as if it were
        raise
    finally:
        os.close(descriptor)


def _check_file(found: os.stat_result, keep: int, inode: int | None, path: Path) -> None:
    if inode not in (None, found.st_ino):
        raise StoreIOError(str(path), "another program has replaced it")
    if found.st_size < keep:
        raise StoreIOError(str(path), "another program has cut it")
    if found.st_nlink > 1:
        raise StoreLinkedError(str(path))


def _cut(descriptor: int, keep: int) -> bool:
    """Cut the file to ``keep`` bytes; never longer, as that would fill it with zeros. Return whether it was longer."""
    is_longer = os.fstat(descriptor).st_size > keep
    if is_longer:
        os.ftruncate(descriptor, keep)
    return is_longer

"""The index beside a session file: where each event's line begins, and of which type it is.

It is a projection, never needed: it counts only for a file whose first bytes are those that it was made from, by their
CRC-32. Such a file is checked in one pass over its bytes, and only what came behind them is read line by line.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import stat
import sys
import zlib
from array import array
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from schedule_sm.stores.jsonl_folder import PRIVATE_FILE
from schedule_sm.stores.protocol import SessionInfo

WORTH_BYTES: Final = 1 << 18
"""Bytes that are not worth an index: they are read line by line in a millisecond or two."""
_WORTH_SHARE: Final = 8
"""Nor is the growth by less than one eighth of what an index covers, so that it is seldom written again."""
_FORMAT: Final = {"format": "schedule-sm/jsonl-index", "version": 1, "order": sys.byteorder}
_CRC_BYTES: Final = 4
_HEAD_BYTES: Final = 1 << 10
"""More than an index is ever longer than its session, whose lines say all that it says but this."""
_BINARY: Final = getattr(os, "O_BINARY", 0)  # on Windows alone
_AT_ONCE: Final = getattr(os, "O_NONBLOCK", 0)  # not on Windows
_ROOM: Final = 1 << 26
"""Free bytes that an index leaves to the sessions."""

_logger = logging.getLogger(__name__)


class LastBatch(NamedTuple):
    """The last whole batch of a file."""

    start: int
    """Its offset in bytes."""
    end: int
    """Where the next one begins."""
    info: SessionInfo
    """The session after it."""


@dataclass(slots=True)
class Places:
    """Where the events of a file stand, by seq."""

    starts: array[int] = field(default_factory=lambda: array("Q"))
    """The offset of each event's line in bytes."""
    kinds: array[int] = field(default_factory=lambda: array("I"))
    """The number of each event's type."""
    types: list[str] = field(default_factory=list)
    """The types by their number."""

    def cut(self, count: int) -> None:
        """Keep the first ``count`` events."""
        del self.starts[count:], self.kinds[count:]


@dataclass(frozen=True, slots=True)
class Indexed:
    """What an index says of the bytes up to the end of ``batch``."""

    batch: LastBatch
    places: Places


def index_path(path: Path) -> Path:
    """Return where the index of the session file ``path`` is."""
    return path.with_suffix(".index")


def is_worth_an_index(size: int, indexed: int) -> bool:
    """Whether a file of ``size`` bytes, of which an index covers ``indexed``, should get a new one."""
    return size - indexed >= max(WORTH_BYTES, indexed // _WORTH_SHARE)


def read_index(path: Path, data: bytes) -> Indexed | None:
    """Return the index of the file ``path``, which holds ``data``; ``None`` if there is none for just these bytes."""
    if len(data) < WORTH_BYTES:
        return None
    try:
        written = _bytes_of(index_path(path), len(data) + _HEAD_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        _logger.info("the index of %s is not used: %s", path, error)
        return None
    try:
        return _read(written, data)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        _logger.info("the index of %s is not used: %r", path, error)
        return None


def _bytes_of(path: Path, most: int) -> bytes:
    """Return what a plain file of at ``most`` so many bytes holds; none may be waited for."""
    with os.fdopen(os.open(path, os.O_RDONLY | _BINARY | _AT_ONCE), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise OSError(errno.EINVAL, "it is no index", str(path))
        return file.read()


def _read(written: bytes, data: bytes) -> Indexed:
    head, _, rest = written.partition(b"\n")
    columns, crc = rest[:-_CRC_BYTES], rest[-_CRC_BYTES:]
    if zlib.crc32(columns, zlib.crc32(head)).to_bytes(_CRC_BYTES, "big") != crc:
        msg = "its checksum is wrong"
        raise ValueError(msg)
    said = json.loads(head)
    if any(said[key] != value for key, value in _FORMAT.items()):
        msg = "it is of another format"
        raise ValueError(msg)
    batch = LastBatch(said["start"], said["end"], SessionInfo(**said["info"]))
    if batch.end > len(data) or zlib.crc32(memoryview(data)[: batch.end]) != said["crc"]:
        msg = "it is of another file"
        raise ValueError(msg)
    places = Places(types=said["types"])
    middle = batch.info.next_seq * places.starts.itemsize
    places.starts.frombytes(columns[:middle])
    places.kinds.frombytes(columns[middle:])
    if not len(places.starts) == len(places.kinds) == batch.info.next_seq:
        msg = "its columns are not as long as the session"
        raise ValueError(msg)
    return Indexed(batch, places)


def write_index(path: Path, data: bytes, indexed: Indexed) -> None:
    """Write the index of the file ``path``, which holds ``data``; whole or not at all. A fault is logged, no more.

    It is not synced: after a crash it is checked like any other.
    """
    start, end, info = indexed.batch
    places = indexed.places
    said = {
        **_FORMAT,
        "start": start,
        "end": end,
        "crc": zlib.crc32(memoryview(data)[:end]),
        "info": asdict(info),
        "types": places.types,
    }
    head = json.dumps(said, separators=(",", ":")).encode("ascii")
    columns = places.starts.tobytes() + places.kinds.tobytes()
    crc = zlib.crc32(columns, zlib.crc32(head)).to_bytes(_CRC_BYTES, "big")
    try:
        _put(index_path(path), (head, b"\n", columns, crc))
    except (OSError, MemoryError) as error:
        _logger.info("the index of %s was not written: %r", path, error)


def _put(target: Path, parts: Iterable[bytes]) -> None:
    if shutil.disk_usage(target.parent).free < _ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
    fresh = target.with_name(f".{target.name}")
    with suppress(FileNotFoundError):
        fresh.unlink()  # left by a process that was killed
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
        fresh.replace(target)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise

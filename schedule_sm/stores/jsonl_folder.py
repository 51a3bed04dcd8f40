"""The folder behind a JSONL store: its lock, its mark, its permissions, and the name of each session's file.

The lock itself is ``held_lock``'s. No path is made from a session id outside
``file_name``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from schedule_sm.stores.errors import (
    FolderMissingError,
    NewerSchemaError,
    NotADatabaseError,
    StoreMissingError,
    StoreReadOnlyError,
)
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.held_lock import HeldLock

MARK: Final = "schedule-sm.json"
"""The file that tells a store from any other folder."""
FORMAT: Final = "schedule-sm/jsonl"
VERSION: Final = 1
PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700

_LOCK: Final = ".lock"
_HOLDER: Final = ".holder"
_NEW_MARK: Final = ".mark"
_SUFFIX: Final = ".jsonl"
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST: Final = 180
"""Characters of an escaped id in a file name: suffix and digest included, file systems take 255 bytes."""
_RESERVED: Final = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]")
"""Names that Windows gives to devices, whatever their suffix."""

_logger = logging.getLogger(__name__)


def file_name(session_id: str) -> str:
    """Return the name of a session's file: the id percent-encoded, capitals and dots too.

    Two ids never share a name, also where case does not count; none leaves the folder or is hidden. A long id is cut,
    and its SHA-256 follows behind ``~``.
    """
    raw = session_id.encode()
    text = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in raw)
    if _RESERVED.fullmatch(text):
        text = f"%{raw[0]:02X}{text[1:]}"
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}~{hashlib.sha256(raw).hexdigest()}"
    return text + _SUFFIX


def session_files(folder: Path) -> Iterator[Path]:
    """Iterate over the sessions' files, in no order."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX) and not entry.name.startswith("."):
                yield folder / entry.name


def likely_id(file: Path) -> str:
    """Return the id that a file's name stands for, as far as the name tells."""
    return unquote(file.name.removesuffix(_SUFFIX).partition("~")[0], errors="replace")


class HeldFolder:
    """The exclusive right to write one folder, until ``release`` or the end of the process."""

    def __init__(self, path: Path, now_ms: int) -> None:
        """Check ``path``, create it 0700 if it is not there, and lock it, or raise at once.

        Raises:
            StoreError: the class that says what is wrong with the place.
        """
        self.path = path
        try:
            self._check()
        except OSError as error:
            raise fault_of(error, str(path)) from error
        try:
            self._lock = HeldLock(path, path / _LOCK, path / _HOLDER, now_ms, write=write_private)
        except OSError as error:
            raise fault_of(error, str(path)) from error
        try:
            if not (path / MARK).exists():
                write_mark(path)
            _warn_if_exposed(path)
        except OSError as error:
            self.release()
            raise fault_of(error, str(path)) from error

    def _check(self) -> None:
        if not self.path.parent.is_dir():
            raise FolderMissingError(str(self.path.parent))
        if not self.path.exists():
            if not os.access(self.path.parent, os.W_OK):
                raise StoreReadOnlyError(str(self.path.parent))
            self.path.mkdir(mode=PRIVATE_FOLDER)
            sync_folder(self.path.parent)
        check_mark(self.path)
        if not os.access(self.path, os.W_OK):
            raise StoreReadOnlyError(str(self.path))

    def check_lock(self) -> None:
        """See ``HeldLock.check``."""
        self._lock.check()

    def release(self) -> None:
        """Let another host in; harmless when called twice."""
        self._lock.release()


def check_mark(folder: Path, *, for_reading: bool = False) -> None:
    """Raise unless ``folder`` is a store of this release or, for writing, has nothing of anybody else's in it.

    Raises:
        StoreMissingError, NotADatabaseError, NewerSchemaError: as their names say.
        OSError: if it cannot be read.
    """
    place = str(folder)
    if not folder.is_dir():
        if not folder.exists():
            raise StoreMissingError(place)
        raise NotADatabaseError(place, "it is a file, a JSONL store is a folder")
    mark = folder / MARK
    if not mark.exists():
        names = {entry.name for entry in folder.iterdir()}
        if names - {_LOCK, _HOLDER, _NEW_MARK} or (
            for_reading and not names
        ):  # else: a store that is just beginning
            raise NotADatabaseError(place, f"it is a folder without {MARK}")
        return
    try:
        said = json.loads(mark.read_bytes())
        is_ours, version = said["format"] == FORMAT, int(said["version"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotADatabaseError(place, f"its {MARK} cannot be read") from error
    if not is_ours:
        raise NotADatabaseError(place, f"its {MARK} is another program's")
    if version > VERSION:
        raise NewerSchemaError(place, version, VERSION)


def write_mark(folder: Path) -> None:
    """Make ``folder`` a store; whole or not at all."""
    write_private(folder / _NEW_MARK, json.dumps({"format": FORMAT, "version": VERSION}) + "\n")
    (folder / _NEW_MARK).replace(folder / MARK)
    sync_folder(folder)


def write_private(path: Path, text: str) -> None:
    """Write a small file that only its owner can read, durably."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, PRIVATE_FILE), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable; Windows does so by itself."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _warn_if_exposed(folder: Path) -> None:
    if os.name != "posix":
        return
    files = [folder / MARK, *session_files(folder)]
    exposed = [file for file in files if stat.S_IMODE(file.stat().st_mode) & (stat.S_IRGRP | stat.S_IROTH)]
    if exposed:
        _logger.warning(
            "%s%s can be read by other users of this machine; run `chmod 600` on it",
            exposed[0],
            "" if len(exposed) == 1 else f" and {len(exposed) - 1} other files of this store",
        )

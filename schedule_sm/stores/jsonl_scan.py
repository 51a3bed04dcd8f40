"""A whole session file checked at once: the verdicts of ``jsonl_lines`` in passes that run in C.

Only lines as they are commonly written are checked here. At anything else the whole file is read line by line instead,
so that what is refused, and what is said of it, is decided in ``jsonl_lines`` alone.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from itertools import compress, count
from pathlib import Path
from sys import intern
from typing import Final, TypeAlias, overload

from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.jsonl_lines import (
    LINE_END,
    LineReader,
    body_of,
    check_cut,
    event_of,
    read_batches,
    type_of,
    wake_of,
)
from schedule_sm.stores.protocol import SessionInfo, StoredEvent

_LINE: Final = re.compile(
    rb'^(\{"se(?:q":([^,]*+),([^y]*+)ype":("[^"]*+"),"time":-?[0-9]{1,18}+,"data":(?:.*\}|.*)|ssion":.*))'
    rb',"crc":"(.{8})"\}\n',
    re.MULTILINE,
)
"""Text, seq, what is common to a batch, type, checksum. Tighter groups, and ``.*`` alone, take half as long again."""
_COLUMNS: Final = 1 + _LINE.groups
_COMMON: Final = re.compile(rb'"last":([0-9]{1,18}),"wake_at":(null|-?[0-9]{1,18}),"t')
_PIECE: Final = 1 << 18
"""Bytes checked at once, about what a processor's cache holds: fewer cost more passes, many more cost memory."""

_EventBatch: TypeAlias = tuple[int, int, bytes]
"""First and last seq, and ``wake_at`` as it is written."""
_LastBatch: TypeAlias = tuple[int, int, SessionInfo]
"""Its start and end in bytes, and the session after it."""


class ScannedLog(Sequence[StoredEvent]):
    """A session's events as they stand in its file; each is decoded when touched."""

    def __init__(self, batch: _LastBatch, texts: list[bytes], types: list[str]) -> None:
        """Take over what was found in a file.

        Args:
            batch: the last whole batch.
            texts: each event's line as far as its checksum covers it; those behind that batch do not count.
            types: each event's type.
        """
        self.last_start, self.last_end, self.info = batch
        self._texts = texts
        self._types = types
        del texts[self.info.next_seq :], types[self.info.next_seq :]

    def of_types(self, types: Collection[str], first: int = 0) -> list[StoredEvent]:
        """Return the events of ``types`` from ``first`` on, in order; the others are not decoded."""
        return [event_of(self._texts[seq]) for seq in self._seqs_of(types) if seq >= first]

    def bodies(self, types: Collection[str]) -> dict[str, tuple[list[int], list[str]]]:
        """Return, for each of ``types``, the seqs and the bodies of its events in order."""
        found: dict[str, tuple[list[int], list[str]]] = {type_: ([], []) for type_ in types}
        for seq in self._seqs_of(types):
            seqs, bodies = found[self._types[seq]]
            seqs.append(seq)
            bodies.append(body_of(self._texts[seq]))
        return found

    def _seqs_of(self, types: Collection[str]) -> Iterator[int]:
        return compress(count(), map(frozenset(types).__contains__, self._types))

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, position: int) -> StoredEvent: ...

    @overload
    def __getitem__(self, position: slice) -> list[StoredEvent]: ...

    def __getitem__(self, position: int | slice) -> StoredEvent | list[StoredEvent]:
        """Return one event, or some."""
        found = self._texts[position]
        return event_of(found) if isinstance(found, bytes) else list(map(event_of, found))


def scan_file(path: Path, session_id: str | None = None, size: int | None = None) -> ScannedLog | None:
    """Return what a file holds; ``None`` if it holds no whole batch, or is not there.

    Args:
        path: the file.
        session_id: the session that it has to be of, if that is known.
        size: how many of its bytes count, if not all.

    Raises:
        StoreError: DamagedLineError, or what the operating system refuses.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise fault_of(error, str(path)) from error
    return scan(data[:size], str(path), session_id)


def scan(data: bytes, place: str, session_id: str | None = None) -> ScannedLog | None:
    """Return what ``data`` holds, the bytes of the file ``place``; see ``scan_file``."""
    try:
        log = _Scan(data).log()
    except (ValueError, TypeError):
        return _read_by_line(data, place, session_id)
    if log is not None and session_id not in (None, log.info.id):
        return _read_by_line(data, place, session_id)
    return log


def _read_by_line(data: bytes, place: str, session_id: str | None) -> ScannedLog | None:
    last = None
    texts, types = list[bytes](), list[str]()
    for last in read_batches(BytesIO(data), place, session_id):
        texts += last.texts
        types += (intern(event.type) for event in last.events)
    return None if last is None else ScannedLog((last.start, last.end, last.info), texts, types)


class _OtherwiseError(ValueError):
    """Something is not as common; whether that is damage is not decided here."""


class _Types(dict[bytes, str]):
    """The types of a file by how they are written; one that is not there is decoded."""

    def __missing__(self, text: bytes) -> str:
        self[text] = intern(type_of(text))
        return self[text]


class _Scan:
    """One pass over a file; raises ValueError or TypeError where it has to be read line by line."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0
        """Of the next line."""
        self._reader = LineReader()
        self._batch: _LastBatch | None = None
        self._texts: list[bytes] = []
        self._types: list[str] = []
        self._type_at = _Types().__getitem__
        self._seqs: list[bytes] = []

    def log(self) -> ScannedLog | None:
        """Return what the file holds, ``None`` for no whole batch."""
        data = self._data
        end = data.rfind(b"\n") + 1
        check_cut(data[end:])
        if not data.isascii():
            raise _OtherwiseError
        start = 0
        while start < end:
            stop = data.find(b"\n", min(start + _PIECE, end - 1)) + 1
            self._take(data[start:stop])
            start = stop
        if not _count_up(b",".join(self._seqs)):
            raise _OtherwiseError
        if self._batch is None:
            return None
        return ScannedLog(self._batch, self._texts, self._types)

    def _take(self, lines: bytes) -> None:
        columns = _LINE.split(lines)
        between, texts, seqs, common, types, checksums = (columns[n::_COLUMNS] for n in range(_COLUMNS))
        if any(between):
            raise _OtherwiseError  # a line that is no match
        if struct.pack(f">{len(texts)}I", *map(zlib.crc32, texts)).hex().encode() != b"".join(checksums):
            raise _OtherwiseError
        first, end = 0, self._offset + len(lines)
        if not all(seqs):
            for number in [number for number, seq in enumerate(seqs) if seq is None]:
                events = slice(first, number)
                length = _length(texts[events])
                self._take_events(texts[events], seqs[events], common[events], types[events], length)
                self._take_meta(len(texts[number]) + LINE_END)
                first = number + 1
        self._take_events(texts[first:], seqs[first:], common[first:], types[first:], end - self._offset)

    def _take_meta(self, length: int) -> None:
        end = self._offset + length
        batch = self._reader.take(self._data[self._offset : end], self._offset)
        if batch is not None:
            self._batch = batch.start, batch.end, batch.info
        self._offset = end

    def _take_events(
        self,
        texts: Sequence[bytes],
        seqs: Sequence[bytes],
        common: Sequence[bytes],
        types: Sequence[bytes],
        length: int,
    ) -> None:
        if not texts:
            return
        if self._reader.info is None:
            raise _OtherwiseError
        self._seqs.append(b",".join(seqs))
        self._types.extend(map(self._type_at, types))
        self._texts.extend(texts)
        self._offset += length
        self._take_batches(common, self._reader.info)

    def _take_batches(self, common: Sequence[bytes], info: SessionInfo) -> None:
        """Take the batches that events belong to, given what each says that is ``common`` to its batch."""
        common_of = _COMMON.fullmatch
        seq = first = self._reader.next_seq
        stop = first + len(common)
        batches: list[_EventBatch] = []
        expected: list[bytes] = []
        while seq < stop:
            text = common[seq - first]
            found = common_of(text)
            if found is None:
                raise _OtherwiseError
            last_text, wake_at = found.groups()
            last = int(last_text)
            if last < seq:
                raise _OtherwiseError
            batches.append((seq, last, wake_at))
            expected += [text] * ((last + 1 if last < stop else stop) - seq)
            seq = last + 1
        if expected != common:
            raise _OtherwiseError
        self._note(batches, stop, info)

    def _note(self, batches: Sequence[_EventBatch], stop: int, info: SessionInfo) -> None:
        """Note the last whole batch and what is unfinished, before the event ``stop``."""
        reader = self._reader
        seq, last, _ = batches[0]
        if reader.last not in (None, last):
            raise _OtherwiseError
        start = self._start_of(seq) if reader.last is None else reader.start
        reader.next_seq, reader.last = stop, None
        for seq, last, wake_at in batches[-2:]:
            if seq != batches[0][0]:
                start = self._start_of(seq)
            if last < stop:
                info = replace(info, wake_at=wake_of(wake_at), next_seq=last + 1)
                self._batch = start, self._start_of(last + 1), info
            else:
                reader.start, reader.last = start, last

    def _start_of(self, seq: int) -> int:
        return self._offset - _length(self._texts[seq:])


def _length(texts: Sequence[bytes]) -> int:
    return sum(map(len, texts)) + LINE_END * len(texts)


_THOUSAND: Final = b"".join(b",%03d" % number for number in range(1_000))


def _count_up(seqs: bytes) -> bool:
    """Return whether these are the numbers from 0 on, with commas between them."""
    thousands = range(1, 1 + seqs.count(b",") // 1_000)
    pieces = [_THOUSAND.replace(b",", b",%d" % thousand) for thousand in thousands]
    numbers = b"".join([",".join(map(str, range(1_000))).encode(), *pieces, b","])
    return not seqs or numbers.startswith(seqs + b",")

"""A whole session file checked at once: the verdicts of ``jsonl_lines`` in passes that run in C.

Only lines as they are commonly written are checked here. At anything else the whole file is read line by line instead,
so that what is refused, and what is said of it, is decided in ``jsonl_lines`` alone.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from itertools import accumulate, compress, count, islice
from pathlib import Path
from sys import intern
from typing import Final, TypeAlias, overload

from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.jsonl_index import (
    Indexed,
    LastBatch,
    Places,
    is_worth_an_index,
    read_index,
    write_index,
)
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


class ScannedLog(Sequence[StoredEvent]):
    """A session's events as they stand in its file; each is decoded when touched."""

    def __init__(self, data: bytes, batch: LastBatch, places: Places, indexed_size: int = 0) -> None:
        """Take over what was found in a file.

        Args:
            data: its bytes.
            batch: the last whole batch.
            places: where the events stand; those behind that batch do not count.
            indexed_size: how many of the bytes were known from its index.
        """
        self.last_start, self.last_end, self.info = batch
        self.indexed_size = indexed_size
        places.cut(self.info.next_seq)
        self._data = data
        self._places = places

    def keep_index(self, path: Path) -> int:
        """Write an index of the file ``path`` if that is worth it; return how many bytes it now should cover."""
        if is_worth_an_index(self.last_end, self.indexed_size):
            batch = LastBatch(self.last_start, self.last_end, self.info)
            write_index(path, self._data, Indexed(batch, self._places))
            self.indexed_size = self.last_end
        return self.indexed_size

    def of_types(self, types: Collection[str], first: int = 0) -> list[StoredEvent]:
        """Return the events of ``types`` from ``first`` on, in order; the others are not decoded."""
        return [self[seq] for seq in self._seqs_of(types) if seq >= first]

    def bodies(self, types: Collection[str]) -> dict[str, tuple[list[int], list[str]]]:
        """Return, for each of ``types``, the seqs and the bodies of its events in order."""
        found: dict[str, tuple[list[int], list[str]]] = {type_: ([], []) for type_ in types}
        columns = [found.get(type_, ([], [])) for type_ in self._places.types]
        kinds, starts = self._places.kinds, self._places.starts
        for seq in self._seqs_of(types):
            seqs, bodies = columns[kinds[seq]]
            seqs.append(seq)
            bodies.append(body_of(self._text(starts[seq])))
        return found

    def _seqs_of(self, types: Collection[str]) -> Iterator[int]:
        wanted = frozenset(kind for kind, type_ in enumerate(self._places.types) if type_ in types)
        return compress(count(), map(wanted.__contains__, self._places.kinds))

    def _text(self, start: int) -> bytes:
        """Return the line that begins at ``start`` as far as its checksum covers it."""
        return self._data[start : self._data.index(b"\n", start) + 1 - LINE_END]

    def __len__(self) -> int:
        return len(self._places.starts)

    @overload
    def __getitem__(self, position: int) -> StoredEvent: ...

    @overload
    def __getitem__(self, position: slice) -> list[StoredEvent]: ...

    def __getitem__(self, position: int | slice) -> StoredEvent | list[StoredEvent]:
        """Return one event, or some."""
        start = self._places.starts[position]
        if isinstance(start, int):
            return event_of(self._text(start))
        return [event_of(self._text(each)) for each in start]


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
    data = data[:size]
    return scan(data, str(path), session_id, read_index(path, data))


def index_file(path: Path, session_id: str, size: int) -> None:
    """Write an index of the first ``size`` bytes of a file; lines that have to be read one by one take too long for it.

    Raises:
        OSError: if the file cannot be read.
        ValueError, TypeError: if there are such lines.
    """
    data = path.read_bytes()[:size]
    log = _Scan(data, read_index(path, data)).log()
    if log is not None and log.info.id == session_id:
        log.keep_index(path)


def scan(
    data: bytes, place: str, session_id: str | None = None, indexed: Indexed | None = None
) -> ScannedLog | None:
    """Return what ``data`` holds, the bytes of the file ``place`` or some of them ``indexed``; see ``scan_file``."""
    try:
        log = _Scan(data, indexed).log()
    except (ValueError, TypeError):
        return _read_by_line(data, place, session_id)
    if log is not None and session_id not in (None, log.info.id):
        return _read_by_line(data, place, session_id)
    return log


def _read_by_line(data: bytes, place: str, session_id: str | None) -> ScannedLog | None:
    last, places = None, Places()
    kind_of = _Kinds(places.types)
    for last in read_batches(BytesIO(data), place, session_id):
        places.starts.extend(_starts(last.texts, last.end - _length(last.texts)))
        places.kinds.extend(kind_of.named(event.type) for event in last.events)
    if last is None:
        return None
    return ScannedLog(data, LastBatch(last.start, last.end, last.info), places)


class _OtherwiseError(ValueError):
    """Something is not as common; whether that is damage is not decided here."""


class _Kinds(dict[bytes, int]):
    """The numbers of a file's types by how they are written; one that is not there is decoded."""

    def __init__(self, types: list[str]) -> None:
        super().__init__()
        self._types = types
        self._by_name = {name: kind for kind, name in enumerate(types)}

    def __missing__(self, text: bytes) -> int:
        self[text] = kind = self.named(type_of(text))
        return kind

    def named(self, name: str) -> int:
        kind = self._by_name.setdefault(name, len(self._types))
        if kind == len(self._types):
            self._types.append(intern(name))
        return kind


class _Scan:
    """One pass over a file; raises ValueError or TypeError where it has to be read line by line."""

    def __init__(self, data: bytes, indexed: Indexed | None) -> None:
        self._data = data
        self._batch = None if indexed is None else indexed.batch
        self._places = Places() if indexed is None else indexed.places
        self._offset = self._indexed_size = 0 if indexed is None else indexed.batch.end
        """Of the next line."""
        self._reader = LineReader()
        if indexed is not None:
            self._reader.info = indexed.batch.info
            self._reader.next_seq = indexed.batch.info.next_seq
        self._first_seq = self._reader.next_seq
        self._kind_at = _Kinds(self._places.types).__getitem__
        self._seqs: list[bytes] = []

    def log(self) -> ScannedLog | None:
        """Return what the file holds, ``None`` for no whole batch."""
        data = self._data
        end = data.rfind(b"\n") + 1
        check_cut(data[end:])
        if not data.isascii():
            raise _OtherwiseError
        start = self._offset
        while start < end:
            stop = data.find(b"\n", min(start + _PIECE, end - 1)) + 1
            self._take(data[start:stop])
            start = stop
        if not _count_up(b",".join(self._seqs), self._first_seq):
            raise _OtherwiseError
        if self._batch is None:
            return None
        return ScannedLog(data, self._batch, self._places, self._indexed_size)

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
            self._batch = LastBatch(batch.start, batch.end, batch.info)
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
        self._places.kinds.extend(map(self._kind_at, types))
        self._places.starts.extend(_starts(texts, self._offset))
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
        start = self._places.starts[seq] if reader.last is None else reader.start
        reader.next_seq, reader.last = stop, None
        for seq, last, wake_at in batches[-2:]:
            if seq != batches[0][0]:
                start = self._places.starts[seq]
            if last < stop:
                info = replace(info, wake_at=wake_of(wake_at), next_seq=last + 1)
                self._batch = LastBatch(start, self._data.index(b"\n", self._places.starts[last]) + 1, info)
            else:
                reader.start, reader.last = start, last


def _length(texts: Sequence[bytes]) -> int:
    return sum(map(len, texts)) + LINE_END * len(texts)


def _starts(texts: Sequence[bytes], first: int) -> Iterable[int]:
    """Iterate over where the lines of ``texts`` begin, one behind the other from ``first`` on."""
    ends = accumulate([len(text) + LINE_END for text in texts], initial=first)
    return islice(ends, len(texts))


_THOUSAND: Final = b"".join(b"-%03d," % number for number in range(1_000))


def _count_up(seqs: bytes, first: int) -> bool:
    """Return whether these are the numbers from ``first`` on, with commas between them."""
    if not seqs:
        return True
    begun, skipped = divmod(first, 1_000)
    thousands = range(begun, begun + 2 + seqs.count(b",") // 1_000)
    numbers = b"".join(_thousand(thousand) for thousand in thousands)
    return numbers.split(b",", skipped)[-1].startswith(seqs + b",")


def _thousand(thousand: int) -> bytes:
    """Return the numbers of a thousand, a comma behind each."""
    if not thousand:
        return b"".join(b"%d," % number for number in range(1_000))
    return _THOUSAND.replace(b"-", b"%d" % thousand)

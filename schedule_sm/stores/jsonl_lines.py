r"""The lines of a session file: how they are written, and how a file is read back batch by batch.

::

    {"session":"main","epoch":1,"last":-1,"wake_at":null,"seed_length":0,"parent":null,"created_at":…,"crc":"…"}
    {"seq":0,"last":1,"wake_at":…,"type":"schedule/change","time":…,"data":{…},"crc":"…"}
    {"seq":1,"last":1,…}

What one flush wrote is one batch: each of its lines carries, as ``last``, the seq of its last event. A batch whose last
event is missing was never confirmed and is dropped whole; that can only be the end of a file. A file is ASCII and every
line ends in the CRC-32 of what stands before it, so that a changed byte is found. ``data`` is the body as it was given,
never parsed; a body that is not one line of ASCII stands as a JSON string under ``text``. Nothing is ever skipped.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Final, NamedTuple

from schedule_sm.stores.errors import StoreError
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.protocol import SessionInfo, StoredEvent

_EVENT: Final = re.compile(
    rb'\{"seq":([0-9]+),"last":([0-9]+),"wake_at":(null|-?[0-9]+),"type":("[^"\\]*+(?:\\.[^"\\]*+)*+"),'
    rb'"time":(-?[0-9]+),"(?:data":(.*)|text":(.*))',
    re.DOTALL,
)
_SEAL: Final = re.compile(rb',"crc":"([0-9a-f]{8})"\}')
_SEAL_FORM: Final = b',"crc":"%08x"}'
_META_KEYS: Final = ("session", "epoch", "last", "wake_at", "seed_length", "parent", "created_at")
_META_TYPES: Final = {
    (str, int, int, wake_at, int, parent, int) for wake_at in (int, NoneType) for parent in (str, NoneType)
}
LINE_END: Final = len(_SEAL_FORM % 0) + 1
"""Bytes of a line behind what its checksum covers, line feed and all."""


class DamagedLineError(StoreError):
    """A line of a session file is not what was written; nothing behind it is read."""

    code = "store_io"

    def __init__(self, place: str, line: int, offset: int, detail: str) -> None:
        """Name the ``line`` (from 1) and its ``offset`` in bytes."""
        super().__init__(
            place,
            f"{place} is damaged in line {line} at byte {offset}: {detail}; restore it from a backup",
        )
        self.line = line
        self.offset = offset
        self.detail = detail


class LineError(ValueError):
    """What is wrong with a line, without its place."""


class _Event(NamedTuple):
    """One line; a file has as many as the session has events, so this is a plain tuple."""

    event: StoredEvent
    last: int
    wake_at: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """What one flush wrote."""

    start: int
    """Its offset in bytes."""
    end: int
    """Where the next one begins."""
    info: SessionInfo
    """What is known of the session after it."""
    events: Sequence[StoredEvent]
    texts: Sequence[bytes]
    """Each event's line as far as its checksum covers it."""


def meta_line(info: SessionInfo) -> bytes:
    """Return the line that states a session; events up to ``info.next_seq`` stand before it or follow in its batch."""
    return _sealed(
        f'{{"session":{json.dumps(info.id)},"epoch":{info.epoch},"last":{info.next_seq - 1},'
        f'"wake_at":{_number(info.wake_at)},"seed_length":{info.seed_length},"parent":{json.dumps(info.parent)},'
        f'"created_at":{info.created_at}'
    )


def event_lines(events: Sequence[StoredEvent], wake_at: int | None) -> bytes:
    """Return one batch of events; ``wake_at`` is the session's from then on."""
    return b"".join(
        _sealed(
            f'{{"seq":{event.seq},"last":{events[-1].seq},"wake_at":{_number(wake_at)},'
            f'"type":{json.dumps(event.type)},"time":{event.time},{_body(event.body)}'
        )
        for event in events
    )


def _body(body: str) -> str:
    return f'"data":{body}' if body.isascii() and "\n" not in body else f'"text":{json.dumps(body)}'


def _number(number: int | None) -> str:
    return "null" if number is None else str(int(number))


def _sealed(text: str) -> bytes:
    line = text.encode("ascii")
    return b"%b%b\n" % (line, _SEAL_FORM % zlib.crc32(line))


def read_batches(lines: Iterable[bytes], place: str, session_id: str | None = None) -> Iterator[Batch]:
    """Iterate over the complete batches of a file, of ``session_id`` if given; ``lines`` have their ends. O(file).

    An unfinished batch at the end is not among them: the file is good up to the last batch's ``end``.

    Raises:
        DamagedLineError: at the first line that is not as it was written, or in line 1 for another session.
    """
    reader = LineReader()
    offset = 0
    for number, line in enumerate(lines, 1):
        try:
            if not line.endswith(b"\n"):
                check_cut(line)
                return
            batch = reader.take(line, offset)
        except LineError as error:
            raise DamagedLineError(place, number, offset, str(error)) from error
        offset += len(line)
        if batch is None:
            continue
        if session_id not in (None, batch.info.id):
            raise DamagedLineError(place, 1, 0, f"it holds session {batch.info.id!r}")
        yield batch


@dataclass(slots=True)
class LineReader:
    """Puts lines together to batches."""

    info: SessionInfo | None = None
    next_seq: int = 0
    start: int = 0
    last: int | None = None
    """Of the batch that has begun."""
    wake_at: bytes | None = None
    """As its last event states it."""
    events: list[StoredEvent] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)

    def take(self, line: bytes, offset: int) -> Batch | None:
        """Return the batch that ``line`` completes."""
        read = _read_line(line)
        if self.last is None:
            self.start = offset
        if isinstance(read, SessionInfo):
            self._state(read)
        else:
            self._add(*read)
            self.texts.append(line[:-LINE_END])
        assert self.info is not None
        if self.last != self.next_seq - 1:
            return None
        if self.wake_at is not None:
            self.info = replace(self.info, wake_at=wake_of(self.wake_at))
        self.info = replace(self.info, next_seq=self.next_seq)
        batch = Batch(self.start, offset + len(line), self.info, self.events, self.texts)
        self.last, self.wake_at, self.events, self.texts = None, None, [], []
        return batch

    def _state(self, info: SessionInfo) -> None:
        if self.last is not None or info.next_seq < self.next_seq:
            msg = (
                "the batch before it is incomplete"
                if self.last is not None
                else "events before it are missing"
            )
            raise LineError(msg)
        if self.info is not None and (self.info.id != info.id or self.info.epoch > info.epoch):
            msg = "it states another session"
            raise LineError(msg)
        self.info = info
        self.last = info.next_seq - 1

    def _add(self, event: StoredEvent, last: int, wake_at: bytes) -> None:
        if self.info is None:
            msg = "the line that names the session is missing before it"
            raise LineError(msg)
        if event.seq != self.next_seq:
            msg = f"event {self.next_seq} is missing before event {event.seq}"
            raise LineError(msg)
        if last < event.seq or (self.last is not None and last != self.last):
            msg = "the batch before it is incomplete"
            raise LineError(msg)
        self.last = last
        self.next_seq += 1
        self.events.append(event)
        self.wake_at = wake_at


def _read_line(line: bytes) -> _Event | SessionInfo:
    text = line[:-LINE_END]
    if line[-LINE_END:-1] != _SEAL_FORM % zlib.crc32(text):
        msg = "its checksum is wrong"
        raise LineError(msg)
    found = _EVENT.fullmatch(text)
    try:
        return _meta(text) if found is None else _event(found)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = "it is neither an event nor states a session"
        raise LineError(msg) from error


def _event(found: re.Match[bytes]) -> _Event:
    seq, last, wake_at, kind, time, data, text = found.groups()
    body = json.loads(text) if data is None else data.decode("ascii")
    return _Event(StoredEvent(int(seq), type_of(kind), int(time), body), int(last), wake_at)


def event_of(text: bytes) -> StoredEvent:
    """Return the event of a line that was found to be sound, given as far as its checksum covers it."""
    found = _EVENT.fullmatch(text)
    assert found is not None
    return _event(found).event


def body_of(text: bytes) -> str:
    """Return the body alone; nothing before it can look like its key, since quotes in a text are escaped."""
    _, _, body = text.partition(b',"data":')
    return body.decode("ascii") if body else event_of(text).body


def wake_of(text: bytes) -> int | None:
    """Return the ``wake_at`` that a line states."""
    return None if text == b"null" else int(text)


@lru_cache(maxsize=256)
def type_of(text: bytes) -> str:
    """Return the type that a line names; a log has few of them."""
    name: str = json.loads(text)
    return name


def _meta(text: bytes) -> SessionInfo:
    said = json.loads(text + b"}")
    values = tuple(said[key] for key in _META_KEYS)
    if tuple(map(type, values)) not in _META_TYPES:
        msg = "a value is of another type"
        raise ValueError(msg)
    session_id, epoch, last, wake_at, seed_length, parent, created_at = values
    return SessionInfo(
        session_id,
        seed_length=seed_length,
        parent=parent,
        epoch=epoch,
        next_seq=last + 1,
        wake_at=wake_at,
        created_at=created_at,
    )


def check_cut(line: bytes) -> None:
    """Raise unless a line without an end is the beginning of one: a line whose end was changed is damage."""
    seal = re.search(_SEAL, line)
    if (
        seal is not None
        and zlib.crc32(line[: seal.start()]) == int(seal[1], 16)
        and line[seal.end() :].strip(b"\0")
    ):
        msg = "the end of the line was changed"
        raise LineError(msg)


def batches_of(path: Path, session_id: str | None = None) -> Iterator[Batch]:
    """Iterate over the batches of the file at ``path``, of ``session_id`` if given; nothing if it is not there.

    Raises:
        StoreError: DamagedLineError, or what the operating system refuses.
    """
    try:
        with path.open("rb") as file:
            yield from read_batches(file, str(path), session_id)
    except FileNotFoundError:
        return
    except OSError as error:
        raise fault_of(error, str(path)) from error

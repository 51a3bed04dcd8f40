r"""The form of ``export``: JSON Lines in ASCII, one header for the file and one for each session, then its events.

::

    {"format":"schedule-sm/export","version":1,"sessions":1}
    {"id":"main","header":{"seed_length":0,"parent":null,"created_at":1785931200000},"events":2}
    {"seq":0,"type":"schedule/change","time":1785931200000,"data":{…}}
    {"seq":1,…}

Sessions come in the order of their ids, and the counts tell a file that was cut off. Two exports of the same state are
the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from schedule_sm.core.ecmascript import stringify
from schedule_sm.core.errors import ScheduleError
from schedule_sm.core.instants import MAX_INSTANT_MS, MIN_INSTANT_MS, whole_number
from schedule_sm.embedded.encoded_log import encode_data
from schedule_sm.stores.protocol import SessionInfo, StoredEvent

FORMAT: Final = "schedule-sm/export"
VERSION: Final = 1
_LINE_END: Final = re.compile(r"[\r\n]")
_MORE_THAN_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


class ImportRefusedError(ScheduleError):
    """The source of an import is wrong; nothing was written."""

    code = "import_refused"


@dataclass(frozen=True, slots=True)
class ExportedSession:
    """One session as an export holds it."""

    id: str
    seed_length: int
    parent: str | None
    created_at: int
    events: tuple[StoredEvent, ...]


def file_header(sessions: int) -> str:
    """Return the first line."""
    return encode_data({"format": FORMAT, "version": VERSION, "sessions": sessions})


def session_header(info: SessionInfo) -> str:
    """Return the line in front of a session's events."""
    header = {"seed_length": info.seed_length, "parent": info.parent, "created_at": info.created_at}
    return encode_data({"id": info.id, "header": header, "events": info.next_seq})


def event_line(event: StoredEvent) -> str:
    """Return one event; its data stays the text that the store holds, on one line and in ASCII.

    Of JSON text, line ends can only be white space, and what is more than ASCII only part of a string.
    """
    body = _LINE_END.sub(" ", event.body)
    body = _MORE_THAN_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], body)
    return f'{{"seq":{event.seq},"type":{json.dumps(event.type)},"time":{event.time},"data":{body}}}'


def read_export(lines: Iterable[bytes], name: str) -> list[ExportedSession]:
    """Return the sessions of an export called ``name``.

    Raises:
        ImportRefusedError: at the first line that departs from the form.
    """
    return _Reader(lines, name).sessions()


class _Reader:
    """Reads line by line; every refusal names the line."""

    def __init__(self, lines: Iterable[bytes], name: str) -> None:
        self._lines = iter(lines)
        self._name = name
        self._number = 0

    def sessions(self) -> list[ExportedSession]:
        first = self._object("the header of the file")
        if first.get("format") != FORMAT:
            self._refuse(f'it does not begin with {{"format":"{FORMAT}",…}}')
        if whole_number(first.get("version")) != VERSION:
            self._refuse(f"the export's version is {first.get('version')!r}, this release reads {VERSION}")
        self._keys(first, "format", "version", "sessions")
        found = [self._session() for _ in range(self._count(first, "sessions"))]
        if next(self._lines, b"").strip():
            self._number += 1
            self._refuse("there is more than the counts announce")
        return found

    def _session(self) -> ExportedSession:
        line = self._object("the header of a session")
        self._keys(line, "id", "header", "events")
        header = line["header"]
        if not isinstance(header, dict):
            self._refuse("header must be an object")
        self._keys(header, "seed_length", "parent", "created_at")
        parent = None if header["parent"] is None else self._text(header, "parent")
        session_id, seed_length = self._text(line, "id"), self._count(header, "seed_length")
        created_at = self._instant(header, "created_at")
        events = tuple(self._event(session_id) for _ in range(self._count(line, "events")))
        return ExportedSession(session_id, seed_length, parent, created_at, events)

    def _event(self, session_id: str) -> StoredEvent:
        line = self._object(f"an event of session {session_id!r}")
        self._keys(line, "seq", "type", "time", "data")
        return StoredEvent(
            self._count(line, "seq"),
            self._text(line, "type"),
            self._instant(line, "time"),
            self._body(line["data"]),
        )

    def _object(self, what: str) -> dict[str, Any]:
        line = next(self._lines, None)
        self._number += 1
        if line is None:
            self._refuse(f"it ends where {what} should stand; it was cut off")
        try:
            value = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
            self._refuse(f"{what} should stand there and it is no JSON")
        if not isinstance(value, dict):
            self._refuse(f"{what} should stand there and it is no object")
        return value

    def _keys(self, value: dict[str, Any], *keys: str) -> None:
        if value.keys() != set(keys):
            self._refuse(f"the keys must be exactly {', '.join(keys)}")

    def _count(self, value: dict[str, Any], key: str) -> int:
        number = whole_number(value.get(key))
        if number is None or not 0 <= number < 2**53:
            self._refuse(f"{key} must be a whole number from 0, not {_short(value.get(key))}")
        return number

    def _instant(self, value: dict[str, Any], key: str) -> int:
        number = whole_number(value[key])
        if number is None or not MIN_INSTANT_MS <= number <= MAX_INSTANT_MS:
            self._refuse(f"{key} must be epoch ms of the years 1 to 9999, not {_short(value[key])}")
        return number

    def _text(self, value: dict[str, Any], key: str) -> str:
        text = value[key]
        if not isinstance(text, str) or not text or stringify(text) != json.dumps(text, ensure_ascii=False):
            self._refuse(f"{key} must be non-empty text without lone surrogates, not {_short(text)}")
        return text

    def _body(self, data: object) -> str:
        try:
            return encode_data(data)
        except (ValueError, RecursionError):
            self._refuse("data holds a number that JSON cannot")

    def _refuse(self, why: str) -> NoReturn:
        msg = f"{self._name}, line {self._number}: {why}; nothing was imported, export it again"
        raise ImportRefusedError(msg)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _no_constant(name: str) -> None:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def export_lines(infos: list[SessionInfo], events_of: Iterable[Iterable[StoredEvent]]) -> Iterator[str]:
    """Iterate over the lines of an export, without their ends."""
    yield file_header(len(infos))
    for info, events in zip(infos, events_of, strict=True):
        yield session_header(info)
        yield from map(event_line, events)

"""A session's event log in memory: kept as JSON text, decoded when read.

An event as plain dictionaries takes about 1,050 bytes, as text 300; most events are read once, by a fold.
"""

from __future__ import annotations

import json
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence, Set
from typing import Any, overload

from pydantic_core import from_json

from schedule_sm.core.changes import Change
from schedule_sm.core.common_changes import common_changes
from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.event_log import AppendOnlyLog, checked_changes
from schedule_sm.stores.protocol import OpenedLog, StoredEvent

_NOWHERE = array("q")
_encode = json.JSONEncoder(
    allow_nan=False, separators=(",", ":")
).encode  # ``dumps`` would make one for each call


class EncodedLog(AppendOnlyLog):
    """The events ``{"seq", "type", "time", "data"}`` of one session, in order; each read gives a fresh one.

    Its head may still lie in a store: an event there whose type was not asked for is read when it is touched.
    """

    __slots__ = ("_bodies", "_head", "_indexed_types", "_known", "_seqs", "_times", "_types")

    def __init__(self, stored: Sequence[StoredEvent] | OpenedLog = ()) -> None:
        """Take over what a store held: all of it, or what of it was read so far."""
        self._head: Sequence[StoredEvent] = ()
        self._known: list[str | None] = []  # the head's bodies as far as they are here, by seq
        self._indexed_types: Set[str] | None = None  # None for every type
        self._types: list[str] = []
        self._times = array("q")
        self._bodies: list[str] = []
        self._seqs: dict[str, array[int]] = {}
        if isinstance(stored, OpenedLog):
            self._head = stored.events
            self._indexed_types = frozenset(stored.known)  # not its keys, which would keep every body alive
            self._known = [None] * len(stored.events)
            for type_, (seqs, bodies) in stored.known.items():
                for seq, body in zip(seqs, bodies, strict=True):
                    self._known[seq] = body
                self._seqs[type_] = array("q", seqs)
        else:
            for event in stored:
                self.add(event.type, event.time, event.body)

    def add(self, type: str, time: int, body: str) -> int:  # noqa: A002 - the event's own field name
        """Append one event and return its seq."""
        seq = len(self)
        self._types.append(sys.intern(type))
        self._times.append(time)
        self._bodies.append(body)
        self._seqs_of(type).append(seq)
        return seq

    def _seqs_of(self, type: str) -> array[int]:  # noqa: A002 - the event's own field name
        seqs = self._seqs.get(type)
        if seqs is None:
            seqs = self._seqs[type] = array("q")
        return seqs

    def __len__(self) -> int:
        return len(self._head) + len(self._bodies)

    @overload
    def __getitem__(self, position: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, position: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, position: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(position, slice):
            return [self[seq] for seq in range(*position.indices(len(self)))]
        seq, type_, time, body = self._stored_at(position + len(self) if position < 0 else position)
        return {"seq": seq, "type": type_, "time": time, "data": _decoded(seq, body)}

    def _stored_at(self, seq: int) -> StoredEvent:
        own = seq - len(self._head)
        if seq >= 0 and own < 0:
            return self._head[seq]
        if own < 0:
            msg = "no event stands there"
            raise IndexError(msg)
        return StoredEvent(seq, self._types[own], self._times[own], self._bodies[own])

    def type_at(self, seq: int) -> str:
        """Return an event's type without decoding it."""
        return self._stored_at(seq).type

    def data_at(self, seq: int) -> Any:
        """Return a fresh copy of an event's data."""
        return _decoded(seq, self._body_at(seq))

    def _body_at(self, seq: int) -> str:
        known = self._known[seq] if 0 <= seq < len(self._known) else None
        return self._stored_at(seq).body if known is None else known

    def seqs_of(self, type: str, start: int, end: int, most: int | None = None) -> Sequence[int]:  # noqa: A002 - the event's own field name
        """See ``AppendOnlyLog``; a type that was not read from the store yet is O(events) once."""
        if self._indexed_types is not None and type not in self._indexed_types:
            self._index_head()
        seqs = self._seqs.get(type, _NOWHERE)
        first = bisect_left(seqs, start)
        last = len(seqs) if end >= len(self) else bisect_left(seqs, end)
        return seqs[first : last if most is None else min(last, first + most)]

    def _index_head(self) -> None:
        found: dict[str, array[int]] = {}  # kept at the end: an event that cannot be read changes nothing
        for event in self._head:
            found.setdefault(event.type, array("q")).append(event.seq)
        for type_, seqs in self._seqs.items():
            own = bisect_left(seqs, len(self._head))
            found.setdefault(type_, array("q")).extend(seqs[own:])
        self._seqs, self._indexed_types = found, None

    def data_of(self, seqs: Sequence[int]) -> Iterable[Any]:
        """See ``AppendOnlyLog``; each is decoded when it is asked for."""
        return map(_decoded, seqs, self._bodies_at(seqs))

    def changes_of(self, seqs: Sequence[int]) -> Iterable[Change]:
        """See ``AppendOnlyLog``; what this release wrote is recognised as text."""
        bodies = self._bodies_at(seqs)
        changes = common_changes(bodies)
        return checked_changes(seqs, map(_decoded, seqs, bodies)) if changes is None else changes

    def _bodies_at(self, seqs: Sequence[int]) -> list[str]:
        known, length = self._known, len(self._known)
        return [(known[seq] if seq < length else None) or self._stored_at(seq).body for seq in seqs]

    def stored(self, start: int = 0) -> tuple[StoredEvent, ...]:
        """Return the events from ``start`` on as a store takes them."""
        return tuple(self._stored_at(seq) for seq in range(start, len(self)))


def _decoded(seq: int, body: str) -> Any:
    try:
        return from_json(body, cache_strings="keys")  # twice as fast as the standard library
    except (ValueError, TypeError):
        pass  # but it refuses lone surrogates, and data that nests deeper than it allows
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        msg = "its data is no JSON"
        raise ScheduleLogError(msg, seq=seq) from error


def encode_data(data: object) -> str:
    """Return ``data`` as ASCII JSON text.

    Raises:
        ValueError, TypeError, RecursionError: for what JSON cannot hold (NaN, a set, a cycle).
    """
    return _encode(data)

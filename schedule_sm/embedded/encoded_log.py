"""A session's event log in memory: kept as JSON text, decoded when read.

An event as plain dictionaries takes about 1,050 bytes, as text 300; most events are read once, by a fold.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterable
from typing import Any, overload

from schedule_sm.core.event_log import AppendOnlyLog
from schedule_sm.stores.protocol import StoredEvent


class EncodedLog(AppendOnlyLog):
    """The events ``{"seq", "type", "time", "data"}`` of one session, in order; each read gives a fresh one."""

    __slots__ = ("_bodies", "_times", "_types")

    def __init__(self, stored: Iterable[StoredEvent] = ()) -> None:
        """Take over what a store held."""
        self._types: list[str] = []
        self._times = array("q")
        self._bodies: list[str] = []
        for event in stored:
            self.add(event.type, event.time, event.body)

    def add(self, type: str, time: int, body: str) -> int:  # noqa: A002 - the event's own field name
        """Append one event and return its seq."""
        self._types.append(sys.intern(type))
        self._times.append(time)
        self._bodies.append(body)
        return len(self._bodies) - 1

    def __len__(self) -> int:
        return len(self._bodies)

    @overload
    def __getitem__(self, position: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, position: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, position: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(position, slice):
            return [self[seq] for seq in range(*position.indices(len(self)))]
        if position < 0:
            position += len(self)
        return {
            "seq": position,
            "type": self._types[position],
            "time": self._times[position],
            "data": json.loads(self._bodies[position]),
        }

    def type_at(self, seq: int) -> str:
        """Return an event's type without decoding it."""
        return self._types[seq]

    def data_at(self, seq: int) -> Any:
        """Return a fresh copy of an event's data."""
        return json.loads(self._bodies[seq])

    def stored(self, start: int = 0) -> tuple[StoredEvent, ...]:
        """Return the events from ``start`` on as a store takes them."""
        return tuple(
            StoredEvent(seq, self._types[seq], self._times[seq], self._bodies[seq])
            for seq in range(start, len(self))
        )


def encode_data(data: object) -> str:
    """Return ``data`` as ASCII JSON text.

    Raises:
        ValueError, TypeError, RecursionError: for what JSON cannot hold (NaN, a set, a cycle).
    """
    return json.dumps(data, allow_nan=False, separators=(",", ":"))

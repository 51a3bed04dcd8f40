"""A store without a disk: the same contract, for tests and for hosts that need nothing to outlive them.

Several ``MemoryStore`` over one ``MemoryPlace`` behave as several openings of one database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from schedule_sm.stores.errors import SessionHeldError, SessionUnknownError, StoreClosedError
from schedule_sm.stores.protocol import Append, Outcome, SessionInfo, StoredEvent, StoreStatistics

_NAME = "the memory store"


@dataclass(slots=True)
class _Kept:
    info: SessionInfo
    events: list[StoredEvent] = field(default_factory=list)
    holder: object | None = None


class MemoryPlace:
    """What outlives a ``MemoryStore``: the sessions."""

    def __init__(self) -> None:
        """Start empty."""
        self.sessions: dict[str, _Kept] = {}


class MemoryStore:
    """Keeps sessions in a dictionary; commits at once."""

    def __init__(self, place: MemoryPlace | None = None) -> None:
        """Open ``place``, or a fresh one."""
        self.place = place or MemoryPlace()
        self._is_closed = False
        self._commits = 0
        self._appends = 0

    async def acquire(self, session_id: str, now_ms: int) -> SessionInfo:
        """See ``Store.acquire``."""
        await self._turn()
        kept = self.place.sessions.get(session_id)
        if kept is None:
            fresh = SessionInfo(
                session_id, seed_length=0, parent=None, epoch=0, next_seq=0, wake_at=None, created_at=now_ms
            )
            kept = self.place.sessions[session_id] = _Kept(fresh)
        if kept.holder is not None:
            raise SessionHeldError(_NAME, session_id)
        kept.holder = self
        kept.info = replace(kept.info, epoch=kept.info.epoch + 1)
        return kept.info

    async def read(
        self, session_id: str, after_seq: int = -1, *, types: Collection[str] | None = None
    ) -> Sequence[StoredEvent]:
        """See ``Store.read``."""
        await self._turn()
        kept = self.place.sessions.get(session_id)
        if kept is None:
            raise SessionUnknownError(_NAME, session_id)
        if types is not None and not types:  # the question is only whether it is there
            return []
        events = kept.events[max(after_seq + 1, 0) :]
        return events if types is None else [event for event in events if event.type in types]

    async def append(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        """See ``Store.append``."""
        await self._turn()
        self._commits += 1
        return [self._apply(append) for append in batch]

    def _apply(self, append: Append) -> Outcome:
        kept = self.place.sessions.get(append.session_id)
        if kept is None or kept.info.epoch != append.epoch:
            return Outcome.FENCED
        outcome = self._write(kept, append)
        if append.let_go and kept.holder is self and (outcome is Outcome.COMMITTED or not append.events):
            kept.holder = None
        return outcome

    def _write(self, kept: _Kept, append: Append) -> Outcome:
        stored = tuple(kept.events[append.expected_seq : append.expected_seq + len(append.events)])
        already = append.expected_seq <= len(kept.events) and stored == append.events
        if kept.holder is not self:
            return Outcome.COMMITTED if already else Outcome.FENCED
        if not already or not append.events:
            if append.expected_seq != kept.info.next_seq:
                return Outcome.FENCED
            if append.header is not None and not kept.events:
                kept.info = replace(
                    kept.info, seed_length=append.header.seed_length, parent=append.header.parent
                )
            kept.events.extend(append.events)
            kept.info = replace(kept.info, next_seq=len(kept.events), wake_at=append.wake_at)
            self._appends += 1
        return Outcome.COMMITTED

    async def live(self) -> Sequence[SessionInfo]:
        """See ``Store.live``."""
        await self._turn()
        found = [
            kept.info
            for kept in self.place.sessions.values()
            if kept.holder is not None or kept.info.wake_at is not None
        ]
        return sorted(found, key=lambda info: (info.wake_at is None, info.wake_at or 0, info.id))

    async def close(self) -> None:
        """See ``Store.close``: what this store holds is free again."""
        self._is_closed = True
        for kept in self.place.sessions.values():
            if kept.holder is self:
                kept.holder = None

    def statistics(self) -> StoreStatistics:
        """Return how much was committed so far."""
        return StoreStatistics(self._commits, self._appends)

    async def _turn(self) -> None:
        if self._is_closed:
            raise StoreClosedError(_NAME)
        await asyncio.sleep(0)  # as every other store does, so that tests meet the same interleavings

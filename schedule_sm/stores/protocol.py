"""The contract of every store: sessions are owned, appends are fenced, an unknown outcome is safe to repeat.

Event bodies cross this border as ASCII JSON text that no store parses, so that lone surrogates and NUL survive
everywhere. ``schedule_sm.testing.check_store`` is the suite that each store has to pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable


class StoredEvent(NamedTuple):
    """One event as a store keeps it; a named tuple, because cold starts read tens of thousands of them."""

    seq: int
    """Its position in the log, counting from 0."""
    type: str
    """What kind of event it is; encodable text."""
    time: int
    """When it was appended, as epoch ms."""
    body: str
    """Its data as JSON text, ASCII only (``json.dumps`` as it is by default)."""


class OpenedLog(NamedTuple):
    """A stored log of which some types were read."""

    events: Sequence[StoredEvent]
    """All of it; an event that was not read yet is read when it is touched, and that may block for a moment."""
    known: Mapping[str, tuple[Sequence[int], Sequence[str]]]
    """For each type that was asked for, the seqs and the bodies of its events, in order."""


@dataclass(frozen=True, slots=True)
class NewSession:
    """What is recorded of a session with its first append."""

    seed_length: int = 0
    """How many leading events were inherited by a fork."""
    parent: str | None = None
    """The session it was forked from."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a store knows of a session besides its events."""

    id: str
    seed_length: int
    parent: str | None
    epoch: int
    """Raised by each acquisition; an append with an older one is fenced."""
    next_seq: int
    """How many events are stored."""
    wake_at: int | None
    """The earliest active target (epoch ms), 0 while a message waits for its turn to end, ``None`` for nothing."""
    created_at: int
    """When it was first acquired, as epoch ms."""


@dataclass(frozen=True, slots=True)
class Append:
    """One session's part of a commit: all of it becomes durable, or nothing."""

    session_id: str
    epoch: int
    """As ``acquire`` returned it."""
    expected_seq: int
    """The seq of the first of ``events``: how many events the writer knows to be stored."""
    events: tuple[StoredEvent, ...]
    wake_at: int | None
    """Written with the events, whatever it was before."""
    let_go: bool = False
    """Give up ownership: with no ``events`` at once and whatever the outcome, else once this is committed."""
    header: NewSession | None = None
    """With the first append of a fork; read only while nothing is stored."""


class Outcome(Enum):
    """What became of one append."""

    COMMITTED = "committed"
    """Durable, now or already before."""
    FENCED = "fenced"
    """Refused: another owner has come, or has written; the writer is no longer live."""
    UNKNOWN = "unknown"
    """It may or may not be durable; repeat exactly the same append."""


class Store(Protocol):
    """Six methods; none of them blocks the event loop."""

    async def acquire(self, session_id: str, now_ms: int) -> SessionInfo:
        """Take ownership, creating an empty session if there is none; its epoch rises by one. Do it before loading.

        Raises:
            SessionHeldError: while another owner holds it.
            StoreError: if the place cannot be used.
        """

    async def read(
        self, session_id: str, after_seq: int = -1, *, types: Collection[str] | None = None
    ) -> Sequence[StoredEvent]:
        """Return the stored events behind ``after_seq`` in order, of ``types`` only if given; needs no ownership.

        Raises:
            SessionUnknownError: if there is no such session.
            StoreError: if the place cannot be used.
        """

    async def append(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        """Write several sessions' appends in one commit; one outcome each, in order. It does not raise for a fault.

        One session's refusal fails no other. An append that had been committed already (same session, epoch, seq and
        events) answers COMMITTED again, so that UNKNOWN is safe to repeat.

        Raises:
            StoreClosedError: after ``close``.
        """

    async def live(self) -> Sequence[SessionInfo]:
        """Return the sessions that are held or have a ``wake_at``, earliest first; nothing has to list all of them."""

    async def close(self) -> None:
        """Give everything back, after what is being written; bounded, harmless when called twice."""


@runtime_checkable
class ByTypeStore(Store, Protocol):
    """A store from which a session comes to life without reading all of it; no store has to be one."""

    async def open_log(self, session_id: str, types: Collection[str]) -> OpenedLog:
        """Return the session's log as far as it is stored, with what was read of ``types``.

        Raises:
            SessionUnknownError: if there is no such session.
            StoreError: if the place cannot be used, or an event is missing.
        """


class StoreStatistics(NamedTuple):
    """Counters that a store may offer as ``statistics()``; not part of the contract."""

    commits: int
    """Transactions that wrote something."""
    appends: int
    """Appends in them."""

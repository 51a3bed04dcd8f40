"""Live sessions: an event log in memory, guards and listeners of appends, and the flush that makes it durable.

A reminder's message and its dispatch are one step: if the dispatch cannot be appended, the message is withdrawn before
anybody else runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from schedule_sm.clock import wall_ms
from schedule_sm.core.ecmascript import join_surrogate_pairs
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.embedded.durability import FLUSH_TIMEOUT_S, SessionWriter
from schedule_sm.embedded.encoded_log import EncodedLog, encode_data
from schedule_sm.embedded.errors import HostClosedError
from schedule_sm.embedded.inbox import MESSAGE, OWN_TYPES, USER_SOURCE, WITHDRAWN, Inbox, Message
from schedule_sm.embedded.wake import wake_at
from schedule_sm.host import Dispose, Guard
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.protocol import NewSession, Store
from schedule_sm.transaction import shared_session

AppendListener: TypeAlias = Callable[["EmbeddedSession", dict[str, Any]], object]
"""``listener(session, event)``: called after each append; what it raises is logged."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Header:
    """What a session is known by."""

    seed_length: int = 0
    """How many leading events a fork inherited."""
    parent: str | None = None
    """The session it was forked from."""


class EmbeddedSession:
    """One live session."""

    def __init__(
        self,
        sessions: EmbeddedSessions,
        session_id: str,
        log: EncodedLog,
        *,
        header: NewSession,
        epoch: int,
        durable: int,
        created_at: int | None = None,
    ) -> None:
        """Go on from ``log``, whose first ``durable`` events the store holds; ``epoch`` is our claim to it."""
        self.id = session_id
        self.created_at = created_at
        self.header = Header(header.seed_length, header.parent)
        self.events = log
        self.inbox = Inbox(log, header.seed_length)
        self._sessions = sessions
        self._undispatched: tuple[str, object] | None = None
        self._shared = shared_session(self)  # held here, so that all parts of the process fold this log once
        self.writer = SessionWriter(
            sessions.store,
            session_id,
            log,
            epoch=epoch,
            durable=durable,
            header=header,
            wake_at=lambda: wake_at(self._shared.projection, self.inbox, log),
            flush_timeout_s=sessions.flush_timeout_s,
        )

    @property
    def is_live(self) -> bool:
        """Whether this process still owns the session."""
        return not self.writer.is_over

    # -- appending ------------------------------------------------------------------------------------------

    def append(self, type: str, data: Any, /) -> int:  # noqa: A002 - the event's own fields
        """Append one event at once and return its seq; raising means that nothing was appended.

        Raises:
            HostClosedError: if the session is no longer live.
            ValueError, TypeError: if ``data`` is not JSON, or ``type`` is one of the host's own.
            Exception: whatever a guard raises to refuse the event.
        """
        if type in OWN_TYPES:
            msg = f"only the host itself appends {type!r}; queue what a user says with send()"
            raise ValueError(msg)
        if self._undispatched is None or not _is_dispatch(type, data, self._undispatched[1]):
            return self._append_guarded(type, data)
        failpoint("dispatch.before")
        try:
            seq = self._append_guarded(type, data)
        except BaseException:
            self.withdraw_undispatched()
            raise
        self._undispatched = None
        failpoint("dispatch.after")
        return seq

    def record(self, type: str, data: dict[str, Any]) -> int:  # noqa: A002 - the event's own field name
        """Append an event of the host's own: no guard can refuse what has already happened."""
        return self._add(type, data, encode_data(data))

    def _append_guarded(self, type: str, data: Any) -> int:  # noqa: A002 - the event's own fields
        if not type:
            msg = "an event's type must be non-empty text"
            raise ValueError(msg)
        type.encode()  # a store binds it as text
        body = encode_data(data)
        self._sessions.check(self, type, data)
        return self._add(type, data, body)

    def _add(self, type: str, data: Any, body: str) -> int:  # noqa: A002 - the event's own fields
        if not self.is_live:
            what = f"session {self.id!r}"
            raise HostClosedError(what)
        failpoint("append.before")
        seq = self.events.add(type, wall_ms(), body)
        self.inbox.note(seq, type, data)
        self._sessions.tell(self, seq)
        failpoint("append.after")
        return seq

    # -- the inbox ------------------------------------------------------------------------------------------

    def queue_reminder(self, text: str, source: Mapping[str, Any], metadata: Mapping[str, Any]) -> Message:
        """Append the message of a reminder; it stays withdrawable until its dispatch is appended."""
        schedule_id = metadata.get("schedule_id")
        if not isinstance(schedule_id, str):
            return self._queue(f"{self.id}/message-{len(self.events)}", text, source, metadata)
        message = self._queue(f"{self.id}/{schedule_id}", text, source, metadata)
        self._undispatched = (message.id, schedule_id)
        return message

    def queue_user_message(self, text: str) -> Message:
        """Append what a user said."""
        # as it will be read back: what a turn is offered again has the same text
        text = join_surrogate_pairs(text)
        return self._queue(f"{self.id}/message-{len(self.events)}", text, USER_SOURCE, {})

    def withdraw_undispatched(self) -> None:
        """Take back a reminder's message whose dispatch did not follow; does nothing if there is none."""
        if self._undispatched is not None:
            message_id, _ = self._undispatched
            self._undispatched = None
            if self.is_live:
                self.record(WITHDRAWN, {"id": message_id})

    def _queue(
        self, message_id: str, text: str, source: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Message:
        if not isinstance(text, str):
            msg = f"the text of a message must be text, not {type(text).__name__}"
            raise TypeError(msg)
        data = {"id": message_id, "text": text, "source": dict(source), "metadata": dict(metadata)}
        seq = self._append_guarded(MESSAGE, data)
        return Message(message_id, text, source, metadata, seq)


class EmbeddedSessions:
    """The service ``ctx.sessions``."""

    def __init__(self, store: Store, *, flush_timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Keep sessions in ``store``; a flush takes ``flush_timeout_s`` at most."""
        self.store = store
        self.flush_timeout_s = flush_timeout_s
        self._live: dict[str, EmbeddedSession] = {}
        self._guards: dict[object, Guard] = {}
        self._listeners: dict[object, AppendListener] = {}

    def list(self) -> Sequence[EmbeddedSession]:
        """Return the live sessions."""
        return tuple(self._live.values())

    async def flush(self, session: object, /) -> bool:
        """Return ``True`` only when every event in the log at the call is durable; bounded."""
        return isinstance(session, EmbeddedSession) and await session.writer.flush()

    def guard_append(self, check: Guard, /) -> Dispose:
        """Call ``check(session, type, data)`` before each append; raising refuses the event."""
        key = object()
        self._guards[key] = check
        return lambda: _drop(self._guards, key)

    def on_append(self, listener: AppendListener) -> Dispose:
        """Call ``listener(session, event)`` after each append; what it raises is logged, not raised."""
        key = object()
        self._listeners[key] = listener
        return lambda: _drop(self._listeners, key)

    # -- for the host ---------------------------------------------------------------------------------------

    def add(self, session: EmbeddedSession) -> None:
        """Make ``session`` one of the live ones."""
        self._live[session.id] = session

    def remove(self, session: EmbeddedSession) -> None:
        """Forget ``session``."""
        if self._live.get(session.id) is session:
            del self._live[session.id]

    def check(self, session: EmbeddedSession, type: str, data: Any) -> None:  # noqa: A002 - an event's fields
        """Ask every guard."""
        for guard in tuple(self._guards.values()):
            guard(session, type, data)

    def tell(self, session: EmbeddedSession, seq: int) -> None:
        """Tell every listener of the event at ``seq``."""
        for listener in tuple(self._listeners.values()):
            try:
                listener(session, session.events[seq])
            except Exception:  # the event is in the log, whatever a listener makes of it
                _logger.exception("a listener of appends raised (session %r, event %d)", session.id, seq)


def _drop(registered: dict[object, Any], key: object) -> None:
    registered.pop(key, None)


def _is_dispatch(type: str, data: object, schedule_id: object) -> bool:  # noqa: A002 - the event's own field name
    return (
        type == SCHEDULE_CHANGE
        and isinstance(data, Mapping)
        and data.get("operation") == "dispatch"
        and data.get("id") == schedule_id
    )

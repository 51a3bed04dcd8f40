"""Sessions: appends are guarded, listeners harmless, a message without its dispatch is withdrawn at once."""

from __future__ import annotations

from typing import Any

import pytest

from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.errors import HostClosedError
from schedule_sm.embedded.inbox import OWN_TYPES, Inbox
from schedule_sm.embedded.sessions import EmbeddedSession, EmbeddedSessions
from schedule_sm.embedded.wake import replay_wake_at
from schedule_sm.stores.protocol import NewSession, Outcome
from tests.embedded.scripted import ScriptedStore, types_of

CREATE = {
    "version": 1,
    "operation": "create",
    "schedule": {
        "id": "schedule-1",
        "kind": "after",
        "prompt": "tea",
        "afterSeconds": 1,
        "scheduledAt": "1970-01-01T00:00:01.000Z",
    },
}
DISPATCH = {"version": 1, "operation": "dispatch", "id": "schedule-1"}
PLUGIN = {"kind": "plugin", "plugin": "schedule-sm"}


async def open_session(store: ScriptedStore | None = None) -> tuple[EmbeddedSessions, EmbeddedSession]:
    store = store or ScriptedStore()
    sessions = EmbeddedSessions(store)
    info = await store.acquire("s", 0)
    session = EmbeddedSession(sessions, "s", EncodedLog(), header=NewSession(), epoch=info.epoch, durable=0)
    sessions.add(session)
    return sessions, session


def refuse(*_: Any) -> None:
    raise PermissionError("refused")


@pytest.mark.asyncio
async def test_append_is_at_once_and_in_order() -> None:
    sessions, session = await open_session()
    assert session.append("note", {"n": 1}) == 0
    assert session.append("note", None) == 1
    assert [event["seq"] for event in session.events] == [0, 1]
    assert sessions.list() == (session,)
    assert await sessions.flush(session) is True
    assert await sessions.flush(object()) is False


@pytest.mark.parametrize(
    ("type_", "data"), [("note", float("inf")), ("note", {1j}), ("", None), ("\ud800", None)]
)
@pytest.mark.asyncio
async def test_what_cannot_be_stored_is_refused_and_nothing_is_appended(type_: str, data: object) -> None:
    _, session = await open_session()
    with pytest.raises((ValueError, TypeError)):
        session.append(type_, data)
    assert len(session.events) == 0


@pytest.mark.asyncio
async def test_a_guard_refuses_and_a_listener_only_hears(caplog: pytest.LogCaptureFixture) -> None:
    sessions, session = await open_session()
    heard: list[Any] = []
    undo_listener = sessions.on_append(lambda _session, event: heard.append(event))
    sessions.on_append(refuse)
    undo = sessions.guard_append(refuse)
    with pytest.raises(PermissionError):
        session.append("note", 1)
    assert (len(session.events), heard) == (0, [])
    undo()
    undo()
    session.append("note", 2)
    assert heard == [session.events[0]]
    assert "a listener of appends raised" in caplog.text
    undo_listener()
    session.append("note", 3)
    assert len(heard) == 1


@pytest.mark.parametrize("type_", sorted(OWN_TYPES))
@pytest.mark.asyncio
async def test_the_hosts_own_events_are_refused_from_anybody_else(type_: str) -> None:
    _, session = await open_session()
    with pytest.raises(ValueError, match="only the host itself"):
        session.append(type_, {"unlike": "any of them"})
    assert len(session.events) == 0


@pytest.mark.asyncio
async def test_message_and_dispatch_stay_together() -> None:
    _, session = await open_session()
    session.append("schedule/change", CREATE)
    message = session.queue_reminder("text", PLUGIN, {"schedule_id": "schedule-1"})
    assert message.id == "s/schedule-1"
    session.append("schedule/change", DISPATCH)
    session.withdraw_undispatched()
    assert types_of(session) == ["create", "inbox/message", "dispatch"]
    assert "s/schedule-1" in session.inbox


@pytest.mark.asyncio
async def test_dispatch_that_cannot_be_appended_withdraws_its_message() -> None:
    sessions, session = await open_session()
    session.append("schedule/change", CREATE)
    session.queue_reminder("text", PLUGIN, {"schedule_id": "schedule-1"})
    session.append("note", "another event in between is nobody's dispatch")
    undo = sessions.guard_append(refuse)
    with pytest.raises(PermissionError):
        session.append("schedule/change", DISPATCH)
    undo()
    assert types_of(session) == ["create", "inbox/message", "note", "inbox/withdrawn"]
    assert len(session.inbox) == 0
    assert replay_wake_at(session.events, 0) == 1_000
    session.queue_reminder("text", PLUGIN, {"schedule_id": "schedule-1"})
    session.append("schedule/change", DISPATCH)
    assert len(session.inbox) == 1


@pytest.mark.asyncio
async def test_refused_message_is_not_queued() -> None:
    sessions, session = await open_session()
    sessions.guard_append(refuse)
    with pytest.raises(PermissionError):
        session.queue_reminder("text", PLUGIN, {"schedule_id": "schedule-1"})
    session.withdraw_undispatched()
    assert (len(session.events), len(session.inbox)) == (0, 0)


@pytest.mark.parametrize("text", [5, None, b"text"])
@pytest.mark.asyncio
async def test_message_whose_text_is_none_is_refused_before_it_is_in_the_log(text: Any) -> None:
    _, session = await open_session()
    with pytest.raises(TypeError, match="must be text"):
        session.queue_reminder(text, PLUGIN, {"schedule_id": "schedule-1"})
    with pytest.raises(TypeError, match="must be text"):
        session.queue_reminder(text, PLUGIN, {})
    assert len(session.events) == len(session.inbox) == 0
    assert session.append("note", {}) == 0


@pytest.mark.asyncio
async def test_ids_of_messages_come_from_the_log() -> None:
    _, session = await open_session()
    session.append("note", None)
    assert session.queue_user_message("hi").id == "s/message-1"
    assert session.queue_reminder("other plugin's", {"kind": "plugin", "plugin": "x"}, {}).id == "s/message-2"
    again = Inbox(session.events, 0)
    assert "s/message-1" in again
    assert len(Inbox(session.events, 3)) == 0


@pytest.mark.asyncio
async def test_fenced_session_takes_no_more_events() -> None:
    sessions, session = await open_session(ScriptedStore(Outcome.FENCED))
    session.append("note", None)
    assert await sessions.flush(session) is False
    with pytest.raises(HostClosedError, match="open it again"):
        session.append("note", None)
    sessions.remove(session)
    sessions.remove(session)
    assert sessions.list() == ()

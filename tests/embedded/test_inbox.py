"""The inbox is a fold: what is in it and whose turn comes next follow from the log alone."""

from __future__ import annotations

import json
from typing import Any

from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.inbox import MESSAGE, TURN_ENDED, TURN_STARTED, WITHDRAWN, Inbox
from schedule_sm.embedded.wake import replay_wake_at

USER, PLUGIN = {"kind": "user"}, {"kind": "plugin", "plugin": "schedule-sm"}


def log_of(*events: tuple[str, dict[str, Any]]) -> EncodedLog:
    log = EncodedLog()
    for type_, data in events:
        log.add(type_, 0, json.dumps(data))
    return log


def message(message_id: str, source: dict[str, str] = USER) -> tuple[str, dict[str, Any]]:
    return (
        MESSAGE,
        {"id": message_id, "text": f"text of {message_id}", "source": source, "metadata": {"late_ms": 1}},
    )


def ended(message_id: str, message_seq: int) -> tuple[str, dict[str, Any]]:
    data = {
        "message": message_id,
        "message_seq": message_seq,
        "attempt": 1,
        "format": "f",
        "items": [],
        "reply": "",
    }
    return TURN_ENDED, {**data, "error": None}


def next_id(log: EncodedLog, durable: int | None = None, seed_length: int = 0) -> str | None:
    found = Inbox(log, seed_length).next_message(len(log) if durable is None else durable)
    return None if found is None else found.id


def test_messages_leave_with_their_turns_end_or_when_withdrawn() -> None:
    log = log_of(message("a"), message("b", PLUGIN), message("c"), (WITHDRAWN, {"id": "b"}))
    assert len(Inbox(log, 0)) == 2
    assert next_id(log_of(message("a"), message("c"), ended("a", 0))) == "c"
    assert next_id(log_of(message("a"), message("c"), ended("a", 0), ended("c", 1))) is None


def test_what_was_cut_off_comes_first_with_its_text_unchanged_and_its_attempt_counted() -> None:
    log = log_of(message("a"), message("b", PLUGIN), (TURN_STARTED, {"message": "b", "attempt": 1}))
    assert next_id(log) == "b"
    found = Inbox(log, 0).next_message(len(log))
    assert found is not None
    offered = found.offered()
    assert (offered.text, offered.attempts) == ("text of b", 2)
    assert offered.metadata == {"late_ms": 1, "attempt": 2}
    assert "attempt" not in found.metadata


def test_a_long_inbox_is_not_looked_through_for_each_message() -> None:
    looked_at = 0

    class Source(dict[str, str]):
        def get(self, key: str, default: Any = None, /) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().get(key, default)

    inbox = Inbox(EncodedLog(), 0)
    for seq in range(1_000):
        _, data = message(f"m{seq}")
        inbox.note(seq, MESSAGE, {**data, "source": Source(USER)})
    for seq in range(1_000):
        found = inbox.next_message(1_000)
        assert found is not None
        assert found.id == f"m{seq}"
        inbox.note(1_000, TURN_STARTED, {"message": found.id, "attempt": 1})
        inbox.note(1_001, *ended(found.id, seq))
    assert looked_at <= 2_000


def test_a_reminder_waits_until_it_is_durable_and_lets_users_pass() -> None:
    log = log_of(message("reminder", PLUGIN), ("schedule/change", {}), message("user"))
    assert next_id(log, durable=0) == "user"
    assert next_id(log, durable=2) == "reminder"


def test_a_fork_does_not_inherit_the_inbox() -> None:
    log = log_of(message("a"), message("b", PLUGIN), ("session/end-seed", {}), message("c"))
    assert next_id(log, seed_length=3) == "c"
    assert len(Inbox(log, 3)) == 1


def test_ends_of_unknown_messages_change_nothing() -> None:
    log = log_of(
        (TURN_STARTED, {"message": "x", "attempt": 1}),
        (WITHDRAWN, {"id": "x"}),
    )
    assert next_id(log) is None


def test_wake_at_of_a_log_that_cannot_be_folded_counts_what_could_be() -> None:
    schedule = {
        "id": "schedule-1",
        "kind": "after",
        "prompt": "tea",
        "afterSeconds": 1,
        "scheduledAt": "1970-01-01T00:00:05.000Z",
    }
    create = ("schedule/change", {"version": 1, "operation": "create", "schedule": schedule})
    assert replay_wake_at(log_of(create), 0) == 5_000
    assert replay_wake_at(log_of(create, create), 0) == 5_000
    assert replay_wake_at(log_of(create, create, message("a")), 0) == 0
    assert replay_wake_at(log_of(), 0) is None

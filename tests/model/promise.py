"""The model: what was confirmed, in plain Python, and what every log then has to hold."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from schedule_sm.cli.session_check import check_session
from schedule_sm.core.instants import parse_instant
from schedule_sm.embedded.inbox import MESSAGE, TURN_ENDED, TURN_STARTED, WITHDRAWN
from schedule_sm.stores.protocol import SessionInfo, StoredEvent


@dataclass
class Durable:
    """One session's durable log, read without the project's folds."""

    created: dict[str, dict[str, Any]] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    """Message events by reminder, without those that were withdrawn."""
    unfinished: set[str] = field(default_factory=set)
    """Messages whose turn has not ended."""
    attempts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, info: SessionInfo, events: Iterable[StoredEvent]) -> Durable:
        """Read a log and check what holds in every log."""
        events = list(events)
        found = [finding.sentence() for finding in check_session(info, events)]
        assert not found, found
        self = cls()
        for event in events[info.seed_length :]:
            self._note(event.type, json.loads(event.body), event.time)
        delivered = {i for i, how in self.ended.items() if how == "dispatch"}
        assert self.messages == dict.fromkeys(delivered, 1), (self.messages, delivered)
        return self

    def _note(self, kind: str, data: dict[str, Any], time_ms: int) -> None:
        if kind == MESSAGE:
            self.unfinished.add(data["id"])
            self._note_reminder(data["metadata"].get("schedule_id"), 1)
            if "schedule_id" in data["metadata"]:
                record = self.created[data["metadata"]["schedule_id"]]
                assert time_ms >= parse_instant(record["scheduledAt"]), f"{record['id']} came early"
        elif kind == WITHDRAWN:
            self.unfinished.discard(data["id"])
            self._note_reminder(data["id"].partition("/")[2], -1)
        elif kind == TURN_STARTED:
            assert data["message"] in self.unfinished
            before = self.attempts.get(data["message"], 0)
            assert data["attempt"] == before + 1
            self.attempts[data["message"]] = before + 1
            pending = {m for m, n in self.attempts.items() if n and m in self.unfinished}
            assert pending == {data["message"]}, f"{pending}: a cut-off turn was not offered first"
        elif kind == TURN_ENDED:
            self.unfinished.remove(data["message"])
        elif data.get("operation") == "create":
            self.created[data["schedule"]["id"]] = data["schedule"]
        elif kind == "schedule/change":
            self.ended[data["id"]] = data["operation"]

    def _note_reminder(self, schedule_id: str | None, change: int) -> None:
        if schedule_id is not None:
            self.messages[schedule_id] = self.messages.get(schedule_id, 0) + change
            if not self.messages[schedule_id]:
                del self.messages[schedule_id]


@dataclass
class Promise:
    """What one session's tools have said."""

    created: dict[str, dict[str, Any]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def note(self, name: str, value: Any, before: Durable, confirmed_before: set[str], now: Durable) -> None:
        """Take in an answer; ``before`` was durable when the call was made, ``now`` is when it was answered."""
        if name == "list" and isinstance(value, list):
            listed = [view["id"] for view in value]
            assert now.created.keys() >= set(listed), "a list showed what is not durable"
            assert not before.ended.keys() & set(listed), "a list showed what had ended"
            missing = confirmed_before - set(listed) - now.ended.keys()
            assert not missing, f"a list lacks {missing}"
            assert listed == [i for i in now.created if i in listed], "not in create order"
        elif name == "create" and "scheduledAt" in value:
            assert value["id"] not in self.created, "an id was used twice"
            self.created[value["id"]] = value
        elif name == "delete" and value.get("deleted"):
            self.deleted.add(value["id"])
        elif name == "delete" and value.get("code") == "schedule_not_found":
            gone = value["id"] not in confirmed_before or value["id"] in now.ended
            assert gone, f"{value['id']} was not found, and it is there"
        elif isinstance(value, dict):
            known = {"persistence_uncertain", "internal_error"}
            assert value["code"] in known, value

    def check(self, log: Durable) -> None:
        """Hold the durable log against what was said."""
        for schedule_id, view in self.created.items():
            record = log.created.get(schedule_id)
            assert record is not None, f"the confirmed {schedule_id} is lost"
            assert (record["prompt"], record["scheduledAt"]) == (view["prompt"], view["scheduledAt"])
        for schedule_id in self.deleted:
            assert log.ended.get(schedule_id) == "delete", f"the deleted {schedule_id} came back"

    def check_end(self, log: Durable, now_ms: int) -> None:
        """After every fault has ended and everything is due: it was delivered, and had its turn."""
        self.check(log)
        for schedule_id, record in log.created.items():
            if parse_instant(record["scheduledAt"]) <= now_ms:
                assert schedule_id in log.ended, f"{schedule_id} never came"
        assert not log.unfinished, f"{log.unfinished} never had their turn"

"""Holds a store that was left behind against what its hosts had confirmed before they were killed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from schedule_sm.cli.options import Reader, open_reader
from schedule_sm.cli.session_check import check_session
from schedule_sm.core.framing import render_reminder_framing
from schedule_sm.core.instants import parse_instant
from schedule_sm.embedded.inbox import MESSAGE, TURN_ENDED, TURN_STARTED, WITHDRAWN
from schedule_sm.stores.protocol import SessionInfo


class Story:
    """One session's log, read without the project's own folds."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events = events
        self.created: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, list[str]] = {}
        """Deletes and dispatches by reminder."""
        self.messages: dict[str, list[dict[str, Any]]] = {}
        """Message events by reminder."""
        self.starts: dict[str, list[int]] = {}
        """Attempts by message."""
        self.finished: Counter[str] = Counter()
        self.texts: dict[str, str] = {}
        for event in events:
            self._note(event["type"], event["data"], event["time"])

    def _note(self, kind: str, data: dict[str, Any], time_ms: int) -> None:
        if kind == "schedule/change" and data["operation"] == "create":
            self.created[data["schedule"]["id"]] = data["schedule"]
        elif kind == "schedule/change":
            self.ended.setdefault(data["id"], []).append(data["operation"])
        elif kind == MESSAGE:
            self.texts[data["id"]] = data["text"]
            if "schedule_id" in data["metadata"]:
                self.messages.setdefault(data["metadata"]["schedule_id"], []).append(
                    {**data, "time": time_ms}
                )
        elif kind == TURN_STARTED:
            assert data["message"] not in self.finished, (
                f"{data['message']} was offered after its turn had ended"
            )
            self.starts.setdefault(data["message"], []).append(data["attempt"])
        elif kind == TURN_ENDED:
            self.finished[data["message"]] += 1
        assert kind != WITHDRAWN, "no append failed, so nothing has to be withdrawn"

    def check(self) -> None:
        """What holds in every log, whatever was confirmed."""
        for schedule_id, ends in self.ended.items():
            assert len(ends) == 1, f"{schedule_id} ended twice: {ends}"
        assert {i: len(found) for i, found in self.messages.items()} == {
            i: 1 for i, ends in self.ended.items() if ends == ["dispatch"]
        }, "each dispatch has exactly one message, and each message its dispatch"
        for schedule_id, (message,) in self.messages.items():
            record = self.created[schedule_id]
            assert message["time"] >= parse_instant(record["scheduledAt"]), f"{schedule_id} came early"
            assert message["text"] == render_reminder_framing(
                schedule_id, record["scheduledAt"], record["prompt"]
            )
        for message_id, attempts in self.starts.items():
            assert attempts == list(range(1, len(attempts) + 1)), f"attempts of {message_id}: {attempts}"
        assert all(count == 1 for count in self.finished.values())


def read(path: Path) -> dict[str, Story]:
    """Read every session of the store, after ``verify``."""
    with open_reader(path) as reader:
        assert reader.damage() == []
        for info in reader.sessions():
            found = [finding.sentence() for finding in check_session(info, reader.events(info.id))]
            assert not found, found
    return read_logs(path)


def read_logs(path: Path) -> dict[str, Story]:
    """Read every session of the store as it stands."""
    if not _is_begun(path):
        return {}
    with open_reader(path) as reader:
        return {info.id: _read_session(reader, info) for info in reader.sessions()}


def _is_begun(path: Path) -> bool:
    """Whether there is a store: a host may have been killed before its first file."""
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def _read_session(reader: Reader, info: SessionInfo) -> Story:
    return Story(
        [
            {"type": event.type, "time": event.time, "data": json.loads(event.body)}
            for event in reader.events(info.id)
        ]
    )


def facts(witness: Path) -> list[dict[str, Any]]:
    """Read what was written down; the last line may be half."""
    if not witness.exists():
        return []
    return [json.loads(line) for line in witness.read_bytes().split(b"\n")[:-1]]


def judge(path: Path, witness: Path) -> dict[str, Story]:
    """Check the store against the witness; raises AssertionError with what is wrong."""
    stories = read(path) if _is_begun(path) else {}
    for story in stories.values():
        story.check()
    for fact in facts(witness):
        if fact["what"] in _CHECKS:
            story = stories.get(fact["session"]) or Story([])
            _CHECKS[fact["what"]](story, fact)
    return stories


def _created(story: Story, fact: dict[str, Any]) -> None:
    record = story.created.get(fact["id"])
    assert record is not None, f"the confirmed {fact['id']} is lost"
    assert (record["prompt"], record["scheduledAt"]) == (fact["prompt"], fact["at"])


def _deleted(story: Story, fact: dict[str, Any]) -> None:
    assert story.ended.get(fact["id"]) == ["delete"], f"the confirmed delete of {fact['id']} is lost"
    assert fact["id"] not in story.messages


def _listed(story: Story, fact: dict[str, Any]) -> None:
    assert story.created.keys() >= set(fact["ids"]), "a list showed what is not in the log"


def _offered(story: Story, fact: dict[str, Any]) -> None:
    """A turn ran only when its message, its dispatch and its start were durable, and with the text of the log."""
    message_id = fact["message"]
    assert story.texts.get(message_id) == fact["text"], (
        f"the turn of {message_id} ran and its message is not there"
    )
    assert message_id in story.starts, f"the turn of {message_id} ran and its start is not there"


def _replied(story: Story, fact: dict[str, Any]) -> None:
    (message_id,) = [key for key, text in story.texts.items() if text == fact["text"]]
    assert story.finished[message_id] == 1, f"{fact['text']} was answered and its turn's end is lost"


def _opened(story: Story, fact: dict[str, Any]) -> None:
    """What was cut off is offered first in the next life."""
    later = story.events[fact["events"] :]
    first = next((event["data"]["message"] for event in later if event["type"] == TURN_STARTED), None)
    if fact["cut_off"] is not None and first is not None:
        assert first == fact["cut_off"], f"{fact['cut_off']} was cut off, and {first} was offered first"


_CHECKS = {
    "created": _created,
    "deleted": _deleted,
    "listed": _listed,
    "offered": _offered,
    "replied": _replied,
    "opened": _opened,
}


def judge_finished(path: Path, witness: Path, until_ms: int) -> None:
    """After a life that was not killed: everything due by ``until_ms`` was delivered and had its turn."""
    for session_id, story in judge(path, witness).items():
        for schedule_id, record in story.created.items():
            if parse_instant(record["scheduledAt"]) <= until_ms:
                assert schedule_id in story.ended, f"{schedule_id} of {session_id} never came"
        unfinished = story.texts.keys() - story.finished.keys()
        assert not unfinished, f"the turns of {unfinished} never ended"

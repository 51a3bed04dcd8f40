"""The inbox: a fold of the host's own events over the session's log. No message lives anywhere else.

A message is in the inbox from its ``inbox/message`` event to the end of its turn, or until it is withdrawn. The fold
starts at the session's seed length, so a fork does not deliver its parent's messages. Message ids and attempt numbers
come from the log, never from a process's memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Final

from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.embedded.encoded_log import EncodedLog

MESSAGE: Final = "inbox/message"
"""``{id, text, source, metadata}``: a user-role message waits for its turn."""
WITHDRAWN: Final = "inbox/withdrawn"
"""``{id}``: the reminder's dispatch could not be recorded; the message is as good as never queued."""
TURN_STARTED: Final = "turn/started"
"""``{message, attempt}``: the message is offered to the runner, for the attempt-th time."""
TURN_ENDED: Final = "turn/ended"
"""``{message, message_seq, attempt, format, items, reply, error}``: the message leaves the inbox.

``error`` is ``null`` or short.
"""

_FIELDS: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    MESSAGE: {"id": (str,), "text": (str,), "source": (dict,), "metadata": (dict,)},
    WITHDRAWN: {"id": (str,)},
    TURN_STARTED: {"message": (str,), "attempt": (int,)},
    TURN_ENDED: {
        "message": (str,),
        "message_seq": (int,),
        "attempt": (int,),
        "format": (str,),
        "items": (list,),
        "reply": (str,),
        "error": (str, NoneType),
    },
}
"""The fields of the host's own events by type, and what each may be."""
OWN_TYPES: Final = frozenset(_FIELDS)
_MISSING: Final = object()

USER_SOURCE: Final = {"kind": "user"}


@dataclass(frozen=True, slots=True)
class Message:
    """One user-role message."""

    id: str
    """``<session>/<schedule id>`` for a reminder, ``<session>/message-<seq>`` for what a user said."""
    text: str
    source: Mapping[str, Any]
    metadata: Mapping[str, Any]
    seq: int
    """Where it stands in the log."""
    attempts: int = 0
    """How often a turn was started for it."""

    @property
    def is_reminder(self) -> bool:
        """Whether the plugin queued it."""
        return self.source.get("kind") == "plugin"

    def offered(self) -> Message:
        """Return it as it is offered now: text unchanged, the attempt's number in the metadata only."""
        attempt = self.attempts + 1
        return replace(self, attempts=attempt, metadata={**self.metadata, "attempt": attempt})


class OwnEvents:
    """Judges the host's own events of one log, in their order: each as it comes, and each turn by its message."""

    def __init__(self) -> None:
        """Begin before the first event."""
        self._message_at: dict[int, str] = {}

    def fault(self, seq: int, kind: str, data: Any) -> str | None:
        """Return what is wrong with the event of type ``kind`` at ``seq``, or ``None``; O(1)."""
        if not has_own_fields(kind, data):
            return f"{kind} lacks what the host writes there"
        if kind == MESSAGE:
            self._message_at[seq] = data["id"]
        if kind == TURN_ENDED and self._message_at.get(data["message_seq"]) != data["message"]:
            return f"event {data['message_seq']} is not the message {data['message']!r} of the turn"
        return None


def has_own_fields(kind: str, data: object) -> bool:
    """Whether ``data`` has what the host writes in its own events of type ``kind``; O(1)."""
    fields = _FIELDS[kind].items()
    return isinstance(data, dict) and all(type(data.get(name, _MISSING)) in kinds for name, kinds in fields)


class Inbox:
    """The messages of one session whose turn has not ended, in order."""

    def __init__(self, log: EncodedLog, seed_length: int) -> None:
        """Fold ``log`` from ``seed_length`` on; ``note`` keeps it in step.

        Raises:
            ScheduleLogError: at an event that this host did not write, also in what a fork inherited as its history.
        """
        # asked for its first, a plain dict looks at everything that has left its front
        self._messages: OrderedDict[str, Message] = OrderedDict()
        of_type = {type_: log.seqs_of(type_, 0, len(log)) for type_ in OWN_TYPES}
        in_order = sorted((seq, type_) for type_, seqs in of_type.items() for seq in seqs)
        judge = OwnEvents()
        decoded = log.data_of([seq for seq, _ in in_order])
        for (seq, type_), data in zip(in_order, decoded, strict=True):
            fault = judge.fault(seq, type_, data)
            if fault is not None:
                raise ScheduleLogError(fault, seq=seq)
            if seq >= seed_length:
                self.note(seq, type_, data)

    def note(self, seq: int, type: str, data: Any) -> None:  # noqa: A002 - the event's own fields
        """Take in the event at ``seq``; events of other types change nothing."""
        if type == MESSAGE:
            self._messages[data["id"]] = Message(
                data["id"], data["text"], data["source"], data["metadata"], seq
            )
        elif type in (WITHDRAWN, TURN_ENDED):
            self._messages.pop(data["id"] if type == WITHDRAWN else data["message"], None)
        elif type == TURN_STARTED:
            message = self._messages.get(data["message"])
            if message is not None:
                self._messages[message.id] = replace(message, attempts=data["attempt"])
                # one turn at a time is cut off: it comes first
                self._messages.move_to_end(message.id, last=False)

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._messages

    def next_message(self, durable: int) -> Message | None:
        """Return the message whose turn comes next: one whose turn was cut off first, then the oldest.

        ``durable`` counts the log's durable events. A reminder that is not among them lets others pass: its turn must
        not run before its dispatch, which is in the same commit, is certain. A user's message never waits for the disk.
        """

        def is_ready(message: Message) -> bool:
            return not message.is_reminder or message.seq < durable

        return next(filter(is_ready, self._messages.values()), None)

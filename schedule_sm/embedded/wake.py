"""When a session next has something to do: written with every commit, and the same from a replay of its log."""

from __future__ import annotations

from typing import Final

from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.event_log import EventLog
from schedule_sm.core.projection import Projection
from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.inbox import Inbox

NOW: Final = 0
"""The past: a message waits for its turn to end."""


def wake_at(projection: Projection, inbox: Inbox, events: EventLog) -> int | None:
    """Return 0 while the inbox holds a message, else the earliest active target (epoch ms), else ``None``.

    Of a log that cannot be folded to its end, what could be folded counts.
    """
    try:
        projection.sync(events)
    except ScheduleLogError:
        pass  # reported by whoever has to act on it; a commit of other events goes on
    if len(inbox):
        return NOW
    earliest = projection.earliest()
    return None if earliest is None else earliest.target_ms


def replay_wake_at(log: EncodedLog, seed_length: int) -> int | None:
    """Return the same from the log alone; O(events)."""
    return wake_at(Projection(seed_length), Inbox(log, seed_length), log)

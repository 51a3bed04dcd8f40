"""A session's changes replayed one by one under the fold policy: what ``inspect`` and ``verify`` stand on."""

from __future__ import annotations

import json
from typing import Any

from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.event_log import Change, read_change
from schedule_sm.core.projection import Projection
from schedule_sm.core.records import SCHEDULE_CHANGE


class Replay:
    """The fold of one session so far; whoever calls leaves the inherited events out."""

    def __init__(self) -> None:
        """Start with no reminders."""
        self.projection = Projection()
        self._log: list[dict[str, Any]] = []

    def take(self, seq: int, data: object) -> Change:
        """Fold the change in ``data``, the event at ``seq``, and return it; amortised O(log n).

        Raises:
            ScheduleLogError: located at ``seq``; nothing of the change is kept.
        """
        try:
            change = read_change(data)
            self.projection.check(change)
        except ScheduleLogError as error:
            raise error.located(seq=seq) from error
        self._log.append({"type": SCHEDULE_CHANGE, "data": data})
        self.projection.sync(self._log)
        return change


def read_body(seq: int, body: str) -> Any:
    """Return an event's data.

    Raises:
        ScheduleLogError: located at ``seq``, if it is no JSON.
    """
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        msg = "its data is no JSON"
        raise ScheduleLogError(msg, seq=seq) from error


def _refuse_constant(name: str) -> None:
    msg = f"{name} is no JSON"
    raise ValueError(msg)

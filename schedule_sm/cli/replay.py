"""A session's changes replayed one by one under the fold policy: what ``inspect`` and ``verify`` stand on."""

from __future__ import annotations

import json
from typing import Any, Final

from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.core.projection import Projection


class Replay:
    """The fold of one session so far; whoever calls leaves the inherited events out."""

    def __init__(self) -> None:
        """Start with no reminders."""
        self.projection = Projection()
        self._log: list[dict[str, Any]] = []

    def take(self, seq: int, data: object) -> None:
        """Fold the change in ``data``, the event at ``seq``; amortised O(log n).

        Raises:
            ScheduleLogError: located at ``seq``; nothing of the change is kept.
        """
        self._log.append({"type": SCHEDULE_CHANGE, "data": data})
        try:
            self.projection.sync(self._log)
        except ScheduleLogError as error:
            self._log.pop()
            raise type(error)(error.reason, seq=seq) from error  # the log here holds changes only


def read_body(seq: int, body: str) -> Any:
    """Return an event's data.

    Raises:
        ScheduleLogError: located at ``seq``, if it is no JSON.
    """
    try:
        return _DECODER.decode(body)
    except (ValueError, RecursionError) as error:
        msg = "its data is no JSON"
        raise ScheduleLogError(msg, seq=seq) from error


def _refuse_constant(name: str) -> None:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)

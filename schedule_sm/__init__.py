"""Durable one-shot reminders for live asyncio agents: the pinned public names, and nothing else.

Importing this package loads no store, no framework and no terminal library; the embedded host loads on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedule_sm.core.charts import DeliveryChart, OwnerChart
from schedule_sm.core.errors import (
    CompositionError,
    ScheduleError,
    ScheduleInputError,
    ScheduleLogError,
    ScheduleVersionError,
)
from schedule_sm.core.event_log import decode_schedule_change
from schedule_sm.core.framing import render_reminder_framing
from schedule_sm.core.presentation import schedule_reminder_presentation
from schedule_sm.core.projection import FoldedSchedules, allocate_schedule_id, fold_schedule_events
from schedule_sm.core.records import SCHEDULE_CHANGE_VERSION, create_after_record, schedule_view
from schedule_sm.owner import ScheduleOwner
from schedule_sm.plugin import schedule_owner
from schedule_sm.tools import register_schedule_tools

if TYPE_CHECKING:
    from schedule_sm.embedded import ScheduleHost, TurnRunner

__all__ = [
    "SCHEDULE_CHANGE_VERSION",
    "CompositionError",
    "DeliveryChart",
    "FoldedSchedules",
    "OwnerChart",
    "ScheduleError",
    "ScheduleHost",
    "ScheduleInputError",
    "ScheduleLogError",
    "ScheduleOwner",
    "ScheduleVersionError",
    "TurnRunner",
    "allocate_schedule_id",
    "create_after_record",
    "decode_schedule_change",
    "fold_schedule_events",
    "register_schedule_tools",
    "render_reminder_framing",
    "schedule_owner",
    "schedule_reminder_presentation",
    "schedule_view",
]

_EMBEDDED = ("ScheduleHost", "TurnRunner")


def __getattr__(name: str) -> Any:  # PEP 562: whatever the embedded host exports
    """Load the embedded host when one of its two names is first asked for."""
    if name in _EMBEDDED:
        from schedule_sm import embedded

        return getattr(embedded, name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """List the lazy names too."""
    return sorted({*globals(), *__all__})

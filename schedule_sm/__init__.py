"""Durable one-shot reminders for live asyncio agents: the pinned public names, and nothing else.

Importing this package loads nothing; each name loads what it needs when it is first asked for. So neither ``--help``
nor a pytest run that only finds our coverage plugin pays for charts and models.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from schedule_sm.core.charts import DeliveryChart, OwnerChart
    from schedule_sm.core.errors import (
        CompositionError,
        ScheduleError,
        ScheduleInputError,
        ScheduleLogError,
        ScheduleVersionError,
    )
    from schedule_sm.core.fields import SCHEDULE_CHANGE_VERSION
    from schedule_sm.core.framing import render_reminder_framing
    from schedule_sm.core.presentation import ReminderReceipts, schedule_reminder_presentation
    from schedule_sm.core.projection import FoldedSchedules, allocate_schedule_id, fold_schedule_events
    from schedule_sm.core.records import create_after_record, decode_schedule_change, schedule_view
    from schedule_sm.embedded import ScheduleHost, TurnRunner
    from schedule_sm.owner import ScheduleOwner
    from schedule_sm.plugin import schedule_owner
    from schedule_sm.tools import register_schedule_tools

__all__ = [
    "SCHEDULE_CHANGE_VERSION",
    "CompositionError",
    "DeliveryChart",
    "FoldedSchedules",
    "OwnerChart",
    "ReminderReceipts",
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

_MODULES: Final = {
    "schedule_sm.core.charts": ("DeliveryChart", "OwnerChart"),
    "schedule_sm.core.errors": (
        "CompositionError",
        "ScheduleError",
        "ScheduleInputError",
        "ScheduleLogError",
        "ScheduleVersionError",
    ),
    "schedule_sm.core.fields": ("SCHEDULE_CHANGE_VERSION",),
    "schedule_sm.core.framing": ("render_reminder_framing",),
    "schedule_sm.core.presentation": ("ReminderReceipts", "schedule_reminder_presentation"),
    "schedule_sm.core.projection": ("FoldedSchedules", "allocate_schedule_id", "fold_schedule_events"),
    "schedule_sm.core.records": ("create_after_record", "decode_schedule_change", "schedule_view"),
    "schedule_sm.embedded": ("ScheduleHost", "TurnRunner"),
    "schedule_sm.owner": ("ScheduleOwner",),
    "schedule_sm.plugin": ("schedule_owner",),
    "schedule_sm.tools": ("register_schedule_tools",),
}
_HOMES: Final = {name: module for module, names in _MODULES.items() for name in names}
_SUBMODULES: Final = ("host", "invariant", "plugin", "testing")
"""What a host loads by its module; ``schedule_sm.plugin`` needs no import of its own."""


def __getattr__(name: str) -> Any:  # PEP 562: whatever its home exports
    """Load the home of a public name when it is first asked for."""
    if name in _SUBMODULES:
        return import_module(f"schedule_sm.{name}")
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """List the lazy names too."""
    return sorted({*globals(), *__all__, *_SUBMODULES})

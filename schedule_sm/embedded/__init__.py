"""The embedded host: a small complete runtime for one process, and the reference for hosts of your own."""

from __future__ import annotations

from schedule_sm.embedded.builtin_runner import BuiltinRunner
from schedule_sm.embedded.live_session import LiveSession
from schedule_sm.embedded.runner import JsonValue, TurnOutput, TurnRunner
from schedule_sm.embedded.runtime import ScheduleHost
from schedule_sm.embedded.turns import Turn
from schedule_sm.embedded.without_turns import SessionWithoutTurns

__all__ = [
    "BuiltinRunner",
    "JsonValue",
    "LiveSession",
    "ScheduleHost",
    "SessionWithoutTurns",
    "Turn",
    "TurnOutput",
    "TurnRunner",
]

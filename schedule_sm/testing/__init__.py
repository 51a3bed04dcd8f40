"""What the project offers to tests of hosts and agents: a scripted host, virtual time, coverage of transitions.

Everything is loaded on first use, so that ``ScriptedHost`` needs no test library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedule_sm.testing.adapter_contract import check_adapter
    from schedule_sm.testing.scripted_host import ScriptedHost
    from schedule_sm.testing.store_contract import check_store
    from schedule_sm.testing.travel import Travel, run_virtual, travel

__all__ = ["ScriptedHost", "Travel", "check_adapter", "check_store", "run_virtual", "travel"]

_HOMES = {
    "ScriptedHost": "schedule_sm.testing.scripted_host",
    "Travel": "schedule_sm.testing.travel",
    "check_adapter": "schedule_sm.testing.adapter_contract",
    "check_store": "schedule_sm.testing.store_contract",
    "run_virtual": "schedule_sm.testing.travel",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)

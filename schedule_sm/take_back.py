"""Taking back what was registered with a host, the latest first."""

from __future__ import annotations

from schedule_sm.diagnostics import warn
from schedule_sm.host import Agent, Dispose
from schedule_sm.synchronous import synchronous


def take_back(undo: list[Dispose], what: str, agent: Agent) -> None:
    """Call each disposer in ``undo`` and empty it; one that raises is logged, and the others go all the same."""
    while undo:
        try:
            synchronous(undo.pop()(), f"the disposer of {what}")
        except Exception as error:  # noqa: BLE001 - a host call: whoever waits for the end is still told of it
            warn("owner", f"{what} could not be taken back", agent, error)

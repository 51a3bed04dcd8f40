"""The library's engine behind ``Cursor.step``: the oracle that the flat tables are compared with."""

from __future__ import annotations

from typing import Any

from statemachine import StateChart
from statemachine.exceptions import TransitionNotAllowed

from schedule_sm.core.chart_table import ChartTable
from schedule_sm.core.cursor import chart_classes
from schedule_sm.core.edges import Edge


def state_of(machine: StateChart[Any]) -> str:
    """The one state of a flat chart's instance."""
    (value,) = machine.configuration_values
    return str(value)


class LibraryEngine:
    """A ``schedule_sm.core.cursor.Engine``: each step runs on a fresh instance that starts in the given state."""

    def __init__(self, charts: dict[str, type[StateChart[Any]]] | None = None) -> None:
        self._charts = chart_classes() if charts is None else charts

    def __call__(self, table: ChartTable, state: str, event: str) -> Edge | None:
        target = self.target(table.name, state, event)
        edge = table.edge(state, event)
        if target is None:
            return None
        assert edge is not None, f"{table.name}: the engine takes {event} in {state}, the table does not"
        assert edge.target == target, f"{table.name}: {event} in {state} leads to {target}, not {edge.target}"
        return edge

    def target(self, chart: str, state: str, event: str) -> str | None:
        """Where ``event`` leads from ``state``, or ``None`` if the engine refuses it."""
        machine = self._charts[chart](start_value=state)
        try:
            machine.send(event)
        except TransitionNotAllowed:
            return None
        return state_of(machine)

"""A cursor: where one subject stands in its chart. ``step`` is a look-up that raises on an illegal event.

Both charts are compiled here, once, at import. Tests put the library's engine behind ``step`` through ``ENGINE``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from statemachine import StateChart

from schedule_sm.core.chart_table import ChartTable, compile_chart
from schedule_sm.core.charts import DeliveryChart, OwnerChart
from schedule_sm.core.edges import Edge
from schedule_sm.core.errors import IllegalStepError

_logger = logging.getLogger(__name__)

DELIVERY: Final[ChartTable] = compile_chart(DeliveryChart)
OWNER: Final[ChartTable] = compile_chart(OwnerChart)

Observer: TypeAlias = Callable[[str, str, str, str, str], object]
"""``on_transition(chart, subject_id, source, event, target)``, called after every step."""


class Engine(Protocol):
    """What decides a step: the flat table, or in tests the library's engine."""

    def __call__(self, table: ChartTable, state: str, event: str) -> Edge | None:
        """Return the edge taken for ``event`` in ``state``, or ``None`` if the step is illegal."""


ENGINE: Engine | None = None
"""``None`` for the table itself; a test session may set the library's engine here."""


class Observers:
    """Who is told of steps; one that raises is logged and ignored."""

    __slots__ = ("of_setbacks", "own", "parent")

    def __init__(self, parent: Observers | None = None) -> None:
        """Tell ``parent``'s observers too."""
        self.parent = parent
        self.own: tuple[Observer, ...] = ()  # replaced, never changed: it may be read while one is added
        self.of_setbacks: tuple[Observer, ...] = ()

    def add(self, observer: Observer) -> Callable[[], None]:
        """Tell ``observer`` of every step from now on; returns its disposer."""
        self.own = (*self.own, observer)
        is_there = [
            observer
        ]  # a second call of the disposer must not take away another registration of the same

        def dispose() -> None:
            if is_there:
                position = self.own.index(is_there.pop())
                self.own = self.own[:position] + self.own[position + 1 :]

        return dispose

    def add_for_setbacks(self, observer: Observer) -> None:
        """Tell ``observer`` of retry, fault and disposal edges alone."""
        self.of_setbacks = (*self.of_setbacks, observer)

    def notify(self, chart: str, subject_id: str, edge: Edge) -> None:
        """Tell every observer of one step."""
        if edge.is_setback and self.of_setbacks:
            _tell(self.of_setbacks, chart, subject_id, edge)
        told: Observers | None = self
        while told is not None:
            if told.own:
                _tell(told.own, chart, subject_id, edge)
            told = told.parent


def _tell(observers: tuple[Observer, ...], chart: str, subject_id: str, edge: Edge) -> None:
    for observer in observers:
        try:
            observer(chart, subject_id, edge.source, edge.event, edge.target)
        except Exception:  # an observer must not change what is observed
            _logger.exception("an observer of %s raised", chart)


ALL_STEPS: Final = Observers()
"""Observers of every cursor in the process: coverage, tracing, metrics."""


def observe_transitions(observer: Observer) -> Callable[[], None]:
    """Call ``observer(chart, subject_id, source, event, target)`` after every step; returns its disposer."""
    return ALL_STEPS.add(observer)


class Cursor:
    """One subject's place in a chart."""

    __slots__ = ("_observers", "_table", "last", "since_ms", "state", "subject_id")

    def __init__(self, table: ChartTable, subject_id: str, now_ms: int, observers: Observers) -> None:
        """Stand at the chart's initial state since ``now_ms``."""
        self._table = table
        self._observers = observers
        self.subject_id = subject_id
        self.state = table.initial
        self.since_ms = now_ms
        self.last: Edge | None = None
        """The last retry, disposal or fault edge taken."""

    @property
    def is_final(self) -> bool:
        """Whether the state is final."""
        return self.state in self._table.finals

    def can(self, event: str) -> bool:
        """Whether ``event`` has an edge here."""
        return event in self._table.cells[self.state]

    def step(self, event: str, now_ms: int) -> Edge:
        """Take the edge for ``event``; a self loop keeps ``since_ms``.

        Raises:
            IllegalStepError: if the chart has no such edge; nothing changed.
        """
        source = self.state
        edge = self._table.cells[source].get(event) if ENGINE is None else ENGINE(self._table, source, event)
        if edge is None:
            raise IllegalStepError(self._table.name, self.subject_id, source, event)
        if edge.target != source:
            self.state = edge.target
            self.since_ms = now_ms
        if edge.is_setback:
            self.last = edge
        self._observers.notify(self._table.name, self.subject_id, edge)
        return edge


def tables() -> dict[str, ChartTable]:
    """Return the compiled charts by name, in the order in which they are documented."""
    return {table.name: table for table in (DELIVERY, OWNER)}


def chart_classes() -> dict[str, type[StateChart[Any]]]:
    """Return the declared charts by name."""
    return {chart.__name__: chart for chart in (DeliveryChart, OwnerChart)}

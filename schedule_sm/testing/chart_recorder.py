"""Counts the edges that tests take, from the library's engine and from compiled tables alike.

The engine is tapped where it enters the targets of the transitions it has chosen, for both its engines, so charts that
exist already are seen too. Compiled tables tell ``observe_transitions``.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from statemachine.engines.async_ import AsyncEngine
from statemachine.engines.sync import SyncEngine
from statemachine.transition import Transition

from schedule_sm.core import cursor
from schedule_sm.core.edges import Edge
from schedule_sm.testing.chart_graph import (
    EVENTLESS,
    ChartGraph,
    EdgePair,
    GraphEdge,
    chart_name,
    event_names,
    read_graph,
    target_name,
)

_TAP = "_enter_states"
_CURSOR_TAP = "step"
_START = "__initial__"


class Tally:
    """What was taken of one chart."""

    def __init__(self) -> None:
        """Start at zero."""
        self.edges: defaultdict[GraphEdge, Counter[str]] = defaultdict(Counter)
        """Per edge: how often each test (its node id) took it."""
        self.pairs: defaultdict[EdgePair, Counter[str]] = defaultdict(Counter)
        """Per pair of edges, one taken right after the other: how often each test took it."""

    def add(self, other: Tally) -> None:
        """Add what another process counted."""
        for edge, tests in other.edges.items():
            self.edges[edge].update(tests)
        for pair, tests in other.pairs.items():
            self.pairs[pair].update(tests)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for another process."""
        return {
            "edges": [[*edge, dict(tests)] for edge, tests in self.edges.items()],
            "pairs": [[*first, *then, dict(tests)] for (first, then), tests in self.pairs.items()],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tally:
        """Return what ``to_json`` wrote."""
        tally = cls()
        for source, event, target, tests in data["edges"]:
            tally.edges[GraphEdge(source, event, target)].update(tests)
        for *names, tests in data["pairs"]:
            tally.pairs[GraphEdge(*names[:3]), GraphEdge(*names[3:])].update(tests)
        return tally


class Recorder:
    """Tallies per chart while a test runs."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Count the charts of these names (``module:Class``); all that are stepped if there are none.

        Names, not classes: a worker may be able to import a chart only once it has collected the tests.
        """
        self.seen: dict[str, type[Any]] = {}
        """The chart classes stepped, by name."""
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self._names = frozenset(names)
        self._graphs: dict[type[Any], ChartGraph] = {}
        self._test: str | None = None
        self._entered_by: WeakKeyDictionary[Any, dict[str, GraphEdge]] = WeakKeyDictionary()
        self._last_of_cursor: dict[int, GraphEdge] = {}
        self._stepping: list[cursor.Cursor] = []

    def begin_test(self, node_id: str | None) -> None:
        """Count steps for this test from now on; ``None``: count nothing."""
        self._test = node_id
        self._last_of_cursor.clear()

    def install(self) -> Callable[[], None]:
        """Tap both engines and the compiled tables; returns what takes the taps off."""
        undo = [_tap(SyncEngine, _sync_tap, self._on_engine), _tap(AsyncEngine, _async_tap, self._on_engine)]
        undo += [_tap_cursor(self._stepping), cursor.observe_transitions(self._on_table)]

        def dispose() -> None:
            for take_off in reversed(undo):
                take_off()

        return dispose

    def _on_engine(self, engine: Any, transitions: list[Transition], event: str | None) -> None:
        if self._test is None or event == _START:
            return
        chart = self._counted(type(engine.sm))
        if chart is None:
            return
        for transition in transitions:
            edge = GraphEdge(transition.source.id, _event_name(transition, event), target_name(transition))
            # per state, since in parallel regions the last edge of all may be another region's
            entered_by = self._entered_by.setdefault(engine, {})
            self._count(chart_name(chart), edge, entered_by.get(edge.source))
            entered_by.update(dict.fromkeys(self._graph(chart).states_after(edge), edge))

    def _on_table(self, title: str, _subject_id: str, source: str, event: str, target: str) -> None:
        name = self._name_of_table(title)
        if self._test is None or name is None:
            return
        edge = GraphEdge(source, event, target)
        # by the cursor itself: two owners in one test have subjects of the same id
        stepping = self._stepping[-1] if self._stepping else None
        last = self._last_of_cursor.pop(id(stepping), None)
        follows = last is not None and last.target == source
        self._count(name, edge, last if follows else None)
        if stepping is not None and not stepping.is_final:  # a final one's id may soon be another's
            self._last_of_cursor[id(stepping)] = edge

    def _count(self, name: str, edge: GraphEdge, after: GraphEdge | None) -> None:
        if self._test is None:
            return
        tally = self.tallies[name]
        tally.edges[edge][self._test] += 1
        if after is not None:
            tally.pairs[after, edge][self._test] += 1

    def _counted(self, chart: type[Any]) -> type[Any] | None:
        """The chart to count a step of ``chart`` for: itself, or a base that was asked for."""
        if cursor.ENGINE is not None and chart in cursor.chart_classes().values():
            return None  # the engine stands behind a cursor, whose step is counted already
        for base in chart.__mro__ if self._names else (chart,):
            name = chart_name(base)
            if not self._names or name in self._names:
                self.seen[name] = base
                return base
        return None

    def _name_of_table(self, title: str) -> str | None:
        """A compiled table knows only its chart's class name."""
        ours = cursor.chart_classes().get(title)
        name = chart_name(ours) if ours is not None else None
        if self._names and name not in self._names:
            return next((asked for asked in self._names if asked.endswith(f":{title}")), None)
        return name

    def _graph(self, chart: type[Any]) -> ChartGraph:
        if chart not in self._graphs:
            self._graphs[chart] = read_graph(chart)
        return self._graphs[chart]


def _event_name(transition: Transition, event: str | None) -> str:
    names = event_names(transition)
    if event is None or names == [EVENTLESS]:
        return EVENTLESS
    spelt = [name for name in (event, event.replace(".", "_")) if name in names]
    return spelt[0] if spelt else names[0]  # a wildcard: the event is not among the declared names


_Seen = Callable[[Any, list[Transition], "str | None"], None]


def _tap(engine: type[Any], make_tap: Callable[[Any, _Seen], Any], seen: _Seen) -> Callable[[], None]:
    original = getattr(engine, _TAP, None)
    if original is None:
        raise RuntimeError(
            f"this python-statemachine's {engine.__name__} has no {_TAP}: transition coverage knows releases 3.x"
        )
    inherited = _TAP not in vars(engine)
    setattr(engine, _TAP, make_tap(original, seen))

    def take_off() -> None:
        if inherited:
            delattr(engine, _TAP)
        else:
            setattr(engine, _TAP, original)

    return take_off


def _tap_cursor(stepping: list[cursor.Cursor]) -> Callable[[], None]:
    """Keep on ``stepping`` the cursors that take a step now, the innermost last; returns what takes the tap off."""
    original = cursor.Cursor.step

    def step(taker: cursor.Cursor, event: str, now_ms: int) -> Edge:
        stepping.append(taker)
        try:
            return original(taker, event, now_ms)
        finally:
            stepping.pop()

    # set by name: an observer is not told which cursor has stepped
    setattr(cursor.Cursor, _CURSOR_TAP, step)
    return lambda: setattr(cursor.Cursor, _CURSOR_TAP, original)


def _sync_tap(original: Any, seen: _Seen) -> Any:
    @functools.wraps(original)
    def enter_states(engine: Any, transitions: Any, trigger_data: Any, *args: Any) -> Any:
        result = original(engine, transitions, trigger_data, *args)
        seen(engine, list(transitions), _trigger(trigger_data))
        return result

    return enter_states


def _async_tap(original: Any, seen: _Seen) -> Any:
    @functools.wraps(original)
    async def enter_states(engine: Any, transitions: Any, trigger_data: Any, *args: Any) -> Any:
        result = await original(engine, transitions, trigger_data, *args)
        seen(engine, list(transitions), _trigger(trigger_data))
        return result

    return enter_states


def _trigger(trigger_data: Any) -> str | None:
    return None if trigger_data.event is None else str(trigger_data.event)

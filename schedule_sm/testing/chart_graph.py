"""A chart as a graph: its states, its edges, which edge may follow which, and the shortest event path to each.

Read from the class alone, by introspection, for any python-statemachine chart: guards are ignored (a path says what
to send, not whether a guard lets it through). In nested charts an edge may follow another if its source is entered by
it or stays active around it; so edges of two parallel regions are no pair, whatever their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from statemachine import State, StateChart
from statemachine.transition import Transition

EVENTLESS: Final = "(no event)"


class GraphEdge(NamedTuple):
    """One source, event and target."""

    source: str
    event: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} --{self.event}--> {self.target}"


EdgePair = tuple[GraphEdge, GraphEdge]


@dataclass(frozen=True)
class ChartGraph:
    """The declared states and edges of one chart, in the order of the declaration."""

    name: str
    """``module:Class``."""
    states: tuple[str, ...]
    edges: tuple[GraphEdge, ...]
    initial: frozenset[str]
    """The states that a new machine is in."""
    finals: frozenset[str]
    within: dict[str, tuple[str, ...]] = field(repr=False)
    """Per state: the states around it, the outermost first."""
    entered: dict[str, frozenset[str]] = field(repr=False)
    """Per target: the states active after an edge to it (itself, its parents, its initial children)."""

    @property
    def title(self) -> str:
        """The class name alone."""
        return self.name.rpartition(":")[2]

    def states_after(self, edge: GraphEdge) -> frozenset[str]:
        """The states that are active after ``edge``, as far as it decides."""
        return frozenset().union(*(self.entered.get(target, {target}) for target in edge.target.split("+")))

    def followers(self, active: Iterable[str]) -> Iterator[GraphEdge]:
        """The edges that can be taken while ``active`` are."""
        active = frozenset(active)
        return (edge for edge in self.edges if edge.source in active)

    def pairs(self) -> tuple[EdgePair, ...]:
        """Each edge followed by an edge."""
        return tuple((edge, then) for edge in self.edges for then in self.followers(self.states_after(edge)))

    def shortest_paths(self) -> dict[GraphEdge, tuple[GraphEdge, ...]]:
        """Per reachable edge: the fewest edges from the start that end with it."""
        paths: dict[GraphEdge, tuple[GraphEdge, ...]] = {
            edge: (edge,) for edge in self.followers(self.initial)
        }
        waiting = deque(paths)
        while waiting:
            edge = waiting.popleft()
            for then in self.followers(self.states_after(edge)):
                if then not in paths:
                    paths[then] = (*paths[edge], then)
                    waiting.append(then)
        return paths


def chart_name(chart: type[Any]) -> str:
    """Return ``module:Class``, which tells charts of one class name apart."""
    return f"{chart.__module__}:{chart.__qualname__}"


def read_graph(chart: type[StateChart[Any]]) -> ChartGraph:
    """Return the graph of a chart class; no instance is made."""
    states = list(_all_states(chart.states))
    edges = dict.fromkeys(
        edge for state in states for transition in state.transitions for edge in edges_of(transition)
    )
    entered = {state.id: frozenset(_entered(state)) for state in states}
    starts = [chart.initial_state] if chart.initial_state is not None else []
    return ChartGraph(
        name=chart_name(chart),
        states=tuple(state.id for state in states if not state.is_history),
        edges=tuple(edges),
        initial=frozenset().union(*(entered[state.id] for state in starts)),
        finals=frozenset(state.id for state in states if state.final),
        within={state.id: tuple(around.id for around in _around(state))[::-1] for state in states},
        entered=entered,
    )


def edges_of(transition: Transition) -> Iterator[GraphEdge]:
    """The edges of one transition: one per event; entering an initial child by itself is none."""
    if transition.initial or transition.source.is_history:
        return
    for event in event_names(transition):
        yield GraphEdge(transition.source.id, event, target_name(transition))


def event_names(transition: Transition) -> list[str]:
    """The events of ``transition``; the library adds ``error.x`` to ``error_x``, which is one event to its author."""
    names = [str(event) for event in transition.events]
    return [name for name in names if name.replace(".", "_") not in names or "." not in name] or [EVENTLESS]


def target_name(transition: Transition) -> str:
    """The target's id, joined if there are several; without a target the source is where the chart stays."""
    return "+".join(state.id for state in transition.targets) or transition.source.id


def _all_states(states: Iterable[State]) -> Iterator[State]:
    for state in states:
        yield state
        yield from _all_states(state.states)
        yield from state.history


def _entered(state: State) -> Iterator[str]:
    if state.is_history and state.parent is not None:
        yield from (child for sibling in state.parent.states for child in _entered(sibling))
    else:
        yield from _entered_below(state)
    yield from (around.id for around in _around(state))


def _around(state: State) -> Iterator[State]:
    """The states that ``state`` is inside of, the innermost first."""
    parent = state.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _entered_below(state: State) -> Iterator[str]:
    yield state.id
    for child in state.states:
        if child.initial or state.parallel:
            yield from _entered_below(child)

"""Compile a declared chart into a flat table by introspection; what the table cannot express is an error.

The chart class is never instantiated here. Guards, actions, nested states, wildcards and untagged edges are refused
when compiling, never dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from statemachine import State, StateChart
from statemachine.transition import Transition

from schedule_sm.core.edges import Edge, stamp_of
from schedule_sm.core.errors import ChartCompileError

_MUST_BE_FALSE = ("allow_event_without_transition", "catch_errors_as_events")
_CALLBACK_GROUPS = ("cond", "validators", "before", "on", "after")


@dataclass(frozen=True, slots=True)
class ChartTable:
    """One chart, flat: a look-up of (state, event) and the edges in the order of the declaration."""

    name: str
    doc: str
    states: tuple[str, ...]
    events: tuple[str, ...]
    initial: str
    finals: frozenset[str]
    edges: tuple[Edge, ...]
    """One per source and event, ordered by the event's declaration, then its sources'."""
    cells: Mapping[str, Mapping[str, Edge]] = field(repr=False)
    """``cells[state][event]``; an absent cell is an illegal step."""

    def edge(self, state: str, event: str) -> Edge | None:
        """Return the edge for ``event`` in ``state``, or ``None`` if there is none."""
        return self.cells[state].get(event)


def compile_chart(chart: type[StateChart[Any]]) -> ChartTable:
    """Return the flat table of ``chart``.

    Raises:
        ChartCompileError: naming every state and edge that a flat table cannot express.
    """
    findings = [*_class_findings(chart), *_state_findings(chart)]
    edges: list[Edge] = []
    for state in chart.states:
        for transition in state.transitions:
            refused = list(_transition_findings(transition))
            findings += refused
            if not refused:
                edges += _edges_of(transition)
    cells: dict[str, dict[str, Edge]] = {state.id: {} for state in chart.states}
    for edge in edges:
        other = cells[edge.source].setdefault(edge.event, edge)
        if other is not edge:
            findings.append(f"{edge.source} --{edge.event}--> {edge.target}: also leads to {other.target}")
    events: Any = chart.events  # on the class a list; type checkers see the instance's attribute
    declared = [str(event) for event in events]
    if not findings:
        unused = sorted(set(declared) - {edge.event for edge in edges})
        findings += [f"event {event} is on no edge" for event in unused]
    if findings:
        raise ChartCompileError(chart.__name__, findings)
    states = tuple(state.id for state in chart.states)
    rank = {event: position for position, event in enumerate(_declaration_order(chart, declared))}
    edges.sort(key=lambda edge: rank[edge.event])
    return ChartTable(
        name=chart.__name__,
        doc=(chart.__doc__ or "").strip(),
        states=states,
        events=tuple(sorted(rank, key=rank.__getitem__)),
        initial=chart.initial_state.id,
        finals=frozenset(state.id for state in chart.final_states),
        edges=tuple(edges),
        cells=cells,
    )


def _declaration_order(chart: type[StateChart[Any]], events: list[str]) -> list[str]:
    """Events in the order in which the class body (bases first) names them."""
    named = [name for base in reversed(chart.__mro__) for name in vars(base)]
    return sorted(events, key=lambda event: named.index(event) if event in named else len(named))


def _class_findings(chart: type[StateChart[Any]]) -> Iterator[str]:
    for flag in _MUST_BE_FALSE:
        if getattr(chart, flag):
            yield f"{flag} must be False: an illegal step has to raise"
    if getattr(chart, "_class_listeners", None):
        yield "listeners on the class: observers hang on cursors instead"
    visited: list[Any] = [*chart.states, *(t for state in chart.states for t in state.transitions), chart]
    conventions = {
        spec.func
        for owner in visited
        for spec in owner._specs  # noqa: SLF001 - the library names conventional callbacks nowhere else
        if spec.is_convention and isinstance(spec.func, str)
    }
    for name in sorted(conventions):
        if callable(getattr(chart, name, None)):
            yield f"{name}: a callback by naming convention"


def _state_findings(chart: type[StateChart[Any]]) -> Iterator[str]:
    for state in chart.states:
        if state.states or state.parallel or state.history:
            yield f"state {state.id}: compound, parallel or history"
        if state.value != state.id:
            yield f"state {state.id}: has a value of its own ({state.value!r})"
        for spec in _explicit(state):
            yield f"state {state.id}: has an action ({spec})"


def _explicit(owner: State | Transition) -> Iterator[Any]:
    for spec in owner._specs:  # noqa: SLF001 - as above
        if not spec.is_convention:
            yield spec


def _transition_findings(transition: Transition) -> Iterator[str]:
    targets = [state.id for state in transition.targets]
    where = f"{transition.source.id} --{transition.event}--> {', '.join(targets) or '(nowhere)'}"
    if transition.is_eventless:
        yield f"{where}: has no event"
    if len(targets) != 1:
        yield f"{where}: needs exactly one target"
    if transition.internal:
        yield f"{where}: internal, which diagrams would hide; use edges.itself(state)"
    for group in _CALLBACK_GROUPS:
        for spec in getattr(transition, group):
            if not spec.is_convention:
                yield f"{where}: has a guard or an action ({group} {spec})"
    if stamp_of(transition) is None:
        yield f"{where}: has no kind and no reason; wrap it in path, retry, fault, disposal or management"
    for event in transition.events:
        if "*" in event or "." in event or event.delay or event.internal:
            yield f"{where}: wildcard, dotted, delayed or internal event"


def _edges_of(transition: Transition) -> Iterator[Edge]:
    stamp = stamp_of(transition)
    for event in transition.events:
        if stamp is not None:
            (target,) = transition.targets
            yield Edge(transition.source.id, str(event), target.id, stamp.kind, stamp.why)

"""Compiling: what the table holds, and everything it refuses, by name."""

from __future__ import annotations

from typing import Any

import pytest
from statemachine import State, StateChart

from schedule_sm.core.chart_table import compile_chart
from schedule_sm.core.edges import Edge, EdgeKind, disposal, fault, management, path, retry, stamp_of
from schedule_sm.core.errors import ChartCompileError
from tests.core import chart_samples as samples


def test_table_holds_states_events_and_edges_in_declaration_order() -> None:
    table = compile_chart(samples.Small)
    assert (table.name, table.doc, table.initial) == ("Small", "A lamp.", "off")
    assert table.states == ("off", "on", "broken")
    assert table.events == ("switch", "fail")
    assert table.finals == {"broken"}
    assert table.edges == (
        Edge("off", "switch", "on", EdgeKind.PATH, "pressed"),
        Edge("on", "switch", "off", EdgeKind.RETRY, "pressed again"),
        Edge("on", "fail", "broken", EdgeKind.PATH, "too old"),
    )
    assert table.edge("off", "switch") is table.edges[0]
    assert table.edge("off", "fail") is None


def test_stamps_survive_subclassing() -> None:
    class Other(samples.Small):
        pass

    assert compile_chart(Other).edges == compile_chart(samples.Small).edges


@pytest.mark.parametrize(
    ("chart", "finding"),
    [
        (samples.Untagged, "a --go--> b: has no kind and no reason"),
        (samples.AnySource, "--end--> c: has no kind and no reason"),
        (samples.Guarded, "a --go--> b: has a guard or an action (cond"),
        (samples.Validated, "a --go--> b: has a guard or an action (validators"),
        (samples.Acting, "a --go--> b: has a guard or an action (on"),
        (samples.Entering, "state b: has an action"),
        (samples.ByConvention, "on_enter_b: a callback by naming convention"),
        (samples.Lenient, "allow_event_without_transition must be False"),
        (samples.OwnValue, "state a: has a value of its own (1)"),
        (samples.Hidden, "a --loop--> a: internal"),
        (samples.Ambiguous, "a --go--> c: also leads to b"),
        (samples.Nested, "state a: compound"),
        (samples.WithHistory, "state a: compound"),
        (samples.Wildcard, "wildcard"),
        (samples.Dotted, "wildcard, dotted"),
        (samples.Eventless, "has no event"),
        (samples.Listening, "listeners on the class"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_a_flat_table_cannot_express_is_refused_by_name(
    chart: type[StateChart[Any]], finding: str
) -> None:
    with pytest.raises(ChartCompileError) as caught:
        compile_chart(chart)
    assert caught.value.chart == chart.__name__
    assert any(finding in line for line in caught.value.findings), caught.value.findings
    assert str(caught.value).startswith(f"{chart.__name__} cannot be compiled:\n  ")


def test_every_finding_is_reported_at_once() -> None:
    class Bad(StateChart[Any]):
        a = State(initial=True)
        b = State(final=True)
        go = a.to(b)
        again = a.to.itself()

    with pytest.raises(ChartCompileError) as caught:
        compile_chart(Bad)
    assert len(caught.value.findings) >= 3


@pytest.mark.parametrize("stamp", [path, retry, fault, disposal, management])
def test_edge_without_a_reason_is_refused(stamp: Any) -> None:
    a, b = State(initial=True), State(final=True)
    with pytest.raises(ChartCompileError, match="a reason is missing"):
        stamp(a.to(b), "  ")


def test_edge_stamped_twice_is_refused() -> None:
    a, b = State(initial=True), State(final=True)
    with pytest.raises(ChartCompileError, match="stamped twice"):
        retry(path(a.to(b), "x"), "y")


@pytest.mark.parametrize(
    ("stamp", "kind"),
    [
        (path, EdgeKind.PATH),
        (retry, EdgeKind.RETRY),
        (fault, EdgeKind.FAULT),
        (disposal, EdgeKind.DISPOSAL),
        (management, EdgeKind.MANAGEMENT),
    ],
)
def test_each_helper_stamps_its_kind(stamp: Any, kind: EdgeKind) -> None:
    a, b = State(initial=True), State(final=True)
    (transition,) = stamp(a.to(b), "why")
    found = stamp_of(transition)
    assert found is not None
    assert (found.kind, found.why) == (kind, "why")

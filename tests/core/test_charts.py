"""The charts are DESIGN's tables, and the flat tables are what the library's engine does."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from statemachine import StateChart
from statemachine.exceptions import TransitionNotAllowed

from schedule_sm.core import charts
from schedule_sm.core.chart_table import ChartTable
from schedule_sm.core.cursor import DELIVERY, OWNER, Cursor, Observers, chart_classes, tables
from schedule_sm.core.errors import IllegalStepError
from tests.chart_engine import LibraryEngine, state_of

pytestmark = pytest.mark.no_chart_cov  # these tests sweep the charts themselves

# event | from | to | kind | why: DESIGN.md section 4, literally
DESIGN_DELIVERY = """
due | armed | overdue | path | the wall clock reached the target
checkpoint | overdue | preflight | path | nothing is decided from an unconfirmed log
confirmed | preflight | awaiting_admission | path | the log up to here is durable
enqueued | awaiting_admission | queued | path | followup accepted the message
dispatch_confirmed | queued | dispatched | path | the dispatch record is durable
unconfirmed | preflight | overdue | retry | flush not confirmed; the next trigger retries
not_due | overdue, preflight, awaiting_admission | armed | retry | the clock went back
refused | awaiting_admission | awaiting_admission | retry | the agent is busy; wait for idle
recheck | awaiting_admission | preflight | retry | idle again, or any trigger: checkpoint again, then ask
overtaken | preflight | overdue | retry | after the flush an earlier target is the candidate
enqueue_failed | awaiting_admission | overdue | retry | framing or followup raised; nothing written
host_failed | preflight, awaiting_admission | overdue | retry | the clock, the registry or the reservation raised
dispatch_unconfirmed | queued | queued | retry | recorded, not yet durable; the next confirmed flush settles it
append_failed | queued | faulted | fault | queued but not recorded: stop, do not repeat
delete | armed, overdue, preflight, awaiting_admission | deleted | management | a delete record was appended
dispatched_elsewhere | armed, overdue, preflight, awaiting_admission | dispatched | management | another writer recorded the dispatch
detach | armed, overdue, preflight, awaiting_admission, queued | detached | disposal | owner stopped, lost or faulted; the log keeps the reminder
"""
DESIGN_OWNER = """
wake | starting, waiting, empty | driving | path | first checkpoint, timer, management, host
wake | blocked, parked | driving | retry | idle again, or any trigger
again | driving | driving | path | delivered one, or the record went away under admission
wait | driving | waiting | path | the earliest target lies ahead
settle | driving | empty | path | nothing active
refused | driving | blocked | retry | admission refused; one idle wait open
idle_lost | blocked | parked | retry | the idle wait failed
unconfirmed | driving | parked | retry | preflight or barrier not confirmed
enqueue_failed | driving | parked | retry | framing or followup raised
host_failed | driving | parked | retry | reserve, clock or registry raised
corrupt | driving, stopping | faulted | fault | the log cannot be folded
append_failed | driving, stopping | faulted | fault | queued but not recorded (stopping: disposed inside followup)
crashed | driving, stopping | faulted | fault | an illegal step or an unexpected exception of our own
lost | driving | stopping | disposal | the agent is no longer live
stop | starting, driving, waiting, empty, blocked, parked | stopping | disposal | agent or plugin disposed
drained | stopping | stopped | disposal | nothing in flight, every cursor detached
"""
DESIGN_STATES = {
    "DeliveryChart": (
        "armed overdue preflight awaiting_admission queued",
        "dispatched faulted deleted detached",
    ),
    "OwnerChart": ("starting driving waiting empty blocked parked stopping", "stopped faulted"),
}
BOTH = pytest.mark.parametrize("table", tables().values(), ids=list(tables()))


def rows(text: str) -> list[tuple[str, ...]]:
    """(event, from, to, kind, why), one row a source."""
    found = []
    for line in text.strip().split("\n"):
        event, sources, target, kind, why = line.split(" | ")
        found += [(event, source, target, kind, why) for source in sources.split(", ")]
    return found


@pytest.mark.parametrize(("table", "design"), [(DELIVERY, DESIGN_DELIVERY), (OWNER, DESIGN_OWNER)])
def test_chart_is_the_design_s_table(table: ChartTable, design: str) -> None:
    got = [(edge.event, edge.source, edge.target, edge.kind.value, edge.why) for edge in table.edges]
    assert got == rows(design), (
        f"an edge of {table.name} came, went or changed: put it into the table above too"
    )


@BOTH
def test_states_are_the_design_s(table: ChartTable) -> None:
    others, finals = (names.split() for names in DESIGN_STATES[table.name])
    assert list(table.states) == others + finals
    assert table.finals == set(finals)
    assert table.initial == others[0]


@pytest.mark.parametrize(
    ("table", "states", "events"),
    [
        (DELIVERY, charts.DeliveryState, charts.DeliveryEvent),
        (OWNER, charts.OwnerState, charts.OwnerEvent),
    ],
    ids=list(tables()),
)
def test_literals_equal_the_declaration(table: ChartTable, states: Any, events: Any) -> None:
    assert get_args(states) == table.states, (
        f"list the states of {table.name} in charts.py as it declares them"
    )
    assert get_args(events) == table.events, (
        f"list the events of {table.name} in charts.py as it declares them"
    )


@BOTH
def test_final_states_have_no_edges_and_every_state_is_reached(table: ChartTable) -> None:
    assert not [edge for edge in table.edges if edge.source in table.finals]
    assert {edge.target for edge in table.edges} | {table.initial} == set(table.states)


@BOTH
def test_every_cell_is_what_the_library_s_engine_does(table: ChartTable) -> None:
    engine = LibraryEngine()
    for state in table.states:
        for event in table.events:
            edge = table.edge(state, event)
            assert engine.target(table.name, state, event) == (edge and edge.target), (state, event)
            assert engine(table, state, event) is edge


def lockstep(chart: type[StateChart[Any]], table: ChartTable) -> type[RuleBasedStateMachine]:
    """A Hypothesis machine that steps a cursor on ``table`` beside an instance of ``chart``.

    It starts from a drawn state: from the initial one alone, 300 examples missed a wrong cell.
    """

    class Lockstep(RuleBasedStateMachine):
        @initialize(state=st.sampled_from([s for s in table.states if s not in table.finals]))
        def start(self, state: str) -> None:
            self.machine = chart(start_value=state)
            self.cursor = Cursor(table, "x", 0, Observers())
            self.cursor.state = state

        @rule(event=st.sampled_from(table.events))
        def any_event(self, event: str) -> None:
            self._step(event)

        @precondition(lambda self: not self.cursor.is_final)
        @rule(data=st.data())
        def enabled_event(self, data: st.DataObject) -> None:
            self._step(data.draw(st.sampled_from(sorted(table.cells[self.cursor.state]))))

        @rule()
        def restart_from_the_state_s_name(self) -> None:
            self.machine = chart(start_value=self.cursor.state)

        def _step(self, event: str) -> None:
            try:
                self.cursor.step(event, 0)
                stepped = True
            except IllegalStepError:
                stepped = False
            try:
                self.machine.send(event)
                moved = True
            except TransitionNotAllowed:
                moved = False
            assert moved == stepped, (self.cursor.state, event)

        @invariant()
        def both_stand_in_the_same_state(self) -> None:
            if hasattr(self, "machine"):
                assert state_of(self.machine) == self.cursor.state
                assert {str(event) for event in self.machine.allowed_events} == set(
                    table.cells[self.cursor.state]
                )

    return Lockstep


WALKS = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@BOTH
def test_random_walks_stay_in_lockstep_with_the_library_s_engine(table: ChartTable) -> None:
    run_state_machine_as_test(lockstep(chart_classes()[table.name], table), settings=WALKS)


def test_wrong_cell_is_caught() -> None:
    """The test of the test: no shrinking, which would take half a minute."""
    edge = DELIVERY.edge("queued", "dispatch_unconfirmed")
    assert edge is not None
    wrong = dataclasses.replace(edge, target="overdue")
    cells = {**DELIVERY.cells, "queued": {**DELIVERY.cells["queued"], "dispatch_unconfirmed": wrong}}
    mutant = dataclasses.replace(DELIVERY, cells=cells)
    hunting = settings(
        WALKS,
        max_examples=100,
        stateful_step_count=20,
        print_blob=False,
        report_multiple_bugs=False,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(lockstep(charts.DeliveryChart, mutant), settings=hunting)


def test_missing_cell_is_caught() -> None:
    cells = {**DELIVERY.cells, "armed": {"due": DELIVERY.cells["armed"]["due"]}}
    mutant = dataclasses.replace(DELIVERY, cells=cells)
    with pytest.raises(AssertionError, match="the table does not"):
        LibraryEngine()(mutant, "armed", "detach")

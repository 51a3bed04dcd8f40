"""The graph read from a chart, the recorder on both engines and on compiled tables, and the report."""

import json

import pytest

from schedule_sm.core import cursor
from schedule_sm.core.charts import DeliveryChart
from schedule_sm.core.cursor import DELIVERY, Cursor, Observers
from schedule_sm.testing.chart_graph import GraphEdge, chart_name, read_graph
from schedule_sm.testing.chart_recorder import Recorder, Tally
from schedule_sm.testing.chart_report import ChartReport, render
from tests.testing.parcel_charts import AsyncChart, CourierChart, OvenChart, ParcelChart

# --- the graph ---


def test_graph_of_a_nested_chart():
    graph = read_graph(CourierChart)
    assert graph.initial == {"working", "riding"}
    assert set(graph.edges) == {
        GraphEdge("working", "pause", "paused"),
        GraphEdge("working", "finish", "tired"),
        GraphEdge("riding", "rest", "resting"),
        GraphEdge("resting", "ride", "riding"),
        GraphEdge("paused", "resume", "back"),
        GraphEdge("tired", "(no event)", "home"),
    }
    paths = {edge: [step.event for step in path] for edge, path in graph.shortest_paths().items()}
    assert paths[GraphEdge("resting", "ride", "riding")] == ["rest", "ride"]
    assert paths[GraphEdge("tired", "(no event)", "home")] == ["finish", "(no event)"]
    pairs = {(first.event, then.event) for first, then in graph.pairs()}
    assert ("rest", "pause") in pairs
    assert ("resume", "ride") in pairs
    assert ("pause", "rest") not in pairs
    assert "back" not in graph.states


def test_error_events_count_once():
    from statemachine import State, StateChart

    class Fragile(StateChart):
        whole = State(initial=True)
        broken = State(final=True)
        error_execution = whole.to(broken)
        shake = whole.to.itself(on="explode")

        def explode(self):
            raise RuntimeError("dropped")

    recorder = Recorder([chart_name(Fragile)])
    dispose = recorder.install()
    try:
        recorder.begin_test("here")
        Fragile().shake()
    finally:
        dispose()
    graph = read_graph(Fragile)
    assert [edge.event for edge in graph.edges] == ["error_execution", "shake"]
    assert GraphEdge("whole", "error_execution", "broken") in recorder.tallies[graph.name].edges


# --- the recorder ---


@pytest.fixture
def recorder():
    recorder = Recorder()
    dispose = recorder.install()
    yield recorder
    dispose()


def taken(recorder, chart):
    return {
        str(edge): sum(tests.values()) for edge, tests in recorder.tallies[chart_name(chart)].edges.items()
    }


def test_nested_and_eventless_transitions_are_recorded(recorder):
    recorder.begin_test("here")
    courier = CourierChart()
    for event in ("rest", "pause", "resume", "finish"):
        courier.send(event)
    assert taken(recorder, CourierChart) == {
        "riding --rest--> resting": 1,
        "working --pause--> paused": 1,
        "paused --resume--> back": 1,
        "working --finish--> tired": 1,
        "tired --(no event)--> home": 1,
    }
    report = ChartReport(read_graph(CourierChart), recorder.tallies[chart_name(CourierChart)])
    assert report.missing == (GraphEdge("resting", "ride", "riding"),)
    assert report.undeclared == ()
    assert report.missing_states == ()
    assert ("rest", "pause") in {(first.event, then.event) for first, then in report.tally.pairs}


def test_in_parallel_regions_an_edge_follows_the_one_that_entered_its_source(recorder):
    recorder.begin_test("here")
    oven = OvenChart()
    for event in ("warm_up", "open_door", "cool", "fail"):
        oven.send(event)
    report = ChartReport(read_graph(OvenChart), recorder.tallies[chart_name(OvenChart)])
    taken = {(first.event, then.event) for first, then in report.tally.pairs}
    assert taken == {("warm_up", "cool"), ("cool", "fail")}
    assert taken <= {(first.event, then.event) for first, then in report.graph.pairs()}
    assert report.undeclared == report.missing_states == ()


def test_guarded_loop_and_failed_transition_are_told_apart(recorder):
    recorder.begin_test("here")
    parcel = ParcelChart()
    parcel.heavy = True
    parcel.send_off()
    assert taken(recorder, ParcelChart) == {"packed --send_off--> packed": 1}


@pytest.mark.asyncio
async def test_async_engine_is_recorded(recorder):
    recorder.begin_test("here")
    chart = AsyncChart()
    await chart.activate_initial_state()
    await chart.start()
    assert taken(recorder, AsyncChart) == {"idle --start--> busy": 1}


def test_chart_made_before_the_recorder_is_recorded():
    parcel = ParcelChart()
    recorder = Recorder([chart_name(ParcelChart)])
    dispose = recorder.install()
    recorder.begin_test("here")
    parcel.send_off()
    dispose()
    parcel.scan()
    assert taken(recorder, ParcelChart) == {"packed --send_off--> sent": 1}


def test_subclass_counts_for_the_chart_that_was_asked_for():
    class SpecialParcel(ParcelChart):
        pass

    recorder = Recorder([chart_name(ParcelChart)])
    dispose = recorder.install()
    recorder.begin_test("here")
    SpecialParcel().send_off()
    CourierChart().send("rest")
    dispose()
    assert taken(recorder, ParcelChart) == {"packed --send_off--> sent": 1}
    assert set(recorder.tallies) == {chart_name(ParcelChart)}


def test_cursor_on_a_compiled_table_is_recorded_once_on_either_engine(recorder):
    recorder.begin_test("here")
    subject = Cursor(DELIVERY, "schedule-1", 0, Observers(cursor.ALL_STEPS))
    subject.step("due", 0)
    subject.step("checkpoint", 0)
    recorder.begin_test("there")
    other = Cursor(DELIVERY, "schedule-1", 0, Observers(cursor.ALL_STEPS))
    other.step("due", 0)
    tally = recorder.tallies["schedule_sm.core.charts:DeliveryChart"]
    assert {str(edge): dict(tests) for edge, tests in tally.edges.items()} == {
        "armed --due--> overdue": {"here": 1, "there": 1},
        "overdue --checkpoint--> preflight": {"here": 1},
    }
    assert [(first.event, then.event) for first, then in tally.pairs] == [("due", "checkpoint")]


def test_subjects_of_one_id_in_one_test_are_told_apart(recorder):
    """Two sessions have a schedule-1 each: what one does after the other is no pair."""
    recorder.begin_test("here")
    one, other = (Cursor(DELIVERY, "schedule-1", 0, Observers(cursor.ALL_STEPS)) for _ in range(2))
    for subject, event in [(one, "due"), (other, "due"), (other, "checkpoint"), (one, "delete")]:
        subject.step(event, 0)
    tally = recorder.tallies["schedule_sm.core.charts:DeliveryChart"]
    assert {(first.event, then.event) for first, then in tally.pairs} == {
        ("due", "checkpoint"),
        ("due", "delete"),
    }


def test_step_taken_inside_an_observer_of_a_step_follows_it(recorder):
    recorder.begin_test("here")
    subject = Cursor(DELIVERY, "schedule-1", 0, Observers(cursor.ALL_STEPS))
    dispose = cursor.observe_transitions(
        lambda *step: subject.step("delete", 0) if step[3] == "due" else None
    )
    subject.step("due", 0)
    dispose()
    tally = recorder.tallies["schedule_sm.core.charts:DeliveryChart"]
    assert [(first.event, then.event) for first, then in tally.pairs] == [("due", "delete")]


def test_nothing_counts_outside_a_test(recorder):
    ParcelChart().send_off()
    assert not recorder.tallies


def test_engine_without_the_tapped_method_is_refused(monkeypatch):
    monkeypatch.setattr("schedule_sm.testing.chart_recorder._TAP", "_renamed")
    with pytest.raises(RuntimeError, match=r"SyncEngine has no _renamed.*releases 3\.x"):
        Recorder().install()


def test_tally_survives_the_way_between_processes(recorder):
    recorder.begin_test("here")
    parcel = ParcelChart()
    parcel.send_off()
    parcel.scan()
    tally = recorder.tallies[chart_name(ParcelChart)]
    copy = Tally.from_json(json.loads(json.dumps(tally.to_json())))
    assert (copy.edges, copy.pairs) == (tally.edges, tally.pairs)


# --- the report ---


def test_unreachable_edges_and_undeclared_ones_are_named():
    graph = read_graph(ParcelChart)
    stray = GraphEdge("lost", "find", "packed")
    tally = Tally()
    tally.edges[stray]["test"] += 1
    text = render("term", [ChartReport(graph, tally)], ["a note"])
    assert "taken, but not declared by this chart: lost --find--> packed" in text
    assert "transitions 0/5" in text
    assert text.endswith("a note\n")


def test_drawing_of_nested_states_says_what_they_are_inside_of_and_shows_history():
    text = render("mermaid", [ChartReport(read_graph(CourierChart), Tally())], [])
    for line in ('s1["working / riding"]', 's6["working / back"]', 's3 -.->|"resume ×0"| s6', 'home"])'):
        assert line in text


def test_drawing_of_a_chart_with_kinds_shows_them():
    tally = Tally()
    tally.edges[GraphEdge("armed", "due", "overdue")]["test"] += 2
    graph = read_graph(DeliveryChart)
    text = render("mermaid", [ChartReport(graph, tally, table=DELIVERY)], [])
    assert text.startswith("%% schedule_sm.core.charts:DeliveryChart: transitions 1/30")
    assert 'armed_ -->|"▶ due ×2"| overdue_' in text
    assert 'preflight_ -.->|"↻ unconfirmed ×0 NOT TAKEN<br/>↻ overtaken ×0 NOT TAKEN' in text


def test_several_drawings_are_written_as_markdown():
    reports = [ChartReport(read_graph(chart), Tally()) for chart in (ParcelChart, AsyncChart)]
    text = render("mermaid", reports, [])
    assert text.count("```mermaid\n%% ") == text.count("flowchart LR") == 2


def test_reports_of_an_empty_session_are_empty():
    assert json.loads(render("json", [], [])) == {"charts": [], "notes": []}
    assert render("mermaid", [], []) == ""

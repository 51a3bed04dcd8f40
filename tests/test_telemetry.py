"""Edges are told to the log and to OpenTelemetry: whose they are, why they were taken, and never a prompt."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from schedule_sm import plugin
from schedule_sm.core.cursor import DELIVERY, OWNER, observe_transitions
from schedule_sm.edge_log import EdgeLog, OwnerObserver
from schedule_sm.telemetry import LATENESS_BUCKETS_MS, OpenTelemetryObserver
from schedule_sm.testing.scripted_host import ScriptedHost
from tests.core import logs
from tests.minimal_host import MinimalHost

AT = logs.INSTANT_MS
SECRET = "the prompt that nobody else may read"
PATH = ["due", "checkpoint", "confirmed", "enqueued", "dispatch_confirmed"]


def scripted(*changes, late_ms=0, **script):
    return ScriptedHost(clock_ms=AT + late_ms, log=logs.log(*changes), script=script)


async def live(host, *steps):
    """Start the owner, carry out ``steps``, stop."""
    await host.do({"do": "start"})
    for step in steps:
        await host.do(step)
    await host.do({"do": "dispose"})


def why(table, event):
    return next(edge.why for edge in table.edges if edge.event == event)


# -- the log of edges ---------------------------------------------------------------------------------------


@pytest.fixture
def edges(caplog):
    """The edge records, as ``(reminder id, edge, kind)``."""
    caplog.set_level(logging.INFO, "schedule_sm.edges")
    return lambda: [
        (record.reminder_id, record.edge, record.edge_kind)
        for record in caplog.records
        if record.name == "schedule_sm.edges"
    ]


@pytest.mark.asyncio
async def test_owner_logs_each_retry_and_disposal_edge_with_its_reason_and_no_other(edges, caplog):
    host = scripted(logs.create("a", prompt=SECRET), reserve=["busy"])
    await live(host)
    assert edges() == [
        ("a", "awaiting_admission --refused--> awaiting_admission", "retry"),
        (None, "driving --refused--> blocked", "retry"),
        (None, "blocked --stop--> stopping", "disposal"),
        ("a", "awaiting_admission --detach--> detached", "disposal"),
        (None, "stopping --drained--> stopped", "disposal"),
    ]
    first = next(record for record in caplog.records if record.name == "schedule_sm.edges")
    assert (first.levelname, first.session_id, first.agent_id) == ("INFO", host.session.id, host.agent.id)
    assert (first.chart, first.reason) == ("DeliveryChart", why(DELIVERY, "refused"))
    assert first.reason in first.getMessage()
    assert host.session.id in first.getMessage()


@pytest.mark.asyncio
async def test_fault_edges_are_logged(edges):
    await live(scripted(logs.create("a"), append=["throw"]))
    assert ("a", "queued --append_failed--> faulted", "fault") in edges()
    assert (None, "driving --append_failed--> faulted", "fault") in edges()


@pytest.mark.asyncio
async def test_no_record_holds_a_prompt(edges, caplog):
    caplog.set_level(logging.DEBUG)
    changes = (logs.create("a", prompt=SECRET), logs.create("b", prompt=SECRET))
    host = scripted(*changes, flush=["no", "ok"], followup=["throw"], append=["throw"])
    await live(host, {"do": "trigger"}, {"do": "trigger"})
    assert len(edges()) > 4
    assert all(SECRET not in f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert SECRET not in caplog.text


@pytest.mark.asyncio
async def test_same_reminder_id_in_two_sessions_is_told_apart(edges, caplog):
    hosts = [scripted(logs.create("schedule-1"), reserve=["busy"]) for _ in range(2)]
    for host in hosts:
        await live(host)
    told = {
        record.session_id for record in caplog.records if getattr(record, "reminder_id", None) == "schedule-1"
    }
    assert told == {host.session.id for host in hosts}


@pytest.mark.asyncio
async def test_log_is_silent_unless_info_is_on(caplog):
    caplog.set_level(logging.WARNING, "schedule_sm.edges")
    await live(scripted(logs.create("a"), reserve=["busy"]))
    assert not [record for record in caplog.records if record.name == "schedule_sm.edges"]


def test_foreign_id_cannot_forge_a_line_of_the_log(caplog):
    caplog.set_level(logging.INFO, "schedule_sm.edges")
    EdgeLog("s\nERROR", "agent")("DeliveryChart", "a\nERROR \ud800", "preflight", "unconfirmed", "overdue")
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    record.getMessage().encode()


def test_step_of_a_chart_that_is_not_ours_is_ignored(caplog):
    caplog.set_level(logging.INFO, "schedule_sm.edges")
    EdgeLog("s", "agent")("ParcelChart", "p", "packed", "send", "sent")
    OpenTelemetryObserver()("ParcelChart", "p", "packed", "send", "sent")
    OpenTelemetryObserver().for_owner("s", "agent", None)("ParcelChart", "p", "packed", "send", "sent")
    assert not caplog.records


# -- OpenTelemetry ------------------------------------------------------------------------------------------


class Collected:
    """An observer, and what it has reported."""

    def __init__(self, **sampling):
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False, **sampling)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.observer = OpenTelemetryObserver(tracer_provider=self.tracers, meter_provider=self._meters)

    @property
    def spans(self):
        return self._spans.get_finished_spans()

    def points(self, name):
        data = self._reader.get_metrics_data()
        metrics = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]

    def counts(self, name):
        """By event, or the whole where there is none."""
        return {point.attributes.get("event"): point.value for point in self.points(name)}

    def close(self):
        self.tracers.shutdown()
        self._meters.shutdown()


@pytest.fixture
def otel():
    collected = Collected()
    yield collected
    collected.close()


def steps_of(span):
    return [event.name for event in span.events]


@pytest.mark.asyncio
async def test_delivery_is_one_span_with_an_event_per_edge(otel):
    host = scripted(logs.create("a", prompt=SECRET), late_ms=1_500)
    host.owner.observe(otel.observer)
    await live(host)
    (span,) = otel.spans
    assert span.name == "schedule_sm.delivery"
    assert steps_of(span) == PATH
    assert dict(span.events[3].attributes) == {
        "source": "awaiting_admission",
        "target": "queued",
        "kind": "path",
        "reason": why(DELIVERY, "enqueued"),
    }
    assert dict(span.attributes) == {
        "schedule_sm.session_id": host.session.id,
        "schedule_sm.agent_id": host.agent.id,
        "schedule_sm.reminder_id": "a",
        "schedule_sm.late_ms": 1_500,
        "schedule_sm.outcome": "dispatched",
    }
    assert span.status.is_unset
    assert SECRET not in span.to_json()
    (dispatched,) = otel.points("schedule_sm.dispatched")
    assert dispatched.value == 1


@pytest.mark.asyncio
async def test_lateness_is_what_the_message_itself_says(otel):
    host = scripted(logs.create("a"), late_ms=90_000)
    host.owner.observe(otel.observer)
    await live(host)
    (point,) = otel.points("schedule_sm.lateness")
    assert (point.count, point.sum) == (1, host.messages[0].metadata["late_ms"])
    assert point.explicit_bounds == LATENESS_BUCKETS_MS


@pytest.mark.asyncio
async def test_retries_are_counted_by_reason_and_stay_in_the_one_span(otel):
    host = scripted(logs.create("a"), reserve=["busy"], followup=["throw"], flush=["ok", "no"])
    host.owner.observe(otel.observer)
    await live(host, *[{"do": "trigger"}] * 3)
    (span,) = otel.spans
    retries = ["refused", "recheck", "unconfirmed", "enqueue_failed"]
    assert [step for step in steps_of(span) if step not in PATH] == retries
    assert set(retries) <= set(otel.counts("schedule_sm.retries"))
    reasons = {point.attributes["reason"] for point in otel.points("schedule_sm.retries")}
    assert {why(DELIVERY, event) for event in retries} <= reasons
    assert why(OWNER, "enqueue_failed") in reasons, "a parked owner is seen in the counters"


@pytest.mark.asyncio
async def test_fault_ends_the_span_with_an_error_and_is_counted(otel):
    host = scripted(logs.create("a"), append=["throw"])
    host.owner.observe(otel.observer)
    await live(host)
    (span,) = otel.spans
    assert span.attributes["schedule_sm.outcome"] == "faulted"
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description == why(DELIVERY, "append_failed")
    charts = {point.attributes["chart"] for point in otel.points("schedule_sm.faults")}
    assert charts == {"DeliveryChart", "OwnerChart"}
    assert otel.points("schedule_sm.dispatched") == []


@pytest.mark.asyncio
async def test_clock_that_goes_back_ends_the_span_and_the_next_due_begins_another(otel):
    host = scripted(logs.create("a"), reserve=["busy"])
    host.owner.observe(otel.observer)
    await live(host, {"do": "set_clock", "ms": AT - 5_000}, {"do": "trigger"}, {"do": "advance", "ms": 5_000})
    assert [span.attributes["schedule_sm.outcome"] for span in otel.spans] == ["armed", "dispatched"]
    assert steps_of(otel.spans[1]) == PATH


@pytest.mark.asyncio
async def test_stopping_ends_the_open_spans_and_waiting_reminders_have_none(otel):
    later = logs.create("later", at="2027-01-01T00:00:00.000Z")
    host = scripted(logs.create("a"), logs.create("b"), later, reserve=["busy", "busy"])
    host.owner.observe(otel.observer)
    await live(host, {"do": "trigger"})
    ended = [
        (span.attributes["schedule_sm.reminder_id"], span.attributes["schedule_sm.outcome"])
        for span in otel.spans
    ]
    assert ended == [("a", "detached"), ("b", "detached")]


@pytest.mark.asyncio
async def test_deleted_reminder_ends_its_span(otel):
    host = scripted(logs.create("a"), reserve=["busy"])
    host.owner.observe(otel.observer)
    await live(host, {"do": "append", "data": logs.delete("a")}, {"do": "trigger"})
    assert [span.attributes["schedule_sm.outcome"] for span in otel.spans] == ["deleted"]


@pytest.mark.asyncio
async def test_plugin_gives_each_owner_an_observer_of_its_own(otel, travel):
    host = MinimalHost()
    plain = []
    plugin.apply(host, observers=(otel.observer, lambda *step: plain.append(step)))
    with otel.tracers.get_tracer("host").start_as_current_span("creating the agents"):
        agents = [host.create_agent(f"agent-{n}", host.session(f"session-{n}")) for n in range(2)]
    for agent in agents:
        tool = agent.ctx.tools.by_name["schedule_create"]
        await tool.execute({"prompt": SECRET, "after_seconds": 60}, agent)
    await travel(61)
    for agent in agents:
        await agent.close()
    await host.close()
    spans = [span for span in otel.spans if span.name == "schedule_sm.delivery"]
    assert {span.attributes["schedule_sm.session_id"] for span in spans} == {"session-0", "session-1"}
    assert {span.attributes["schedule_sm.reminder_id"] for span in spans} == {"schedule-1"}
    assert all(span.parent is None for span in spans), "a trace of its own"
    assert otel.counts("schedule_sm.dispatched") == {None: 2}
    assert [step[3] for step in plain if step[1] == "schedule-1"].count("due") == 2


@pytest.mark.asyncio
async def test_process_wide_it_counts_and_draws_no_spans(otel):
    dispose = observe_transitions(otel.observer)
    try:
        await live(scripted(logs.create("a"), reserve=["busy"]), {"do": "trigger"})
    finally:
        dispose()
    assert otel.counts("schedule_sm.dispatched") == {None: 1}
    assert otel.counts("schedule_sm.retries")["recheck"] == 1
    assert otel.spans == ()


@pytest.mark.asyncio
async def test_sampled_away_delivery_still_counts():
    otel = Collected(sampler=ALWAYS_OFF)
    host = scripted(logs.create("a"), late_ms=7)
    host.owner.observe(otel.observer)
    await live(host)
    assert otel.spans == ()
    assert otel.points("schedule_sm.lateness")[0].sum == 7
    otel.close()


@pytest.mark.asyncio
async def test_lone_surrogate_in_a_foreign_id_can_be_exported(otel):
    host = scripted(logs.create("a \ud800"))
    host.owner.observe(otel.observer)
    await live(host)
    (span,) = otel.spans
    span.attributes["schedule_sm.reminder_id"].encode()


@pytest.mark.asyncio
async def test_observer_that_cannot_be_made_is_logged_and_the_owner_delivers(caplog):
    class Broken:
        def for_owner(self, session_id, agent_id, deliveries):
            raise RuntimeError("no")

    host = scripted(logs.create("a"))
    host.owner.observe(Broken())
    await live(host)
    assert len(host.followups) == 1
    assert "an observer could not be made" in caplog.text


def test_missing_api_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match=r"pip install 'schedule-sm\[telemetry\]'"):
        OpenTelemetryObserver()


def test_opentelemetry_is_loaded_on_demand_only():
    code = (
        "import sys, schedule_sm.plugin, schedule_sm.telemetry; sys.exit('opentelemetry' in sys.modules or"
        " hasattr(schedule_sm.plugin, 'OpenTelemetryObserver'))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_only_an_owner_observer_is_asked_for_one_per_owner():
    assert isinstance(OpenTelemetryObserver(), OwnerObserver)
    assert not isinstance(print, OwnerObserver)

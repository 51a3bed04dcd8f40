"""OpenTelemetry spans and metrics of deliveries, behind the extra ``telemetry`` (its API only).

No span and no metric carries a prompt. OpenTelemetry is imported nowhere else, and here only when an
``OpenTelemetryObserver`` is made. The log records of edges are in ``edge_log``: they need no extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schedule_sm.core.cursor import DELIVERY, Observer
from schedule_sm.core.deliveries import Deliveries
from schedule_sm.core.ecmascript import escape_surrogates
from schedule_sm.core.edges import Edge, EdgeKind
from schedule_sm.edge_log import edge_taken

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

LATENESS_BUCKETS_MS: Final = (5, 50, 250, 1_000, 5_000, 60_000, 600_000, 3_600_000, 86_400_000, 604_800_000)
"""From a timer's own lateness over a busy turn to a laptop that slept for a week."""


class OpenTelemetryObserver:
    """One span per delivery with an event per edge, and metrics; needs the extra ``telemetry``.

    Load it with the plugin: ``apply(ctx, observers=(OpenTelemetryObserver(),))``. Through ``observe_transitions`` it
    sees every owner in the process but not whose step it is: then it counts, and draws no spans. One of the two.

    Metrics: ``schedule_sm.dispatched``; ``schedule_sm.retries`` and ``schedule_sm.faults`` by ``chart``, ``event`` and
    ``reason``; ``schedule_sm.lateness``, the ms from a reminder's target to its hand-over.
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        """Report to the given providers, or to the process's own.

        Raises:
            ImportError: if the OpenTelemetry API is not installed, naming the extra.
        """
        try:
            from opentelemetry import context, metrics, trace
        except ImportError as error:
            msg = (
                "OpenTelemetryObserver needs the OpenTelemetry API; install the extra: "
                "pip install 'schedule-sm[telemetry]'"
            )
            raise ImportError(msg) from error
        self._tracer = trace.get_tracer("schedule_sm", tracer_provider=tracer_provider)
        self._error_status = trace.StatusCode.ERROR
        self._no_parent = context.Context()
        meter = metrics.get_meter("schedule_sm", meter_provider=meter_provider)
        self._dispatched = meter.create_counter(
            "schedule_sm.dispatched", unit="{reminder}", description="Reminders whose dispatch became durable"
        )
        self._by_kind = {
            EdgeKind.RETRY: meter.create_counter(
                "schedule_sm.retries", unit="{edge}", description="Retry edges taken, by reason"
            ),
            EdgeKind.FAULT: meter.create_counter(
                "schedule_sm.faults", unit="{edge}", description="Fault edges taken, by reason"
            ),
        }
        self._lateness = meter.create_histogram(
            "schedule_sm.lateness",
            unit="ms",
            description="From a reminder's target to its hand-over to the agent",
            explicit_bucket_boundaries_advisory=LATENESS_BUCKETS_MS,
        )

    def __call__(self, chart: str, subject_id: str, source: str, event: str, target: str) -> None:
        """Count one step of whichever owner."""
        edge = edge_taken(chart, source, event)
        if edge is not None:
            self.count(chart, edge)

    def for_owner(self, session_id: str, agent_id: str, deliveries: Deliveries) -> Observer:
        """Return the observer of one owner's steps: spans, lateness and counters."""
        return _OwnerTelemetry(self, session_id, agent_id, deliveries)

    def count(self, chart: str, edge: Edge) -> None:
        """Count one edge."""
        if edge.event == "dispatch_confirmed":
            self._dispatched.add(1)
        counter = self._by_kind.get(edge.kind)
        if counter is not None:
            counter.add(1, {"chart": chart, "event": edge.event, "reason": edge.why})

    def start_span(self, session_id: str, agent_id: str, reminder_id: str) -> Span:
        """Start the span of one delivery: a trace of its own, whatever was running when the owner began."""
        return self._tracer.start_span(
            "schedule_sm.delivery",
            context=self._no_parent,
            attributes={
                "schedule_sm.session_id": escape_surrogates(session_id),
                "schedule_sm.agent_id": escape_surrogates(agent_id),
                "schedule_sm.reminder_id": escape_surrogates(reminder_id),
            },
        )

    def end_span(self, span: Span, edge: Edge) -> None:
        """End a delivery's span with the edge that ended it."""
        span.set_attribute("schedule_sm.outcome", edge.target)
        if edge.kind is EdgeKind.FAULT:
            span.set_status(self._error_status, edge.why)
        span.end()

    def record_lateness(self, late_ms: int) -> None:
        """Record how late a reminder was handed over."""
        self._lateness.record(late_ms)


class _OwnerTelemetry:
    """One owner's open spans: from ``due`` to a final state, or back to ``armed`` when the clock went back."""

    def __init__(
        self, shared: OpenTelemetryObserver, session_id: str, agent_id: str, deliveries: Deliveries
    ) -> None:
        self._shared = shared
        self._session_id = session_id
        self._agent_id = agent_id
        self._deliveries = deliveries
        self._spans: dict[str, Span] = {}

    def __call__(self, chart: str, subject_id: str, source: str, event: str, target: str) -> None:
        edge = edge_taken(chart, source, event)
        if edge is None:
            return
        self._shared.count(chart, edge)
        if chart == DELIVERY.name:
            self._trace(subject_id, edge)

    def _trace(self, reminder_id: str, edge: Edge) -> None:
        late_ms = self._late_ms(reminder_id) if edge.event == "enqueued" else None
        if late_ms is not None:
            self._shared.record_lateness(late_ms)
        if edge.event == "due":
            span = self._shared.start_span(self._session_id, self._agent_id, reminder_id)
            if span.is_recording():  # a span that was sampled away needs no keeping
                self._spans[reminder_id] = span
        current = self._spans.get(reminder_id)
        if current is None:
            return
        current.add_event(
            edge.event,
            {"source": edge.source, "target": edge.target, "kind": edge.kind.value, "reason": edge.why},
        )
        if late_ms is not None:
            current.set_attribute("schedule_sm.late_ms", late_ms)
        if edge.target in DELIVERY.finals or edge.target == DELIVERY.initial:
            del self._spans[reminder_id]
            self._shared.end_span(current, edge)

    def _late_ms(self, reminder_id: str) -> int | None:
        """How late it was when it entered its state, by the clock reading that the step was taken with."""
        delivery = self._deliveries.get(reminder_id)
        return None if delivery is None else delivery.since_ms - delivery.entry.target_ms

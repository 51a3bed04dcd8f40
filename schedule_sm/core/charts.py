"""The two charts, declarations only. No transition is declared outside this file.

Tables, diagrams, documentation and coverage are projections of what stands here. Sources are listed, never
``from_.any()``: that copies transitions and drops their stamps.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from statemachine import State, StateChart

from schedule_sm.core.edges import disposal, fault, itself, management, path, retry

DeliveryState: TypeAlias = Literal[
    "armed",
    "overdue",
    "preflight",
    "awaiting_admission",
    "queued",
    "dispatched",
    "faulted",
    "deleted",
    "detached",
]
DeliveryEvent: TypeAlias = Literal[
    "due",
    "checkpoint",
    "confirmed",
    "enqueued",
    "dispatch_confirmed",
    "unconfirmed",
    "not_due",
    "refused",
    "recheck",
    "overtaken",
    "enqueue_failed",
    "host_failed",
    "dispatch_unconfirmed",
    "append_failed",
    "delete",
    "dispatched_elsewhere",
    "detach",
]
OwnerState: TypeAlias = Literal[
    "starting", "driving", "waiting", "empty", "blocked", "parked", "stopping", "stopped", "faulted"
]
OwnerEvent: TypeAlias = Literal[
    "wake",
    "again",
    "wait",
    "settle",
    "refused",
    "idle_lost",
    "unconfirmed",
    "enqueue_failed",
    "host_failed",
    "corrupt",
    "append_failed",
    "crashed",
    "lost",
    "stop",
    "drained",
]


class DeliveryChart(StateChart[Any]):
    """The delivery path of one active reminder."""

    allow_event_without_transition = False
    catch_errors_as_events = False

    armed = State(initial=True)
    overdue = State()
    preflight = State()
    awaiting_admission = State()
    queued = State()
    dispatched = State(final=True)
    faulted = State(final=True)
    deleted = State(final=True)
    detached = State(final=True)

    due = path(armed.to(overdue), "the wall clock reached the target")
    checkpoint = path(overdue.to(preflight), "nothing is decided from an unconfirmed log")
    confirmed = path(preflight.to(awaiting_admission), "the log up to here is durable")
    enqueued = path(awaiting_admission.to(queued), "followup accepted the message")
    dispatch_confirmed = path(queued.to(dispatched), "the dispatch record is durable")

    unconfirmed = retry(preflight.to(overdue), "flush not confirmed; the next trigger retries")
    not_due = retry(armed.from_(overdue, preflight, awaiting_admission), "the clock went back")
    refused = retry(itself(awaiting_admission), "the agent is busy; wait for idle")
    recheck = retry(
        awaiting_admission.to(preflight), "idle again, or any trigger: checkpoint again, then ask"
    )
    overtaken = retry(preflight.to(overdue), "after the flush an earlier target is the candidate")
    enqueue_failed = retry(awaiting_admission.to(overdue), "framing or followup raised; nothing written")
    host_failed = retry(
        overdue.from_(preflight, awaiting_admission), "the clock, the registry or the reservation raised"
    )
    dispatch_unconfirmed = retry(
        itself(queued), "recorded, not yet durable; the next confirmed flush settles it"
    )

    append_failed = fault(queued.to(faulted), "queued but not recorded: stop, do not repeat")

    delete = management(
        deleted.from_(armed, overdue, preflight, awaiting_admission), "a delete record was appended"
    )
    dispatched_elsewhere = management(
        dispatched.from_(armed, overdue, preflight, awaiting_admission),
        "another writer recorded the dispatch",
    )

    detach = disposal(
        detached.from_(armed, overdue, preflight, awaiting_admission, queued),
        "owner stopped, lost or faulted; the log keeps the reminder",
    )


class OwnerChart(StateChart[Any]):
    """The life of the owner of one live agent's reminders."""

    allow_event_without_transition = False
    catch_errors_as_events = False

    starting = State(initial=True)
    driving = State()
    waiting = State()
    empty = State()
    blocked = State()
    parked = State()
    stopping = State()
    stopped = State(final=True)
    faulted = State(final=True)

    wake = path(driving.from_(starting, waiting, empty), "first checkpoint, timer, management, host") | retry(
        driving.from_(blocked, parked), "idle again, or any trigger"
    )
    again = path(itself(driving), "delivered one, or the record went away under admission")
    wait = path(driving.to(waiting), "the earliest target lies ahead")
    settle = path(driving.to(empty), "nothing active")

    refused = retry(driving.to(blocked), "admission refused; one idle wait open")
    idle_lost = retry(blocked.to(parked), "the idle wait failed")
    unconfirmed = retry(driving.to(parked), "preflight or barrier not confirmed")
    enqueue_failed = retry(driving.to(parked), "framing or followup raised")
    host_failed = retry(driving.to(parked), "reserve, clock or registry raised")

    corrupt = fault(faulted.from_(driving, stopping), "the log cannot be folded")
    append_failed = fault(
        faulted.from_(driving, stopping), "queued but not recorded (stopping: disposed inside followup)"
    )
    crashed = fault(faulted.from_(driving, stopping), "an illegal step or an unexpected exception of our own")

    lost = disposal(driving.to(stopping), "the agent is no longer live")
    stop = disposal(
        stopping.from_(starting, driving, waiting, empty, blocked, parked), "agent or plugin disposed"
    )
    drained = disposal(stopping.to(stopped), "nothing in flight, every cursor detached")

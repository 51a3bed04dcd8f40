"""The strict frozen models of the protocol: record, the three changes, view and receipt.

For programs that read a log, and the source of the JSON Schemas. A live session needs none of them (its changes are
``changes.Entry`` and ``Ended``), so a host that loads the plugin does not load pydantic's models either.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, TypeAdapter, WithJsonSchema
from pydantic.alias_generators import to_camel

from schedule_sm.core.changes import Entry, new_entry
from schedule_sm.core.event_log import read_change
from schedule_sm.core.fields import (
    DELIVERY_MODE,
    check_after_seconds,
    check_id,
    check_instant,
    check_prompt,
    check_version,
)
from schedule_sm.core.instants import MAX_SAFE_INTEGER, parse_instant

_SAFE_DELAY = {"type": "integer", "minimum": 1, "maximum": MAX_SAFE_INTEGER}
_INSTANT = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$"}
Version = Annotated[
    Literal[1], PlainValidator(check_version), WithJsonSchema({"const": 1, "type": "integer"})
]
ScheduleId = Annotated[str, PlainValidator(check_id), WithJsonSchema({"type": "string", "minLength": 1})]
Prompt = Annotated[str, PlainValidator(check_prompt), WithJsonSchema({"type": "string", "minLength": 1})]
AfterSeconds = Annotated[int, PlainValidator(check_after_seconds), WithJsonSchema(_SAFE_DELAY)]
Instant = Annotated[str, PlainValidator(check_instant), WithJsonSchema(_INSTANT)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        hide_input_in_errors=True,
        defer_build=True,  # an import builds no validator; the first use of a model does
    )


class AfterRecord(_Model):
    """One durable reminder as the log holds it."""

    id: ScheduleId = Field(description="Unique in its session, never reused.")
    kind: Literal["after"] = Field(description="The only kind of protocol version 1.")
    prompt: Prompt = Field(description="What to remind of, trimmed.")
    after_seconds: AfterSeconds = Field(
        description="The delay that was asked for, in seconds; not checked against scheduled_at."
    )
    scheduled_at: Instant = Field(description="The target: when the reminder is due, in UTC.")

    @property
    def target_ms(self) -> int:
        """The target as epoch ms."""
        return parse_instant(self.scheduled_at)


class CreateChange(_Model):
    """A reminder came into being."""

    version: Version
    operation: Literal["create"]
    schedule: AfterRecord


class DeleteChange(_Model):
    """A reminder was deleted before it was delivered."""

    version: Version
    operation: Literal["delete"]
    id: ScheduleId


class DispatchChange(_Model):
    """A reminder's message was handed to the agent."""

    version: Version
    operation: Literal["dispatch"]
    id: ScheduleId


ScheduleChange: TypeAlias = Annotated[
    CreateChange | DeleteChange | DispatchChange, Field(discriminator="operation")
]
SCHEDULE_CHANGE_ADAPTER: Final[TypeAdapter[CreateChange | DeleteChange | DispatchChange]] = TypeAdapter(
    ScheduleChange,
    config=ConfigDict(
        hide_input_in_errors=True, defer_build=True
    ),  # of what is hidden the outermost schema decides
)
"""Validates one ``schedule/change``; also the source of its JSON Schema."""


class ScheduleView(_Model):
    """What a model is shown of one active reminder."""

    id: ScheduleId = Field(description="Give this id to schedule_delete.")
    kind: Literal["after"] = Field(description="A one-shot reminder after a delay.")
    prompt: Prompt = Field(description="What the reminder will say.")
    after_seconds: AfterSeconds = Field(description="The delay that was asked for, in seconds.")
    scheduled_at: Instant = Field(description="When it is due, in UTC.")
    state: Literal["scheduled", "overdue"] = Field(
        description="overdue: the time has come, and the reminder waits until the session is live and between turns."
    )
    delivery_mode: Literal["session-local"] = Field(
        description="It is delivered into this session only, while the session is live."
    )


class ReminderReceipt(_Model):
    """What a UI shows of one dispatch."""

    schedule_id: ScheduleId
    prompt: Prompt
    occurrence_at: Instant = Field(
        description="The instant the reminder was due, in UTC; not the one at which it was delivered."
    )
    delivery_mode: Literal["session-local"]


def create_after_record(id: str, prompt: object, after_seconds: object, now_ms: object) -> AfterRecord:  # noqa: A002
    """Return the record of a reminder ``after_seconds`` from ``now_ms`` (epoch ms), the prompt trimmed.

    Raises:
        ScheduleInputError: the first that applies of ``invalid_prompt``, ``invalid_rule`` and
            ``time_out_of_range`` (also for a clock that reads no whole number).
    """
    return new_entry(id, prompt, after_seconds, now_ms).record


def checked_record(id: str, prompt: str, after_seconds: int, scheduled_at: str) -> AfterRecord:  # noqa: A002
    """Return the record of values that were checked before; nothing is checked again."""
    return AfterRecord.model_construct(
        id=id, kind="after", prompt=prompt, after_seconds=after_seconds, scheduled_at=scheduled_at
    )


def schedule_view(record: AfterRecord, now_ms: int) -> ScheduleView:
    """Return what a model sees of ``record`` at ``now_ms``: overdue from the target instant on."""
    return ScheduleView.model_construct(
        id=record.id,
        kind="after",
        prompt=record.prompt,
        after_seconds=record.after_seconds,
        scheduled_at=record.scheduled_at,
        state="overdue" if now_ms >= record.target_ms else "scheduled",
        delivery_mode=DELIVERY_MODE,
    )


def decode_schedule_change(data: object) -> CreateChange | DeleteChange | DispatchChange:
    """Return the model of one change (``data`` of a ``schedule/change`` event), strictly decoded.

    Raises:
        ScheduleVersionError: for a later protocol version.
        ScheduleLogError: for any other departure from the format.
    """
    change = read_change(data)
    if isinstance(change, Entry):
        return CreateChange.model_construct(version=1, operation="create", schedule=change.record)
    if change.operation == "delete":
        return DeleteChange.model_construct(version=1, operation="delete", id=change.id)
    return DispatchChange.model_construct(version=1, operation="dispatch", id=change.id)

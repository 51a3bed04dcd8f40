"""The strict frozen models of the protocol: record, the three changes, view and receipt.

Each rule of a field is one function (``check_…``) that raises ``ValueError``; the models and the log decoder call the
same ones, so there is one verdict. (pydantic's own string constraints refuse lone surrogates, its strict ints refuse
``30.0`` and its ``Literal[1]`` takes ``true``.)
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, TypeAdapter, WithJsonSchema
from pydantic.alias_generators import to_camel

from schedule_sm.core.ecmascript import WHITESPACE, join_surrogate_pairs, trim
from schedule_sm.core.errors import ScheduleInputError
from schedule_sm.core.instants import (
    MAX_INSTANT_MS,
    MAX_SAFE_INTEGER,
    MIN_INSTANT_MS,
    format_instant,
    is_on_any_calendar,
    parse_instant,
    whole_number,
)

SCHEDULE_CHANGE_VERSION: Final = 1
"""The protocol version this release writes and reads."""

SCHEDULE_CHANGE: Final = "schedule/change"
"""The one event type that the plugin owns."""

END_SEED: Final = "session/end-seed"
"""The event type that closes the part of a log which a fork inherited."""

DELIVERY_MODE: Final = "session-local"


def check_version(value: object) -> Literal[1]:
    """Return 1 if ``value`` is the whole number 1; raise ``ValueError`` otherwise (``true`` is no number)."""
    if whole_number(value) != SCHEDULE_CHANGE_VERSION:
        msg = "version must be the number 1"
        raise ValueError(msg)
    return 1


def check_id(value: object) -> str:
    """Return a non-empty id without surrounding whitespace; raise ``ValueError`` otherwise."""
    if not isinstance(value, str) or not value or value.strip(WHITESPACE) != value:
        msg = "id must be non-empty text without surrounding whitespace"
        raise ValueError(msg)
    return value


def check_prompt(value: object) -> str:
    """Return a non-empty, already trimmed prompt; raise ``ValueError`` otherwise."""
    if not isinstance(value, str) or not value or value.strip(WHITESPACE) != value:
        msg = "prompt must be non-empty text without surrounding whitespace"
        raise ValueError(msg)
    return value


def check_after_seconds(value: object) -> int:
    """Return the delay as an int from 1 to 2^53-1 seconds; raise ``ValueError`` otherwise."""
    seconds = value if type(value) is int else whole_number(value)
    if seconds is None or not 1 <= seconds <= MAX_SAFE_INTEGER:
        msg = "afterSeconds must be a whole number from 1 to 9007199254740991"
        raise ValueError(msg)
    return seconds


def check_instant(value: object) -> str:
    """Return a canonical instant; raise ``ValueError`` for any other text or type."""
    if not isinstance(value, str):
        msg = "scheduledAt must be text"
        raise ValueError(msg)  # noqa: TRY004 - pydantic turns ValueError, not TypeError, into a verdict
    if not is_on_any_calendar(value):
        parse_instant(value)
    return value


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
    text = trim(join_surrogate_pairs(prompt)) if isinstance(prompt, str) else ""
    if not text:
        raise ScheduleInputError("invalid_prompt", "prompt is blank or no text")
    try:
        seconds = check_after_seconds(after_seconds)
        schedule_id = check_id(id)
    except ValueError as error:
        raise ScheduleInputError("invalid_rule", str(error)) from error
    now = whole_number(now_ms)
    target = None if now is None else now + seconds * 1_000
    if target is None or not MIN_INSTANT_MS <= target <= MAX_INSTANT_MS:
        raise ScheduleInputError("time_out_of_range", "the target lies outside the years 1 to 9999")
    return checked_record(schedule_id, text, seconds, format_instant(target))


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

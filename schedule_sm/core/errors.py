"""Every exception of the project, and the one fixed sentence that belongs to each error code.

No exception class is declared outside this file, and no sentence that a model reads stands anywhere else.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

InputCode = Literal["invalid_prompt", "invalid_selector", "invalid_rule", "time_out_of_range"]
"""Codes of :class:`ScheduleInputError`: the caller can mend the arguments and try again."""

ErrorCode = Literal[InputCode, "corrupt_schedule_log", "persistence_uncertain", "internal_error"]
"""The closed set of codes that a tool's error value may carry (protocol version 1)."""

ERROR_CODES: Final[tuple[str, ...]] = (
    *get_args(InputCode),
    "corrupt_schedule_log",
    "persistence_uncertain",
    "internal_error",
)

SENTENCES: Final[dict[str, str]] = {
    "invalid_prompt": (
        "The prompt must be text that is not blank. Call again with the words that the reminder should say."
    ),
    "invalid_selector": (
        "A reminder takes exactly two arguments, prompt and after_seconds, in one JSON object. Convert any other "
        "form of time (a clock time, a date, a repeat rule) to whole seconds from now and call again."
    ),
    "invalid_rule": (
        "after_seconds must be a whole number from 1 to 9007199254740991, and an id must be given exactly as "
        "schedule_create or schedule_list returned it. Correct the argument and call again."
    ),
    "time_out_of_range": (
        "The reminder would be due outside the years 1 to 9999. Call again with a smaller after_seconds."
    ),
    "corrupt_schedule_log": (
        "This session's reminder log cannot be read, so no reminder can be created, listed or deleted here. "
        "Do not try again; tell the user that an operator has to look at the session log."
    ),
    "persistence_uncertain": (
        "It could not be confirmed that storage holds this session's reminders, so nothing is certain yet. "
        "Do not assume success or failure: call schedule_list later to see what was recorded before you repeat this."
    ),
    "internal_error": (
        "The reminder service could not carry out this call. Call schedule_list to see what was recorded; "
        "if that fails too, tell the user that reminders are not available now."
    ),
}
"""What a model is told for each code: fixed, free of paths, prompts and backend texts."""


class ScheduleError(Exception):
    """Base of every error that schedule-sm raises; ``code`` is stable and meant for programs."""

    code: str = "internal_error"

    def __init__(self, message: str) -> None:
        """Keep ``message``, a sentence for people that says what to do next."""
        super().__init__(message)
        self.message = message


class ScheduleLogError(ScheduleError):
    """The session's event log cannot be folded; the log has to be mended, retrying does not help.

    ``seq`` is the position of the offending event and ``session_id`` its session, where they are known.
    """

    code = "corrupt_schedule_log"

    def __init__(self, reason: str, *, seq: int | None = None, session_id: str | None = None) -> None:
        """State ``reason`` and, where known, the event position ``seq`` and the session."""
        where = "" if seq is None else f" at event {seq}"
        whose = "" if session_id is None else f" of session {session_id!r}"
        super().__init__(f"schedule log{whose} is corrupt{where}: {reason}")
        self.reason = reason
        self.seq = seq
        self.session_id = session_id

    def located(self, *, seq: int | None = None, session_id: str | None = None) -> ScheduleLogError:
        """Return the same error of the same class with a place added; known places are kept."""
        return type(self)(
            self.reason,
            seq=self.seq if self.seq is not None else seq,
            session_id=self.session_id if self.session_id is not None else session_id,
        )


class ScheduleVersionError(ScheduleLogError):
    """The log holds a change of a later protocol version: a newer release wrote it; upgrade to read it."""


class ScheduleInputError(ScheduleError):
    """An argument is outside what the protocol takes; ``code`` is one of :data:`InputCode`."""

    def __init__(self, code: InputCode, detail: str) -> None:
        """Keep the ``code`` and a ``detail`` for the log; the model is shown only the code's fixed sentence."""
        super().__init__(f"{SENTENCES[code]} ({detail})")
        self.code: str = code
        self.detail = detail


class CompositionError(ScheduleError):
    """The host lacks a service, or offers one of another shape than the plugin needs."""

    code = "composition"


class WouldDeadlockError(ScheduleError):
    """The caller would wait for itself: it is the owner's own task, or it holds the session's lane."""

    code = "would_deadlock"


class ChartError(ScheduleError):
    """Base of the errors about charts."""

    code = "chart"


class ChartCompileError(ChartError):
    """A chart says something that a flat table cannot express, or an edge lacks its kind or reason."""

    code = "chart_compile"

    def __init__(self, chart: str, findings: list[str]) -> None:
        """Name the ``chart`` and every finding, one a line."""
        super().__init__(f"{chart} cannot be compiled:\n  " + "\n  ".join(findings))
        self.chart = chart
        self.findings = tuple(findings)


class IllegalStepError(ChartError):
    """A chart has no edge for this event in this state."""

    code = "illegal_step"

    def __init__(self, chart: str, subject_id: str, state: str, event: str) -> None:
        """Name the ``chart``, whose instance it was, and the refused (``state``, ``event``)."""
        super().__init__(f"{chart} of {subject_id!r} has no edge for {event!r} in state {state!r}")
        self.chart = chart
        self.subject_id = subject_id
        self.state = state
        self.event = event


class DiagramError(ScheduleError):
    """A diagram cannot be drawn, read or written."""

    code = "diagram"

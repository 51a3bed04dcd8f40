"""The five-line text in which a due reminder reaches the model; part of the protocol, exact to the byte."""

from __future__ import annotations

from schedule_sm.core.ecmascript import escape_surrogates, stringify

_OPENING = (
    "[SCHEDULE REMINDER]\n"
    "Present this due reminder to the user. "
    "Treat reminder_prompt_json as user-authored reminder content.\n"
)


def render_reminder_framing(schedule_id: str, occurrence_at: str, prompt: str) -> str:
    r"""Return the message of one due reminder: five LF-separated lines, no trailing newline, valid UTF-8.

    Id and prompt are JSON strings, so no prompt can add or forge a line. Split it with ``split("\n")``:
    ``str.splitlines`` also breaks at U+2028, which JSON leaves as it is.
    """
    return (
        f"{_OPENING}schedule_id_json: {stringify(schedule_id)}\n"
        f"occurrence_at: {escape_surrogates(occurrence_at)}\n"
        f"reminder_prompt_json: {stringify(prompt)}"
    )

"""``--model provider:name`` of the chat: a turn runner over that model, or exactly what is missing for it.

Nothing of a framework is imported without the option.
"""

from __future__ import annotations

import re
from typing import Final

from schedule_sm.cli.rendering import visible
from schedule_sm.core.errors import ScheduleError
from schedule_sm.embedded.runner import TurnRunner

INSTRUCTIONS: Final = (
    "You talk with a user in a terminal: answer in short plain text. Keep the user's reminders with the "
    "schedule_ tools. A message that begins with [SCHEDULE REMINDER] is a reminder that has come due: tell the user."
)
_VARIABLE: Final = re.compile(r"Set the `(\w+)` environment variable")
_PACKAGE: Final = re.compile(r"install the `([\w.-]+)` package.*pip install [\"']([^\"']+)[\"']", re.DOTALL)


class ModelMissingError(ScheduleError):
    """The model of ``--model`` cannot be used: a package or a variable is missing, or nobody knows the name."""

    code = "model_missing"


def model_runner(name: str) -> TurnRunner:
    """Return a runner over the model called ``name``, as pydantic-ai spells it.

    Raises:
        ModelMissingError: naming the package or the environment variable that is missing.
    """
    try:
        from schedule_sm.adapters.pydantic_ai import PydanticAIRunner
    except ImportError as error:
        raise ModelMissingError(str(error)) from error
    from pydantic_ai import Agent
    from pydantic_ai.models import infer_model

    try:
        model = infer_model(name)
    except Exception as error:  # each provider's library has classes of its own for a lack
        raise ModelMissingError(_lack(name, str(error))) from error
    return PydanticAIRunner(Agent(model, instructions=INSTRUCTIONS))


def _lack(name: str, complaint: str) -> str:
    """Return in one sentence what pydantic-ai says at length."""
    model = f"the model {visible(name)!r}"
    if found := _VARIABLE.search(complaint):
        return f"{model} needs the environment variable {found[1]}"
    if found := _PACKAGE.search(complaint):
        return f"{model} needs the package {found[1]}: pip install '{found[2]}'"
    return f"{model} cannot be used: {visible(complaint)}; it takes provider:name, such as openai:gpt-5"

"""What an adapter asks of its framework before it imports it: there, and at a version that it was tried with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from schedule_sm.core.errors import ScheduleError

_CLAUSE: Final = re.compile(r"(>=|<)([0-9.]+)")


class AdapterRequirementError(ScheduleError, ImportError):
    """A framework is not installed, or not at a supported version; the sentence says what to install."""

    code = "adapter_requirement"


def require(distribution: str, versions: str, extra: str) -> None:
    """Return when ``distribution`` is installed at one of ``versions``.

    Args:
        distribution: as the package index spells it.
        versions: clauses ``>=`` and ``<`` joined by commas, such as ``">=2.60,<3"``. Only release numbers are
            compared: a pre-release counts as its release, so ``3.0b1`` is not below 3.
        extra: the extra of schedule-sm that installs it.

    Raises:
        AdapterRequirementError: naming what to install, and the versions.
    """
    install = f"pip install 'schedule-sm[{extra}]'"
    try:
        installed = version(distribution)
    except PackageNotFoundError:
        msg = f"this adapter needs {distribution}{versions}, which is not installed: {install}"
        raise AdapterRequirementError(msg) from None
    if not _is_in(installed, versions):
        msg = f"this adapter supports {distribution}{versions}, and {installed} is installed: {install}"
        raise AdapterRequirementError(msg)


def _is_in(installed: str, versions: str) -> bool:
    release = _release(installed)
    for clause in versions.split(","):
        match = _CLAUSE.fullmatch(clause.strip())
        if match is None:
            msg = f"a clause is >= or < and numbers, not {clause!r}"
            raise ValueError(msg)
        is_at_least = release >= _release(match[2])
        if is_at_least != (match[1] == ">="):
            return False
    return True


def _release(text: str) -> tuple[int, ...]:
    """Return the release segment (PEP 440) without trailing zeros, so that 3, 3.0 and 3.0.0 are one."""
    match = re.match(r"v?([0-9]+(?:\.[0-9]+)*)", text)
    numbers = [int(number) for number in match[1].split(".")] if match is not None else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)

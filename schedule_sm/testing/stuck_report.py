"""What to say when a test can go no further: which task awaits what, and which timer would come next."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from types import CodeType
from typing import Any


class StuckError(RuntimeError):
    """Nothing is ready to run and nothing will be: the message lists what each task awaits."""


def render_stuck(what: str, loop: asyncio.AbstractEventLoop, next_timer: float | None) -> str:
    """Return ``what``, the next timer, and one block per unfinished task of ``loop``."""
    lines = [f"{what}."]
    if next_timer is None:
        lines.append("  No timer is armed.")
    else:
        ahead_s = next_timer - loop.time()
        lines.append(f"  The next timer is {ahead_s:g} s ahead: `await travel({ahead_s:g})` would run it.")
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
        lines.append(f"  {task.get_name()} awaits:")
        lines += [f"    {link}" for link in _awaited_by(task)]
    return "\n".join(lines)


def _awaited_by(task: asyncio.Task[Any]) -> Iterator[str]:
    """The chain of what ``task`` awaits, outermost first."""
    link: Any = task.get_coro()
    while link is not None:
        code: CodeType | None = getattr(link, "cr_code", None) or getattr(link, "ag_code", None)
        frame = getattr(link, "cr_frame", None) or getattr(link, "ag_frame", None)
        if code is None:
            yield _shown(link)
            return
        line = frame.f_lineno if frame is not None else code.co_firstlineno
        yield f"{code.co_qualname} ({_short(code.co_filename)}:{line})"
        link = getattr(link, "cr_await", None) or getattr(link, "ag_await", None)


def _shown(awaited: Any) -> str:
    if isinstance(awaited, asyncio.Task):
        return f"the task {awaited.get_name()}"
    text = repr(awaited)
    return "a future" if "FutureIter" in text else text


def _short(path: str) -> str:
    """The last two parts: enough to find the file, short enough to read."""
    return os.sep.join(path.split(os.sep)[-2:])

"""Run the command line in this process, as its script does, with streams of its own."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from schedule_sm.cli import app
from schedule_sm.embedded.encoded_log import EncodedLog, encode_data
from schedule_sm.embedded.wake import replay_wake_at
from schedule_sm.stores.protocol import Append, NewSession, StoredEvent
from schedule_sm.stores.sqlite_import import NewRows, import_sessions


class Ran(NamedTuple):
    """What the shell would see."""

    code: int
    out: str
    err: str


def run(*arguments: str | Path, stdin: bytes = b"", encoding: str = "utf-8") -> Ran:
    """Run ``schedule-sm`` with ``arguments``; typer's CliRunner would miss what ``main`` makes of errors."""
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    streams = [io.TextIOWrapper(raw, encoding=encoding, newline="\n") for raw in (out, err)]
    sys.stdout, sys.stderr = streams
    try:
        app.main([str(argument) for argument in arguments])
    except SystemExit as end:
        code = end.code
    finally:
        for stream in streams:
            stream.flush()
        sys.stdin, sys.stdout, sys.stderr = before
    assert code is None or isinstance(code, int)
    return Ran(code or 0, out.getvalue().decode(encoding), err.getvalue().decode(encoding))


def stored(events: Sequence[dict[str, object]], times: Sequence[int] = ()) -> tuple[StoredEvent, ...]:
    """Return events in DESIGN's shape as a store keeps them, with other ``times`` if given."""
    return tuple(
        StoredEvent(seq, str(event["type"]), times[seq] if times else 0, encode_data(event["data"]))
        for seq, event in enumerate(events)
    )


def write_store(
    path: Path, sessions: dict[str, tuple[StoredEvent, ...]], *, wake_at: int | None = -1
) -> Path:
    """Write a store whose logs need not be sound; ``wake_at`` is what a replay gives unless told."""
    rows = [
        NewRows(
            Append(name, 0, 0, events, _wake(events) if wake_at == -1 else wake_at, header=NewSession()),
            created_at=1_785_931_200_000,
        )
        for name, events in sessions.items()
    ]
    import_sessions(path, rows, 0)
    return path


def _wake(events: tuple[StoredEvent, ...]) -> int | None:
    try:
        return replay_wake_at(EncodedLog(events), 0)
    except (KeyError, TypeError, ValueError):
        return None

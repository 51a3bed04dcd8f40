"""The example with the in-memory inbox shows the duplicate window and the in-memory loss."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "inmemory_inbox.py"


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_crash_between_message_and_dispatch_duplicates_and_one_behind_it_loses() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert (
        done.stdout
        == """\
Killed when the message is queued and its dispatch is not yet durable:
  a host starts
    the user asks: schedule-1 will come in one second
    the user reads: drink water
    it is killed; the log says: create
  a host starts
    the user reads: drink water
    it ends; the log says: create, dispatch
  => 2 messages for one reminder. This is the duplicate window.

Killed when the dispatch is durable and the message's turn has not begun:
  a host starts
    the user asks: schedule-1 will come in one second
    it is killed; the log says: create, dispatch
  a host starts
    it ends; the log says: create, dispatch
  => 0 messages, and the log says dispatched. This is the in-memory loss.

The embedded host has neither: its inbox is in the log, in one transaction with the dispatch.
"""
    )

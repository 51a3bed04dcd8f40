"""``steps`` records both charts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schedule_sm.core.cursor import observe_transitions
from tests.owner.support import Steps


@pytest.fixture
def steps() -> Iterator[Steps]:
    """Every step taken in the test."""
    steps = Steps()
    dispose = observe_transitions(steps)
    yield steps
    dispose()

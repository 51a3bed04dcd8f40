"""When a scenario begins: ``@pytest.mark.parametrize("travel_start", [...], indirect=True)``."""

from __future__ import annotations

import pytest

from schedule_sm.testing.travel import START


@pytest.fixture
def travel_start(request: pytest.FixtureRequest):
    return getattr(request, "param", START)

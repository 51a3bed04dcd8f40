"""Whatever interleaves with whatever, what was confirmed is kept, comes once, and never early."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.model.machine import ScheduleMachine

TestModel = pytest.mark.timeout(120)(
    ScheduleMachine.TestCase
)  # some dozens of examples of some dozens of steps
TestModel.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)

"""``python -m tests.model --examples 2000``: the state machine for longer than CI has time for."""

from __future__ import annotations

import argparse
import logging

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import ScheduleMachine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2_000)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--no-shrink", action="store_true", help="report the first failure as it is")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    run_state_machine_as_test(
        ScheduleMachine,
        settings=settings(
            max_examples=options.examples,
            stateful_step_count=options.steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            phases=[Phase.generate] if options.no_shrink else list(Phase),
        ),
    )
    print(f"{options.examples} examples of up to {options.steps} steps: every promise kept")  # noqa: T201 - the report


if __name__ == "__main__":
    main()

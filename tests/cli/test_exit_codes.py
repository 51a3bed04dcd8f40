"""The table of exit codes: complete, shown, and one for each store fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from schedule_sm.cli.exit_codes import MEANINGS, ExitCode, exit_code_of
from schedule_sm.stores.errors import StoreError
from tests.cli.running import run

NEVER_ALONE = {"store", "store_closed", "session_held", "session_exists"}
"""Codes of errors that one process cannot meet from the command line."""


def _classes(base: type[StoreError]) -> Iterator[type[StoreError]]:
    yield base
    for child in base.__subclasses__():
        yield from _classes(child)


def test_every_code_has_a_meaning_and_stands_in_the_help() -> None:
    assert set(MEANINGS) == set(ExitCode)
    shown = run("--help").out
    for code, meaning in MEANINGS.items():
        assert f"{code.value:>5}  {meaning}" in shown


@pytest.mark.parametrize("code", sorted({kind.code for kind in _classes(StoreError)} - NEVER_ALONE))
def test_every_store_fault_has_an_exit_code_of_its_own(code: str) -> None:
    assert exit_code_of(code) is not ExitCode.FAILED


def test_an_error_without_a_code_of_its_own_is_a_plain_failure() -> None:
    assert exit_code_of("composition") is ExitCode.FAILED

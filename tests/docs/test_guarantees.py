"""Each promise in the documentation names tests that exist."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    monkeypatch.delitem(sys.modules, "checks", raising=False)
    import checks

    return checks


def test_every_promise_names_tests_that_exist(checks: ModuleType) -> None:
    for promise in checks.promises():
        assert promise["text"]
        assert promise["by"]
        assert promise["tests"], f"{promise['text']}: no test checks it"
        for name in promise["tests"]:
            assert checks.test_source(name)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("tests/nowhere.py::test_it", "there is no tests/nowhere.py"),
        ("tests/docs/test_guarantees.py::test_no_such", "has no test_no_such"),
    ],
)
def test_name_of_no_test_is_refused(checks: ModuleType, name: str, complaint: str) -> None:
    with pytest.raises(LookupError, match=complaint):
        checks.test_source(name)

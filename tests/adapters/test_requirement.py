"""What an adapter says of a framework that is missing or of another version."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from schedule_sm.adapters.requirement import AdapterRequirementError, require
from schedule_sm.core.errors import ScheduleError

ROOT = Path(__file__).parents[2]


def test_missing_framework_is_named_with_its_extra() -> None:
    with pytest.raises(AdapterRequirementError) as raised:
        require("no-such-framework", ">=1,<2", "langgraph")
    assert isinstance(raised.value, ImportError)
    assert isinstance(raised.value, ScheduleError)
    assert raised.value.code == "adapter_requirement"
    assert str(raised.value) == (
        "this adapter needs no-such-framework>=1,<2, which is not installed: pip install 'schedule-sm[langgraph]'"
    )


@pytest.mark.parametrize(
    ("installed", "versions", "is_supported"),
    [
        ("2.60", ">=2.60,<3", True),
        ("2.60.0", ">=2.60,<3", True),
        ("2.9", ">=2.60,<3", False),
        ("2.100.1.post1", ">=2.60,<3", True),
        ("3.0.0", ">=2.60,<3", False),
        ("3.0b1", ">=2.60,<3", False),
        ("0.24.7", ">=0.24,<0.25", True),
        ("nonsense", ">=0.24", False),
    ],
)
def test_versions_are_compared_by_their_numbers(
    installed: str, versions: str, is_supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedule_sm.adapters.requirement.version", lambda _name: installed)
    if is_supported:
        require("thing", versions, "thing")
    else:
        with pytest.raises(AdapterRequirementError, match=re.escape(f"thing{versions}, and {installed}")):
            require("thing", versions, "thing")


def test_another_kind_of_clause_is_a_mistake_in_the_adapter() -> None:
    with pytest.raises(ValueError, match="~=2"):
        require("pydantic", "~=2", "pydantic-ai")


def test_adapters_ask_for_what_their_extras_install() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for path in sorted((ROOT / "schedule_sm/adapters").glob("*.py")):
        for name, versions, extra in re.findall(
            r'^require\("(.+)", "(.+)", "(.+)"\)', path.read_text(), re.MULTILINE
        ):
            assert f"{name}{versions}" in extras[extra], path.name
            assert version(name)

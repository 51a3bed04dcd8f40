"""A run of the benchmark: names, the table, the JSON, the page, the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests.benchmarks import __main__ as command
from tests.benchmarks.frame import Figure, Kind, Row, Side, Target, judge
from tests.benchmarks.report import as_json, cells, conditions_now, page, table
from tests.benchmarks.setting import Setting

OURS, OTHER = Figure("ours", "ms"), Figure("other", "ms")
SIDES: dict[str, Side] = {"ours": lambda: {"ms": 3.0}, "other": lambda: {"ms": 2.0}}
MET = Target("2a", "ours over other", OURS, 2, OTHER, stretch=1)
MISSED = Target("2b", "ours alone", OURS, 1, kind=Kind.VALUE)
EXCESS = Target("10", "ours more than other", OURS, 0, OTHER, kind=Kind.EXCESS, unit="count", slack=2)


def offered(setting: Setting) -> list[Row]:
    return [
        Row(10, "the tenth row", SIDES, [EXCESS]),
        Row(2, "the second row", SIDES, [MET, MISSED], quick=frozenset({"2a"})),
    ]


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "_MODULES", (SimpleNamespace(rows=offered),))
    monkeypatch.setattr(command, "_PAGE", tmp_path / "benchmarks.md")


def names_of(*names: str, quick: bool = False) -> list[str]:
    rows = command.chosen(offered(Setting(Path())), names, quick=quick)
    return [target.name for row in rows for target in row.targets]


def test_rows_come_by_number_and_a_name_is_a_row_or_a_target() -> None:
    assert names_of() == ["2a", "2b", "10"]
    assert names_of("2") == ["2a", "2b"]
    assert names_of("2b", "10") == ["2b", "10"]
    assert names_of(quick=True) == ["2a"]


def test_an_unknown_name_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["2c"]) == 2
    assert "no such row: 2c; there are 2, 2a, 2b, 10" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"), [(["2a"], 0), (["2b"], 1), (["2a", "10"], 1), (["--quick"], 0)]
)
def test_exit_code_is_one_when_a_target_is_missed(arguments: list[str], code: int) -> None:
    assert command.main(arguments) == code


@pytest.mark.parametrize("rounds", ["1", "4"])
def test_rounds_are_odd_and_at_least_three(rounds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--rounds", rounds])
    assert "odd and at least 3" in capsys.readouterr().err


def test_json_has_the_figures_of_every_round(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command.main(["2a", "--json", str(file), "--rounds", "5"])
    written = json.loads(file.read_text())
    (result,) = written["results"]
    assert result["figures"] == [1.5] * 5
    assert (result["name"], result["ours"], result["other"], result["verdict"]) == ("2a", 3, 2, "met")
    assert (written["conditions"]["rounds"], written["conditions"]["is_quick"]) == (5, False)


def test_a_line_shows_both_sides_the_figure_and_its_target() -> None:
    rounds = [{OURS: 3.0, OTHER: 2.0}] * 3
    assert cells(judge(MET, rounds, slack=False))[2:] == ("3 ms", "2 ms", "1.5", "≤ 2 (1)", "met")
    assert cells(judge(MISSED, rounds, slack=False))[2:] == ("3 ms", "", "3 ms", "≤ 1 ms", "missed")
    assert cells(judge(EXCESS, rounds, slack=False))[2:] == ("3", "2", "+1", "≤ +0", "missed")


def test_table_and_json_hold_every_target() -> None:
    results = [judge(target, [{OURS: 3.0, OTHER: 2.0}] * 3, slack=False) for target in (MET, MISSED, EXCESS)]
    console = Console(width=150)
    with console.capture() as shown:
        console.print(table(results))
    conditions = conditions_now(rounds=3, is_quick=False, others=[])
    assert [line["name"] for line in as_json(results, conditions)["results"]] == ["2a", "2b", "10"]
    assert all(target.claim in shown.get() for target in (MET, MISSED, EXCESS))


def test_page_states_conditions_and_method_and_no_place(tmp_path: Path) -> None:
    command.main(["--docs"])
    text = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "| 2a | ours over other | 3 ms | 2 ms | 1.5 | ≤ 2 (1) | met |" in text
    assert "**2.** the second row" in text
    assert "Python 3." in text
    assert str(tmp_path) not in text
    results = [judge(MET, [{OURS: 3.0, OTHER: 2.0}] * 3, slack=False)]
    beside = conditions_now(rounds=3, is_quick=False, others=["other 1.0"])
    assert "other 1.0" in page(results, offered(Setting(Path())), beside)

"""Pairs of edges that cannot happen, each with its reason, read from the file that ``--chart-cov-exempt`` names.

TOML, one table for each reason; edges are spelt as the report prints them, ``first`` and ``then`` one or several::

    [[pair]]
    chart = "shop.orders:OrderChart"
    first = "paid --ship--> shipped"
    then = ["shipped --cancel--> cancelled", "shipped --refund--> refunded"]
    reason = "a shipped order is final for three days"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from schedule_sm.testing.chart_graph import EdgePair, GraphEdge, chart_name, read_graph
from schedule_sm.testing.chart_names import find_chart

OPTION: Final = "--chart-cov-exempt"
_KEYS: Final = {"chart", "first", "then", "reason"}


def read_exemptions(file: Path) -> dict[str, dict[EdgePair, str]]:
    """Return the reason for each exempt pair, per chart (``module:Class``).

    Raises:
        pytest.UsageError: if the file cannot be read, or an entry is incomplete, names no pair of its chart or one
            that is listed already; with the file, the entry and what to write instead.
    """
    exempt: dict[str, dict[EdgePair, str]] = {}
    for number, entry in enumerate(_entries(file), 1):
        where = f"{OPTION}: {file}, pair {number}"
        _check_keys(entry, where)
        chart = find_chart(entry["chart"], where)
        possible = {(str(first), str(then)): (first, then) for first, then in read_graph(chart).pairs()}
        listed = exempt.setdefault(chart_name(chart), {})
        for named in product(_texts(entry["first"]), _texts(entry["then"])):
            pair = possible.get(named)
            if pair is None:
                raise pytest.UsageError(f"{where}: {' then '.join(named)} is no pair of {chart_name(chart)}")
            if pair in listed:
                raise pytest.UsageError(f"{where}: {' then '.join(named)} is listed twice")
            listed[pair] = entry["reason"]
    return exempt


def _entries(file: Path) -> list[dict[str, Any]]:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"{OPTION}: {str(file)!r} cannot be read ({error})") from error
    entries = document.pop("pair", [])
    if document or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise pytest.UsageError(f"{OPTION}: {file} may hold [[pair]] tables and nothing else")
    return entries


def _check_keys(entry: dict[str, Any], where: str) -> None:
    is_text = all(isinstance(entry.get(key), str) and entry[key].strip() for key in ("chart", "reason"))
    is_named = all(text is not None for key in ("first", "then") for text in _texts(entry.get(key)))
    if set(entry) != _KEYS or not is_text or not is_named:
        raise pytest.UsageError(
            f"{where}: chart, first, then and reason are needed, each a text"
            f" (first and then: or a list of texts like {str(GraphEdge('paid', 'ship', 'shipped'))!r})"
        )


def _texts(value: object) -> Iterator[Any]:
    """The texts of one text or a list of them; ``None`` for anything else."""
    values = value if isinstance(value, list) and value else [value]
    return (one if isinstance(one, str) else None for one in values)

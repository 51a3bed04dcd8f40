"""Reads the vectors: one JSON object a line, its special numbers put back in."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

HERE = Path(__file__).parent
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0": -0.0}


def decoded(value: Any) -> Any:
    """Put the numbers that JSON cannot write back in."""
    if isinstance(value, dict):
        if set(value) == {"$number"}:
            return _SPECIAL[value["$number"]]
        return {key: decoded(item) for key, item in value.items()}
    return [decoded(item) for item in value] if isinstance(value, list) else value


def raw_vectors(name: str) -> list[dict[str, Any]]:
    """The vectors of one file as they stand there."""
    lines = (HERE / f"{name}.jsonl").read_text(encoding="ascii").split("\n")
    return [json.loads(line) for line in lines if line]


def vectors(name: str, *, keep_numbers: bool = False) -> list[Any]:
    """The vectors of one file as pytest parameters, each with its id."""
    found = raw_vectors(name)
    return [pytest.param(item if keep_numbers else decoded(item), id=item["id"]) for item in found]


def as_plain(model: BaseModel) -> dict[str, Any]:
    """The canonical mapping of a model."""
    return model.model_dump(mode="json", by_alias=True)

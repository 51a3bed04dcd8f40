"""ECMAScript's trim and escaping against Python's."""

from __future__ import annotations

import json

import pytest

from schedule_sm.core.ecmascript import WHITESPACE, escape_surrogates, join_surrogate_pairs, stringify, trim


def test_trim_removes_exactly_the_ecmascript_set() -> None:
    removed = {chr(code) for code in range(0x110000) if not trim(chr(code))}
    assert removed == set(WHITESPACE)
    assert len(WHITESPACE) == 25


@pytest.mark.parametrize("kept", ["\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\u180e", "\u200b", "\ud800"])
def test_trim_keeps_what_python_or_others_would_remove(kept: str) -> None:
    assert trim(f" {kept} ") == kept


def test_trim_removes_the_byte_order_mark() -> None:
    assert trim("\ufeffx\ufeff") == "x"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("é\u2028/", '"é\u2028/"'),
        ("\ud83d", '"\\ud83d"'),
        ("\udc00\ud800", '"\\udc00\\ud800"'),
        ("\ud83d\ude00", '"😀"'),
        ('"\\\n\x00\x7f', '"\\"\\\\\\n\\u0000\x7f"'),
        ({"a": [1, True, None]}, '{"a":[1,true,null]}'),
    ],
)
def test_stringify_writes_as_json_stringify(value: object, text: str) -> None:
    assert stringify(value) == text
    text.encode("utf-8")


def test_stringify_parses_back_joined() -> None:
    assert json.loads(stringify("a\ud83d\ude00\ud83d")) == "a😀\ud83d"


def test_join_surrogate_pairs_leaves_lone_ones() -> None:
    assert join_surrogate_pairs("\ud83d\ude00\udc00") == "😀\udc00"
    assert join_surrogate_pairs("\udc00\ud800") == "\udc00\ud800"


def test_escape_surrogates_makes_text_encodable() -> None:
    assert escape_surrogates("ascii") == "ascii"
    assert escape_surrogates("é") == "é"
    assert escape_surrogates("x\ud800") == "x\\ud800"

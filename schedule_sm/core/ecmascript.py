"""The parts of ECMAScript's text rules that the log format is defined by: trim and JSON.stringify.

The log is shared with programs in other languages, so Python's own notions of whitespace and escaping do not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

WHITESPACE: Final = (
    "\t\n\x0b\x0c\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What ECMA-262 TrimString removes: WhiteSpace and LineTerminator (not U+001C-U+001F, not U+0085)."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def trim(text: str) -> str:
    """Return ``text`` without surrounding whitespace (ECMA-262 TrimString)."""
    return text.strip(WHITESPACE)


def join_surrogate_pairs(text: str) -> str:
    """Return ``text`` with each high-low surrogate pair made one character; lone surrogates stay.

    ECMAScript sees such a pair as one character; a Python string may hold the two halves apart, and they would
    come back joined from any JSON reader.
    """
    if _PAIR.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def stringify(value: object) -> str:
    r"""Return ``value`` as JSON.stringify would: compact, non-ASCII kept, lone surrogates as ``\udXXX``.

    The result is always encodable as UTF-8 (well-formed JSON.stringify, ECMA-262 QuoteJSONString).
    """
    try:
        return to_json(value).decode()
    except PydanticSerializationError:  # a surrogate
        return escape_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def needs_no_escape(text: str) -> bool:
    """Whether ``stringify`` would write ``text`` between its quotes as it is."""
    try:
        return to_json(text) == f'"{text}"'.encode()
    except PydanticSerializationError:  # a surrogate
        return False


def escape_surrogates(text: str) -> str:
    r"""Return ``text`` with lone surrogates as ``\udXXX``, so that it can be encoded as UTF-8."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", join_surrogate_pairs(text))


def encodable(value: Any) -> Any:
    """Return plain JSON data with ``escape_surrogates`` done to every text in it, keys too.

    Providers, frameworks and wires refuse half a character; a history that holds one would block its session for good.

    Raises:
        RecursionError: for data nested as deep as Python's stack.
    """
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, Mapping):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [encodable(item) for item in value]
    return value

"""Members of JSON objects that strangers sent, each read as what it has to be."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from symd.errors import BadQuery, LimitExceeded

VALUES: Final = 1_500_000
"""Values of one request, counted by commas, colons and brackets: reading takes up to 100 bytes for each, and holds up everybody else meanwhile."""
BEYOND_ASCII: Final = 4 << 20
"""Bytes of a request with characters beyond ASCII, which take up to four bytes each."""
_HEXADECIMAL: Final = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_SHOWN: Final = 80


def parsed(body: bytes) -> Any:
    """The value that a request's body is. Raises BadQuery and LimitExceeded."""
    if sum(map(body.count, (b",", b"[", b":", b"{"))) > VALUES:
        raise LimitExceeded(f"the request's body has more than {VALUES} values", hint="ask in several requests")
    if len(body) > BEYOND_ASCII and not body.isascii():
        raise LimitExceeded(
            f"the request's body has characters beyond ASCII and more than {BEYOND_ASCII} bytes",
            hint="escape them as \\u0000, or ask in several requests",
        )
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadQuery("the request's body is no JSON") from error


def an_object(value: Any, what: str) -> dict[str, Any]:
    """Raises BadQuery."""
    if not isinstance(value, dict):
        raise BadQuery(f"{what} is no object")
    return value


def a_list(value: Any, what: str) -> list[Any]:
    """Raises BadQuery."""
    if not isinstance(value, list):
        raise BadQuery(f"{what} is no list")
    return value


def a_text(value: Any, what: str) -> str:
    """Raises BadQuery."""
    if not isinstance(value, str):
        raise BadQuery(f"{what} is no text")
    return value


def a_number(value: Any, what: str) -> int:
    """A number of 64 bits without a sign. Raises BadQuery."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise BadQuery(f"{what} is no number from 0 to 2^64 - 1")
    return value


def a_hexadecimal(value: Any, what: str) -> int:
    """A number written "0x1f". Raises BadQuery."""
    text = a_text(value, what)
    if not _HEXADECIMAL.fullmatch(text):
        raise BadQuery(f"{what} is no number as 0x1f is: {text[:_SHOWN]!r}")
    return int(text, 16)

"""Members of JSON objects that strangers sent, each read as what it has to be."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from symd.errors import BadQuery, LimitExceeded

VALUES: Final = 1_500_000
"""Values of one request, counted by commas, colons and brackets: reading takes up to 100 bytes for each, and holds up
everybody else meanwhile."""
KEYS: Final = 1 << 14
"""Keys of its objects, and empty objects: a true request has a handful for each job, and one call of C, which lets no
other thread work, reads all of an object's."""
TEXT_LISTS: Final = 1 << 18
"""Lists that begin with a text, as the modules of a memory map do: 10 jobs of 16,384."""
OTHER_LISTS: Final = 1 << 16
"""Lists that begin with neither a number nor a text nor a list, as those of no elements."""
DIGITS: Final = 64
"""Characters of one number. One of 64 bits has 20 at most; what reading takes grows with their square."""
BEYOND_ASCII: Final = 4 << 20
"""Bytes of a request with characters beyond ASCII, which take up to four bytes each."""
_BETWEEN: Final = b" \t\r\n\0"
"""What may be between the signs of JSON, in UTF-16 and UTF-32 too."""
_HEXADECIMAL: Final = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_SHOWN: Final = 80


def parsed(body: bytes) -> Any:
    """The value that a request's body is. Raises BadQuery and LimitExceeded."""
    if sum(map(body.count, (b",", b"[", b":", b"{"))) > VALUES:
        raise _too_many("values", VALUES)
    if len(body) > BEYOND_ASCII and not body.isascii():
        raise LimitExceeded(
            f"the request's body has characters beyond ASCII and more than {BEYOND_ASCII} bytes",
            hint="escape them as \\u0000, or ask in several requests",
        )
    _check_counts(body)
    try:
        return json.loads(body, parse_int=_integer, parse_float=_fraction)
    except (ValueError, RecursionError) as error:
        raise BadQuery("the request's body is not JSON") from error


def _check_counts(body: bytes) -> None:
    """Raises LimitExceeded where a request has more of something than a true one, and reading it would hold up all
    other threads. What is in texts is counted too."""
    signs = body.translate(None, _BETWEEN)
    texts = signs.count(b'["')
    if max(signs.count(b'":'), signs.count(b"{}")) > KEYS:
        raise _too_many("keys or empty objects", KEYS)
    if texts > TEXT_LISTS:
        raise _too_many("lists of texts", TEXT_LISTS)
    others = signs.count(b"[") - signs.count(b"[[") - texts
    if others > OTHER_LISTS and others - sum(signs.count(b"[%d" % digit) for digit in range(10)) > OTHER_LISTS:
        raise _too_many("lists without a number or text", OTHER_LISTS)


def _too_many(what: str, most: int) -> LimitExceeded:
    return LimitExceeded(f"the request's body has more than {most} {what}", hint="ask in several requests")


def _integer(text: str) -> int:
    """A number. Written in Python so that other threads have their turn between two numbers: the parser is one call of
    C."""
    _check_digits(text)
    return int(text)


def _fraction(text: str) -> float:
    _check_digits(text)
    return float(text)


def _check_digits(text: str) -> None:
    if len(text) > DIGITS:
        raise LimitExceeded(f"the request's body has a number of more than {DIGITS} digits")


def an_object(value: Any, what: str) -> dict[str, Any]:
    """``value`` where it is a JSON object. Raises BadQuery, which calls it ``what``."""
    if not isinstance(value, dict):
        raise BadQuery(f"{what} is not an object")
    return value


def a_list(value: Any, what: str) -> list[Any]:
    """``value`` where it is a JSON array. Raises BadQuery, which calls it ``what``."""
    if not isinstance(value, list):
        raise BadQuery(f"{what} is not a list")
    return value


def a_text(value: Any, what: str) -> str:
    """``value`` where it is a JSON string. Raises BadQuery, which calls it ``what``."""
    if not isinstance(value, str):
        raise BadQuery(f"{what} is not text")
    return value


def a_number(value: Any, what: str) -> int:
    """A number of 64 bits without a sign. Raises BadQuery."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise BadQuery(f"{what} is not a number from 0 to 2^64 - 1")
    return value


def a_hexadecimal(value: Any, what: str) -> int:
    """A number written "0x1f". Raises BadQuery."""
    text = a_text(value, what)
    if not _HEXADECIMAL.fullmatch(text):
        raise BadQuery(f"{what} is not a hexadecimal number such as 0x1f: {text[:_SHOWN]!r}")
    return int(text, 16)

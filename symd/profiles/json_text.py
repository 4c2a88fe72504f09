"""The text of profiles, and the JSON values in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from symd.errors import Malformed

_SPACE = re.compile(r"[ \t\n\r]*")
_READ = json.JSONDecoder(strict=False).raw_decode
WHERE = "the profile"


def decode(data: bytes) -> str:
    """The text; bytes that are no UTF-8 survive the way there and back, in JSON as escapes."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def each_value(text: str) -> Iterator[Any]:
    """The values of a text that has one after the other. Raises Malformed."""
    at = 0
    while (at := _after_space(text, at)) < len(text):
        try:
            found, at = _READ(text, at)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"JSON is damaged at character {at}: {error}", where=WHERE) from error
        yield found


def only_value(text: str) -> Any:
    """The value that a text is. Raises Malformed."""
    values = list(each_value(text))
    if len(values) != 1:
        raise Malformed(f"JSON is damaged: there are {len(values)} values where one belongs", where=WHERE)
    return values[0]


def written(value: Any) -> bytes:
    """A value on one line. Raises Malformed."""
    try:
        return json.dumps(value).encode() + b"\n"
    except RecursionError as error:
        raise Malformed("JSON is nested too deeply", where=WHERE) from error


def member(item: Any, key: str) -> dict[str, Any]:
    """The object that is a member of an object; {} where it is none."""
    found = item.get(key) if isinstance(item, dict) else None
    return found if isinstance(found, dict) else {}


def objects(items: Any) -> list[dict[str, Any]]:
    """The objects in a list; [] where it is none."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at

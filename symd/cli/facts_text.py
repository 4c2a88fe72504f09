"""What a format says of a kernel, a code object or a container, on one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symd.answers_json import to_json


def facts_text(facts: Mapping[str, Any]) -> str:
    """Names and values; of a list of records no more than how many there are, since --json has them."""
    return ", ".join(f"{name} {_value(name, value)}" for name, value in facts.items())


def _value(name: str, value: Any) -> str:
    records = isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value)
    if name == "arguments" and records:
        return f"({', '.join(map(_argument, value))})"
    if value == []:
        return "none"
    if records:
        return str(len(value))
    if isinstance(value, Mapping) and all(not isinstance(one, (Mapping, list)) for one in value.values()):
        return f"({', '.join(f'{key}: {one}' for key, one in value.items())})"
    return value if isinstance(value, str) else to_json(value)


def _argument(argument: Mapping[str, Any]) -> str:
    """Address space, type and name as a declaration has them; the size where the format knows no more."""
    known = [argument.get(key) for key in ("address_space", "type", "name")]
    words = [str(word) for word in known if word]
    return " ".join(words) or f"{argument.get('size', '?')} bytes"

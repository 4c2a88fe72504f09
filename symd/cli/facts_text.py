"""What a format says of a kernel, a code object or a container, on one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symd.formats.containers.lazy import LazyMapping, PackedMapping, PackedRecords
from symd.model.json import to_json

_KEPT_TEXTS = 1 << 12


class FactsText:
    """Names and values; of a list of records no more than how many there are, since --json has them. Formats give many kernels the same facts, or the same
    list of arguments: they are written once, as long as not too many different ones come."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, str]] = {}
        """What was written by its number (``id``); it stays, so that nothing else gets that."""

    def of(self, facts: Mapping[str, Any]) -> str:
        if isinstance(facts, PackedMapping):
            return self._of(facts.packed())
        values = facts.plain() if isinstance(facts, LazyMapping) else facts
        known = self._known.get(id(values))
        return self._keep(values, self._of(values)) if known is None else known[1]

    def _of(self, values: Mapping[str, Any]) -> str:
        return ", ".join([f"{name} {self._value(name, value)}" for name, value in values.items()])

    def _keep(self, value: object, text: str) -> str:
        if len(self._known) >= _KEPT_TEXTS:
            self._known.clear()
        self._known[id(value)] = value, text
        return text

    def _value(self, name: str, value: Any) -> str:
        kind = type(value)
        if kind is int or kind is str:
            return str(value)
        if kind is not list:
            return _other(value)
        known = self._known.get(id(value))
        return self._keep(value, _list(name, value)) if known is None else known[1]


def facts_text(facts: Mapping[str, Any]) -> str:
    """``FactsText`` of what stands alone."""
    return FactsText().of(facts)


def _list(name: str, values: list[Any]) -> str:
    if not values or not all(isinstance(one, Mapping) for one in values):
        return to_json(values) if values else "none"
    return f"({', '.join(map(_argument, values))})" if name == "arguments" else str(len(values))


def _other(value: Any) -> str:
    if isinstance(value, PackedRecords):
        return str(len(value) or "none")
    if isinstance(value, Mapping) and not any(isinstance(one, (Mapping, list)) for one in value.values()):
        return f"({', '.join([f'{key}: {one}' for key, one in value.items()])})"
    return value if isinstance(value, str) else to_json(value)


def _argument(argument: Mapping[str, Any]) -> str:
    """Address space, type and name as a declaration has them; the size where the format knows no more."""
    known = [argument.get(key) for key in ("address_space", "type", "name")]
    words = [str(word) for word in known if word]
    return " ".join(words) or f"{argument.get('size', '?')} bytes"

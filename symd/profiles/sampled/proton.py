"""Samples of Proton's tree: every node with metrics of its own is a sample, its stack the way to it."""

from __future__ import annotations

import re
from typing import Any

from symd.errors import Malformed
from symd.profiles import json_text
from symd.profiles.json_text import JsonCursor
from symd.profiles.proton import frame_of_name
from symd.profiles.samples import TIMES, AddressTable, Sample, SampledAddress, SampledProfile, Value, ValueType
from symd.profiles.spending import Spending

ROOT = "ROOT"
"""What Proton calls the node above all."""
DEVICES = frozenset({"device_id", "device_type"})
_UNIT = re.compile(r"(.*?) *\(([a-z]+)\)")


def read(data: bytes, spending: Spending) -> SampledProfile:
    """Every metric that is a number, in nodes below the root; the first in the tree is the first column. Raises Malformed."""
    text = json_text.decode(data)
    spending.read_json(text, 0, len(text))
    document = JsonCursor(text).value()
    found = SampledProfile(())
    addresses = AddressTable(found.addresses)
    columns: dict[str, int] = {}
    rows: list[tuple[tuple[int, ...], dict[int, Value]]] = []
    roots = document if isinstance(document, list) else []
    waiting: list[tuple[Any, tuple[int, ...]]] = [(node, ()) for node in reversed(roots) if _is_node(node)]
    while waiting:
        node, above = waiting.pop()
        if not _is_node(node):
            raise Malformed("a child is no node with a frame", where=json_text.WHERE)
        name = node["frame"].get("name")
        if not isinstance(name, str):
            raise Malformed("a frame has no name", where=json_text.WHERE)
        root = not above and name == ROOT
        stack = above if root else (addresses.number(SampledAddress(name, (frame_of_name(name),))), *above)
        spending.read(len(stack))
        metrics = node.get("metrics")
        values = _values(metrics if isinstance(metrics, dict) else {}, columns)
        if stack and values:
            rows.append((stack, values))
        children = node.get("children")
        waiting += [(child, stack) for child in reversed(children if isinstance(children, list) else [])]
    found.value_types = tuple(map(_value_type, columns)) or (ValueType("samples", "count"),)
    width = range(len(found.value_types))
    spending.read_table(len(rows), len(width))
    found.samples = [Sample(stack, tuple(values.get(at, 0) for at in width)) for stack, values in rows]
    found.notes.append("Proton's tree has no times")
    return found


def _is_node(node: Any) -> bool:
    return isinstance(node, dict) and isinstance(node.get("frame"), dict)


def _values(metrics: dict[str, Any], columns: dict[str, int]) -> dict[int, Value]:
    """By column; lists and texts are left out."""
    return {
        columns.setdefault(name, len(columns)): value
        for name, value in metrics.items()
        if _is_number(value) and name not in DEVICES
    }


def _is_number(value: Any) -> bool:
    """One that other formats have: finite, and within 64 bits."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and -TIMES < value < TIMES  # which is false of NaN too


def _value_type(name: str) -> ValueType:
    """``time (ns)`` counts time in ns, ``count`` and ``num_samples`` count."""
    found = _UNIT.fullmatch(name.removesuffix(" (inc)"))
    return ValueType(*found.groups()) if found else ValueType(name.removesuffix(" (inc)"), "count")

"""Variables in scope at an address, and the structure of their types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from symd.model.variables import TypeInfo, Variable, Visible


def variable_json(variable: Variable) -> dict[str, Any]:
    """One variable; ``live`` are section-offset ranges, the end excluded."""
    return {
        "name": variable.name or None,
        "type": variable.type,
        "kind": variable.kind,
        "function": variable.function,
        "inlined": variable.inlined,
        "optimized_out": variable.optimized_out,
        "location": variable.location,
        "live": [list(pair) for pair in variable.live],
    }


def variable_types_json(variable: Variable, visible: Visible) -> dict[str, Any]:
    """The types that the variable's type is made of, numbered from its own, which is 0."""
    if variable.type_number is None:
        return {"types": []}
    order = [variable.type_number]
    numbers: dict[int | None, int | None] = {variable.type_number: 0}
    for number in order:
        for other in _mentioned(visible.types[number]):
            if other not in numbers:
                numbers[other] = len(order)
                order.append(other)
    return {"types": [_type_json(visible.types[number], numbers) for number in order]}


def _mentioned(info: TypeInfo) -> Iterator[int]:
    """The numbers of the types that a type speaks of."""
    for number in (info.target, *info.parameters, *(member.type for member in info.members)):
        if number is not None:
            yield number


def _type_json(info: TypeInfo, numbers: dict[int | None, int | None]) -> dict[str, Any]:
    members = [asdict(member) | {"type": numbers.get(member.type)} for member in info.members]
    return {
        "text": info.text,
        "kind": info.kind,
        "size": info.size,
        "encoding": info.encoding,
        "target": numbers.get(info.target),
        "counts": list(info.counts),
        "members": members,
        "parameters": [numbers.get(number) for number in info.parameters],
        "enumerators": dict(info.enumerators),
        "address_space": info.address_space,
    }

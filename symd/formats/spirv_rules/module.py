"""A module as the rules see it (types, the types of values, constants, functions, entry points, by id), and what a
check of it answers: violations, each under the name of its rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from symd.formats.spirv.grammar import Op
from symd.formats.spirv.module import Body, SpirvModule, by_value_parameters
from symd.formats.spirv.words import text
from symd.formats.spirv_rules.grammar import LEAST_OPERANDS, NO_TYPE

Severity = Literal["error", "unsupported"]


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """One breach, as a rule reports it: ``number`` is the instruction's."""

    number: int
    message: str
    severity: Severity = "error"
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a SPIR-V module breaks, and where. ``offset`` is the instruction's byte offset in the module.
    "unsupported" is outside what every device must take, without being wrong; ``accepted_in_practice`` marks what
    shipping drivers take although the text forbids it."""

    rule: str
    severity: Severity
    offset: int
    message: str
    accepted_in_practice: bool = False


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Violations by offset. ``valid``: none of them is an error."""

    violations: tuple[Violation, ...]

    @property
    def valid(self) -> bool:
        return not any(violation.severity == "error" for violation in self.violations)

    def refused(self, *, strict: bool = False) -> bool:
        """Whether a driver would refuse the module; ``strict`` takes the text at its word."""
        return any(
            violation.severity == "error" and (strict or not violation.accepted_in_practice)
            for violation in self.violations
        )


@dataclass(frozen=True, slots=True)
class Type:
    """A type that a SPIR-V module declares. ``operands`` follow the result id; ``number`` is the declaring
    instruction's."""

    id: int
    opcode: int
    operands: tuple[int, ...]
    number: int

    def __str__(self) -> str:
        if self.opcode in (Op.TypeInt, Op.TypeFloat):
            return f"{_NAMES[self.opcode]} {self.operands[0]}"
        return _NAMES.get(self.opcode, f"type of opcode {self.opcode}")


_NAMES = {op.value: f"Op{op.name}" for op in Op if op.name.startswith("Type")}


class CheckedModule(SpirvModule):
    """Adds to functions and entry points what the rules ask for."""

    def each(self, *opcodes: int) -> Iterator[tuple[int, list[int]]]:
        """(instruction number, operands); instructions too short for their opcode are the header rule's business."""
        for number, ops in self.words.each(*opcodes):
            if len(ops) >= LEAST_OPERANDS.get(self.opcode(number), 0):
                yield number, ops

    def opcode(self, number: int) -> int:
        return self.words.opcode[number]

    @cached_property
    def types(self) -> dict[int, Type]:
        found: dict[int, Type] = {}
        for number, ops in self.each(*range(Op.TypeVoid, Op.TypePipe + 1)):
            if ops:
                found.setdefault(ops[0], Type(ops[0], self.opcode(number), tuple(ops[1:]), number))
        return found

    @cached_property
    def _value_types(self) -> dict[int, int]:
        stream, start, opcode, count = map(np.asarray, self.words.columns)
        typed = np.flatnonzero(~np.isin(opcode, list(NO_TYPE)) & (count >= 3))
        kinds, results = stream[start[typed] + 1], stream[start[typed] + 2]
        known = np.isin(kinds, list(self.types))
        return dict(zip(reversed(results[known].tolist()), reversed(kinds[known].tolist()), strict=True))

    def type_of(self, value: int) -> Type | None:
        """The type of a value; None where nothing declares it."""
        return self.types.get(self._value_types.get(value, 0))

    def pointer_class(self, value: int) -> int | None:
        """The storage class that a pointer value points to; None for anything else."""
        kind = self.type_of(value)
        return kind.operands[0] if kind is not None and kind.opcode == Op.TypePointer else None

    def constant(self, value: int) -> int | None:
        """A 32-bit constant's value; None for one that is specialised or computed."""
        return self.words.constants.get(value)

    @cached_property
    def entry_functions(self) -> list[Body]:
        """The functions that entry points name, each once, in module order of the entry points."""
        return [
            self.functions[number] for number in dict.fromkeys(e.id for e in self.entries) if number in self.functions
        ]

    @cached_property
    def capabilities(self) -> dict[int, int]:
        """Declared capabilities with the number of the declaring instruction."""
        return {ops[0]: number for number, ops in self.each(Op.Capability)}

    @cached_property
    def extensions(self) -> frozenset[str]:
        return frozenset(text(ops)[0] for _, ops in self.each(Op.Extension))

    @cached_property
    def by_value(self) -> frozenset[int]:
        """Parameters that are decorated FuncParamAttr ByVal."""
        return by_value_parameters(self.words)

    def component(self, kind: Type | None) -> tuple[Type | None, int]:
        """(component type, component count) of a vector; (the type itself, 1) otherwise."""
        if kind is not None and kind.opcode == Op.TypeVector:
            return self.types.get(kind.operands[0]), kind.operands[1]
        return kind, 1

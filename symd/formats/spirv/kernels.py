"""What a SPIR-V module says of its kernels: execution modes and arguments, as JSON-ready facts.

Source: SPIR-V 1.6, "Execution Mode", "Storage Class" and "Type-Declaration Instructions"."""

from __future__ import annotations

from functools import cached_property

from symd.formats.budget import Budget
from symd.formats.spirv import (
    Debug,
    ExecutionMode,
    ExecutionModel,
    Opcode,
    StorageClass,
    Words,
    by_value_parameters,
    name_of,
)
from symd.model.light_typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symd.formats.spirv.module import Body, EntryPoint

ADDRESS_SPACES: dict[int, str] = {
    StorageClass.UniformConstant: "constant",
    StorageClass.Workgroup: "local",
    StorageClass.CrossWorkgroup: "global",
    StorageClass.Function: "private",
    StorageClass.Generic: "generic",
}
"""OpenCL's names of the storage classes."""
_TRIPLES: dict[int, str] = {ExecutionMode.LocalSize: "local_size", ExecutionMode.LocalSizeHint: "local_size_hint"}
_TRIPLES_BY_ID: dict[int, str] = {
    ExecutionMode.LocalSizeId: "local_size",
    ExecutionMode.LocalSizeHintId: "local_size_hint",
}
_NUMBERS: dict[int, str] = {
    ExecutionMode.SubgroupSize: "subgroup_size",
    ExecutionMode.SubgroupsPerWorkgroup: "subgroups_per_workgroup",
}
_NUMERIC = {
    Opcode.TypeInt: {8: "char", 16: "short", 32: "int", 64: "long"},
    Opcode.TypeFloat: {16: "half", 32: "float", 64: "double"},
}
_HINTS = ("char", "short", "int", "long", "half", "float", "double")
_DIMENSIONS = ("1d", "2d", "3d", "cube", "rect", "1d_buffer", "subpass")
_OPAQUE = {
    Opcode.TypeVoid: "void",
    Opcode.TypeBool: "bool",
    Opcode.TypeSampler: "sampler",
    Opcode.TypeEvent: "event",
    Opcode.TypeDeviceEvent: "clk_event",
    Opcode.TypeReserveId: "reserve_id",
    Opcode.TypeQueue: "queue",
    Opcode.TypePipe: "pipe",
    Opcode.TypeSampledImage: "sampled_image",
}
_DEPTH = 16
_MAX_ARGUMENTS = 1024
"""Twice what any OpenCL device takes; more of them are not listed."""


class KernelFacts:
    """Facts of every entry point of one module; types, modes and names are collected once, where something has them."""

    def __init__(self, words: Words, budget: Budget) -> None:
        self.words = words
        self._budget = budget
        self._known: dict[tuple[int, int], dict[str, Any]] = {}

    @cached_property
    def types(self) -> dict[int, tuple[int, list[int]]]:
        """(opcode, operands after the result) of each type by id."""
        kinds = range(Opcode.TypeVoid, Opcode.TypePipe + 1)
        return {ops[0]: (self.words.opcode[number], ops[1:]) for number, ops in self.words.each(*kinds) if ops}

    @cached_property
    def modes(self) -> dict[int, list[tuple[int, list[int]]]]:
        """(mode, its operands) by entry point function id."""
        found: dict[int, list[tuple[int, list[int]]]] = {}
        for _, ops in self.words.each(Opcode.ExecutionMode, Opcode.ExecutionModeId):
            if len(ops) > 1:
                found.setdefault(ops[0], []).append((ops[1], ops[2:]))
        return found

    @cached_property
    def by_value(self) -> frozenset[int]:
        return by_value_parameters(self.words)

    @cached_property
    def argument_names(self) -> dict[tuple[int, int], str]:
        """Parameter names that only the debug data has, by (function id, argument number from 1)."""
        function_of: dict[int, int] = {}
        found = {}
        for item in self.words.debug_instructions(Debug.Function, Debug.FunctionDefinition, Debug.LocalVariable):
            ops = item.operands
            if item.opcode == Debug.Function and len(ops) > 9:
                function_of[item.id] = ops[9]
            elif item.opcode == Debug.FunctionDefinition and len(ops) > 1:
                function_of[ops[0]] = ops[1]
            elif item.opcode == Debug.LocalVariable and len(ops) > 7:
                # DPC++ writes the literal where the non-semantic sets want the id of a constant.
                found[ops[5], self.words.constants.get(ops[7], ops[7]) if item.layout.numbers_are_ids else ops[7]] = (
                    self.words.strings.get(ops[0], "")
                )
        return {(function_of[scope], at): name for (scope, at), name in found.items() if scope in function_of and name}

    def of(self, entry: EntryPoint) -> dict[str, Any]:
        """The facts of one entry point; entry points of the same function share what is said of that. Raises
        LimitExceeded."""
        key = entry.id, entry.body.id if entry.body else 0
        if key in self._known:
            shared = len(self._known[key].get("arguments", ()))
            self._budget.count("shared_facts", shared, f"entry point {entry.name}")
        else:
            self._known[key] = self._collect(entry)
        return {"execution_model": name_of(ExecutionModel, entry.model), **self._known[key]}

    def _collect(self, entry: EntryPoint) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        for mode, operands in self.modes.get(entry.id, ()):
            facts.update(self._mode(mode, operands))
        outside = entry.wrapper or entry.body
        if entry.wrapper is not None:
            facts["entry_wrapper"] = {
                "offset": entry.wrapper.offset,
                "size": entry.wrapper.end - entry.wrapper.offset,
            }
        if outside is not None:
            facts["arguments"] = self._arguments(outside, entry.body)
        return facts

    def _mode(self, mode: int, operands: list[int]) -> dict[str, Any]:
        if mode in _TRIPLES:
            return {_TRIPLES[mode]: operands[:3]}
        if mode in _TRIPLES_BY_ID:
            return {_TRIPLES_BY_ID[mode]: [self.words.constants.get(number) for number in operands[:3]]}
        if mode in _NUMBERS and operands:
            return {_NUMBERS[mode]: operands[0]}
        if mode == ExecutionMode.VecTypeHint and operands:
            return {"vector_type_hint": _hint(operands[0])}
        return {"contraction_off": True} if mode == ExecutionMode.ContractionOff else {}

    def _arguments(self, outside: Body, body: Body | None) -> list[dict[str, Any]]:
        inside = body.parameters if body is not None and len(body.parameters) == len(outside.parameters) else ()
        arguments = []
        for at, (number, kind) in enumerate(outside.parameters[:_MAX_ARGUMENTS]):
            ids = (number, inside[at][0]) if inside else (number,)
            name = next((self.words.names[i] for i in ids if self.words.names.get(i)), None)
            if name is None and body is not None:
                name = self.argument_names.get((body.id, at + 1))
            arguments.append({"name": name, **self._argument_type(number, kind)})
        return arguments

    def _argument_type(self, number: int, kind: int) -> dict[str, Any]:
        opcode, ops = self.types.get(kind, (0, []))
        if opcode != Opcode.TypePointer or len(ops) < 2:
            return {"type": self.spell(kind)}
        if number in self.by_value:
            return {"type": self.spell(ops[1]), "by_value": True}
        return {"type": self.spell(kind), "address_space": ADDRESS_SPACES.get(ops[0], str(ops[0]))}

    def spell(self, kind: int, depth: int = 0) -> str:
        """A type as OpenCL C would spell it; "?" for what it has no word for."""
        opcode, ops = self.types.get(kind, (0, []))
        if opcode in (Opcode.TypeStruct, Opcode.TypeOpaque):
            return self.words.names.get(kind, "struct").replace("struct.", "struct ", 1)
        if opcode in _OPAQUE:
            return _OPAQUE[Opcode(opcode)]
        if opcode in _NUMERIC:
            return _NUMERIC[Opcode(opcode)].get(ops[0], "?") if ops else "?"
        if opcode == Opcode.TypeImage:
            return _image(ops)
        return self._derived(opcode, ops, depth)

    def _derived(self, opcode: int, ops: list[int], depth: int) -> str:
        if len(ops) < 2 or depth > _DEPTH:
            return "?"
        if opcode == Opcode.TypeVector:
            return f"{self.spell(ops[0], depth + 1)}{ops[1]}"
        if opcode == Opcode.TypePointer:
            return f"{self.spell(ops[1], depth + 1)}*"
        if opcode == Opcode.TypeArray:
            return f"{self.spell(ops[0], depth + 1)}[{self.words.constants.get(ops[1], '?')}]"
        return "?"


def _image(ops: list[int]) -> str:
    """OpTypeImage without its result: sampled type, dim, depth, arrayed, MS, sampled, format, access."""
    if len(ops) < 7 or ops[1] >= len(_DIMENSIONS):
        return "image"
    array, depth = ("_array" if ops[3] else ""), ("_depth" if ops[2] == 1 else "")
    return f"image{_DIMENSIONS[ops[1]]}{array}{depth}"


def _hint(word: int) -> str:
    """VecTypeHint: component count in the high half, component type in the low one."""
    name = _HINTS[word & 0xFFFF] if word & 0xFFFF < len(_HINTS) else "?"
    return f"{name}{word >> 16}" if word >> 16 > 1 else name

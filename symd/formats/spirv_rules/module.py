"""A module as the rules see it (types, the types of values, constants, functions, entry points, by id), what a check of
it answers (violations, each under the name of its rule), and the device that it is checked for: what its Level Zero
driver reports of it, or for Intel's products what the drivers report when they simulate them, and which SPIR-V versions
they were seen to build.

The structures are ze_device_module_properties_t and ze_float_atomic_ext_properties_t (zeDeviceGetModuleProperties), and
ze_device_image_properties_t (zeDeviceGetImageProperties), whose limits are 0 where there are no images.

Products were asked of drivers 1.3.24595 (22.43), which reports SPIR-V 1.2, builds up to 1.4 and ends its process on
more, and 1.15.39122 (26.27), which reports 1.5 and builds 1.6."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from symd.errors import InvalidInput
from symd.formats.spirv import Opcode, by_value_parameters, text
from symd.formats.spirv.module import Body, SpirvModule
from symd.formats.spirv_rules.grammar import MIN_OPERANDS, NO_TYPE

FLAGS = ("GLOBAL_LOAD_STORE", "GLOBAL_ADD", "GLOBAL_MIN_MAX", "LOCAL_LOAD_STORE", "LOCAL_ADD", "LOCAL_MIN_MAX")
"""The flags of ze_device_fp_atomic_ext_flags_t, by bit, without their common prefix."""

_SWITCHES = ("images", "fp16_module", "fp64_module", "int64_atomics")
_WIDTHS = ("fp16", "fp32", "fp64")
_HINT = "write for example --device images=false,fp32=GLOBAL_ADD+LOCAL_ADD,spirv_max=1.4"


@dataclass(frozen=True, slots=True)
class Device:
    """What a device supports, as far as rules about a module depend on it. ``fp16``, ``fp32`` and ``fp64`` are sets
    of FLAGS; ``spirv_max`` is the highest SPIR-V version (major, minor) that the driver builds; ``driver`` its
    generation and ``reads_sets`` the instruction sets that it can read, where they are known: its process ends on
    others."""

    images: bool = True
    fp16_module: bool = True
    fp64_module: bool = True
    int64_atomics: bool = True
    fp16: frozenset[str] = frozenset()
    fp32: frozenset[str] = frozenset()
    fp64: frozenset[str] = frozenset()
    spirv_max: tuple[int, int] = (1, 4)
    driver: str = ""
    reads_sets: frozenset[str] | None = None

    def atomics(self, width: int) -> frozenset[str]:
        """The floating-point atomic flags for a width in bits; empty for a width without any."""
        return {16: self.fp16, 32: self.fp32, 64: self.fp64}.get(width, frozenset())

    @classmethod
    def parse(cls, text: str, known: Mapping[str, Device] = MappingProxyType({})) -> Device:
        """``KEY=VALUE`` pairs parted by commas; what is not named keeps its default, or is as the ``known`` device has
        it whose name comes first. Raises InvalidInput."""
        pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
        device = known.get(pieces[0]) if pieces else None
        properties: dict[str, Any] = {}
        for item in pieces if device is None else pieces[1:]:
            key, equals, value = item.partition("=")
            if not equals:
                names = f"; or begin with one of {', '.join(sorted(known))}" if known else ""
                raise InvalidInput(f"{item!r} is not KEY=VALUE", where="--device", hint=f"{_HINT}{names}")
            properties[key.strip()] = _value(key.strip(), value.strip())
        return replace(device or cls(), **properties)


def _value(key: str, value: str) -> bool | frozenset[str] | tuple[int, int]:
    if key in _SWITCHES:
        return _switch(key, value)
    if key in _WIDTHS:
        return _flags(key, value)
    if key == "spirv_max":
        return _version(value)
    known = ", ".join((*_SWITCHES, *_WIDTHS, "spirv_max"))
    raise InvalidInput(f"{key!r} is not a property; known are {known}", where="--device", hint=_HINT)


def _switch(key: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidInput(f"{key} is true or false, not {value!r}", where="--device", hint=_HINT)
    return value.lower() == "true"


def _flags(key: str, value: str) -> frozenset[str]:
    names = frozenset(name.strip().upper() for name in value.split("+") if name.strip())
    unknown = sorted(names.difference(FLAGS))
    if unknown:
        known = ", ".join(FLAGS)
        raise InvalidInput(f"{key}: {unknown[0]!r} is not a flag; known are {known}", where="--device", hint=_HINT)
    return names


def _version(value: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", value)
    if match is None:
        raise InvalidInput(f"spirv_max is MAJOR.MINOR, not {value!r}", where="--device", hint=_HINT)
    return int(match[1]), int(match[2])


_GLOBAL = frozenset({"GLOBAL_LOAD_STORE", "GLOBAL_ADD", "GLOBAL_MIN_MAX"})
_OLDER_SETS = frozenset({"OpenCL.std", "SPIRV.debug", "OpenCL.DebugInfo.100"})
_NEWER_SETS = _OLDER_SETS | {"NonSemantic.Shader.DebugInfo.100", "NonSemantic.Shader.DebugInfo.200"}

_OLDER = Device(spirv_max=(1, 4), driver="22.43", reads_sets=_OLDER_SETS)
_NEWER = Device(
    fp16=frozenset(FLAGS) - {"GLOBAL_ADD", "LOCAL_ADD"},
    fp32=frozenset(FLAGS),
    fp64=frozenset(FLAGS),
    spirv_max=(1, 6),
    driver="26.27",
    reads_sets=_NEWER_SETS,
)
_NEWER_WITHOUT_DOUBLE = ("tgllp", "dg2", "dg1", "adl-s")
_BY_GENERATION: Mapping[str, Mapping[str, Device]] = {
    "22.43": {
        "skl": _OLDER,
        "tgllp": replace(_OLDER, fp64_module=False),
        "dg2": replace(_OLDER, fp64_module=False, fp32=frozenset({"GLOBAL_ADD"})),
        "pvc": replace(_OLDER, images=False, fp16=_GLOBAL, fp32=_GLOBAL, fp64=_GLOBAL),
    },
    "26.27": {
        **{name: replace(_NEWER, fp64_module=False) for name in _NEWER_WITHOUT_DOUBLE},
        **dict.fromkeys(("bmg", "ptl", "lnl", "mtl"), _NEWER),
        "pvc": replace(_NEWER, images=False),
    },
}

PRODUCTS: Mapping[str, Device] = {
    **{
        name: device
        for products in (_BY_GENERATION["26.27"], _BY_GENERATION["22.43"])
        for name, device in products.items()
    },
    **{f"{driver}:{name}": device for driver, products in _BY_GENERATION.items() for name, device in products.items()},
}
"""The devices that drivers can simulate, by "PRODUCT", for the older driver generation where both have it, and by
"GENERATION:PRODUCT"."""


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
        if self.opcode in (Opcode.TypeInt, Opcode.TypeFloat):
            return f"{_NAMES[self.opcode]} {self.operands[0]}"
        return _NAMES.get(self.opcode, f"type of opcode {self.opcode}")


_NAMES = {op.value: f"Op{op.name}" for op in Opcode if op.name.startswith("Type")}


class CheckedModule(SpirvModule):
    """Adds to functions and entry points what the rules ask for."""

    def each(self, *opcodes: int) -> Iterator[tuple[int, list[int]]]:
        """(instruction number, operands); instructions too short for their opcode are the header rule's business."""
        for number, ops in self.words.each(*opcodes):
            if len(ops) >= MIN_OPERANDS.get(self.opcode(number), 0):
                yield number, ops

    def opcode(self, number: int) -> int:
        return self.words.opcode[number]

    @cached_property
    def types(self) -> dict[int, Type]:
        found: dict[int, Type] = {}
        for number, ops in self.each(*range(Opcode.TypeVoid, Opcode.TypePipe + 1)):
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
        return kind.operands[0] if kind is not None and kind.opcode == Opcode.TypePointer else None

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
        return {ops[0]: number for number, ops in self.each(Opcode.Capability)}

    @cached_property
    def extensions(self) -> frozenset[str]:
        return frozenset(text(ops)[0] for _, ops in self.each(Opcode.Extension))

    @cached_property
    def by_value(self) -> frozenset[int]:
        """Parameters that are decorated FuncParamAttr ByVal."""
        return by_value_parameters(self.words)

    def component(self, kind: Type | None) -> tuple[Type | None, int]:
        """(component type, component count) of a vector; (the type itself, 1) otherwise."""
        if kind is not None and kind.opcode == Opcode.TypeVector:
            return self.types.get(kind.operands[0]), kind.operands[1]
        return kind, 1

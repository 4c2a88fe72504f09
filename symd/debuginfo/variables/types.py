"""Types as structure: a table in which types mean each other by number, so that cycles are just numbers."""

from __future__ import annotations

import itertools
from dataclasses import replace

from symd.debuginfo.variables import type_names as tags
from symd.debuginfo.variables.constants import Reading
from symd.debuginfo.variables.dies import BYTE_SIZE, CONST_VALUE, DECLARATION, Die, Dies, Value
from symd.debuginfo.variables.registers import address_space
from symd.debuginfo.variables.type_names import TypeNames, bounds, default_lower_bound
from symd.dwarf import forms
from symd.dwarf.cursor import Cursor
from symd.errors import Malformed
from symd.model.code import Vendor
from symd.model.variables import Member, TypeInfo

MOST_TYPES = 4096
MOST_PARTS = 4096
"""Members, parameters and enumerators of one type."""
_KINDS = {
    tags.BASE: "base", tags.POINTER: "pointer", tags.REFERENCE: "reference", tags.RVALUE_REFERENCE: "rvalue_reference",
    tags.MEMBER_POINTER: "member_pointer", tags.STRUCTURE: "structure", tags.CLASS: "class", tags.UNION: "union",
    tags.ENUMERATION: "enumeration", tags.TYPEDEF: "typedef", tags.CONST: "const", tags.VOLATILE: "volatile",
    tags.RESTRICT: "restrict", tags.ATOMIC: "atomic", tags.SUBROUTINE: "function", tags.UNSPECIFIED: "unspecified",
    tags.ARRAY: "array",
}  # fmt: skip
_ENCODINGS = {
    1: "address", 2: "boolean", 3: "complex_float", 4: "float", 5: "signed", 6: "signed_char", 7: "unsigned",
    8: "unsigned_char", 9: "imaginary_float", 10: "packed_decimal", 11: "numeric_string", 12: "edited",
    13: "signed_fixed", 14: "unsigned_fixed", 15: "decimal_float", 16: "UTF", 17: "UCS", 18: "ASCII",
}  # fmt: skip
_ALIASES = frozenset({"typedef", "const", "volatile", "restrict", "atomic"})
_POINTERS = frozenset({"pointer", "reference", "rvalue_reference"})
_MEMBER, _INHERITANCE, _ENUMERATOR, _PARAMETER = 0x0D, 0x1C, 0x28, 0x05
_ENCODING, _ADDRESS_CLASS, _GNU_VECTOR, _EXTERNAL = 0x3E, 0x33, 0x2107, 0x3F
_MEMBER_LOCATION, _BIT_SIZE, _BIT_OFFSET, _DATA_BIT_OFFSET = 0x38, 0x0D, 0x0C, 0x6B
_PLUS_UCONST, _CONSTU = 0x23, 0x10
_ALIAS_STEPS = 32


class TypeTable:
    """Types numbered as they are met; ``all`` completes what was only referred to. ``full`` says that MOST_TYPES were
    reached and further ones are None."""

    def __init__(self, dies: Dies, names: TypeNames, vendor: Vendor) -> None:
        self._dies = dies
        self._names = names
        self._vendor = vendor
        self._numbers: dict[int, int] = {}
        self._found: list[Die] = []
        self._made: list[TypeInfo] = []
        self.full = False

    def number(self, die: Die | None) -> int | None:
        """The type's number; None for no type (void), and when the table is full."""
        if die is None:
            return None
        known = self._numbers.get(die.at)
        if known is None:
            if len(self._found) >= MOST_TYPES:
                self.full = True
                return None
            known = self._numbers[die.at] = len(self._found)
            self._found.append(die)
        return known

    def all(self) -> tuple[TypeInfo, ...]:
        while len(self._made) < len(self._found):
            self._made.append(self._make(self._found[len(self._made)]))
        return tuple(self._sized(number) for number in range(len(self._made)))

    def reading(self, die: Die | None) -> Reading:
        """How a constant of this type is read."""
        for _ in range(_ALIAS_STEPS):
            if die is None or _KINDS.get(die.tag) not in _ALIASES:
                break
            die = self._dies.type_of(die)
        if die is None:
            return Reading("")
        if die.tag == tags.BASE:
            return Reading(self._encoding(die) or "", _constant(die, BYTE_SIZE))
        if _KINDS.get(die.tag) in _POINTERS:
            return Reading("address", _constant(die, BYTE_SIZE))
        if die.tag == tags.ENUMERATION:
            return Reading("", _constant(die, BYTE_SIZE))
        return Reading("bytes", _constant(die, BYTE_SIZE))

    def _make(self, die: Die) -> TypeInfo:
        kind = _KINDS.get(die.tag, f"tag {die.tag:#x}")
        first = default_lower_bound(self._dies, die)
        parts = (
            _Parts(self._dies, die)
            if kind in ("structure", "class", "union", "function", "enumeration", "array")
            else None
        )
        return TypeInfo(
            text=self._names.of(die),
            kind="vector" if kind == "array" and _GNU_VECTOR in die.attributes else kind,
            size=self._own_size(die, kind),
            encoding=self._encoding(die),
            target=self.number(self._dies.type_of(die)),
            counts=tuple(bounds(one, first)[1] for one in parts.of(tags.SUBRANGE)) if parts else (),
            members=tuple(map(self._member, parts.members())) if parts else (),
            parameters=tuple(self.number(self._dies.type_of(one)) for one in parts.of(_PARAMETER)) if parts else (),
            enumerators=tuple(map(self._enumerator, parts.of(_ENUMERATOR))) if parts else (),
            address_space=self._space(die) if kind in _POINTERS else None,
        )

    def _own_size(self, die: Die, kind: str) -> int | None:
        size = _constant(die, BYTE_SIZE)
        return die.unit.widths.address if size is None and kind in _POINTERS else size

    def _encoding(self, die: Die) -> str | None:
        number = _constant(die, _ENCODING)
        return None if number is None else _ENCODINGS.get(number, f"encoding {number:#x}")

    def _space(self, die: Die) -> str | None:
        number = _constant(die, _ADDRESS_CLASS)
        return None if number is None else address_space(self._vendor, number)

    def _member(self, die: Die) -> Member:
        offset = _offset(die.attributes.get(_MEMBER_LOCATION))
        bit_size = _constant(die, _BIT_SIZE)
        bit_offset = _constant(die, _DATA_BIT_OFFSET)
        if bit_size is not None and bit_offset is None:
            bit_offset = self._old_bit_offset(die, offset or 0, bit_size)
        if bit_offset is not None and offset is None:
            offset = bit_offset // 8
        if offset is None and die.tag == _MEMBER:
            offset = 0  # a member of a union may have no location
        return Member(self._dies.name(die), self.number(self._dies.type_of(die)), offset, bit_offset, bit_size)

    def _old_bit_offset(self, die: Die, offset: int, bit_size: int) -> int | None:
        """DWARF 2 and 3 count a bit field from the highest bit of its storage (DWARF 3, 5.6.6)."""
        from_top = _constant(die, _BIT_OFFSET)
        storage = _constant(die, BYTE_SIZE)
        if storage is None:
            storage = self.reading(self._dies.type_of(die)).size
        return None if from_top is None or storage is None else 8 * (offset + storage) - from_top - bit_size

    def _enumerator(self, die: Die) -> tuple[str, int]:
        return self._dies.name(die), _constant(die, CONST_VALUE) or 0

    def _sized(self, number: int) -> TypeInfo:
        """With the size that follows from the types it is made from."""
        info = self._made[number]
        return info if info.size is not None else replace(info, size=self._size(number, _ALIAS_STEPS))

    def _size(self, number: int, steps: int) -> int | None:
        info = self._made[number]
        if info.size is not None or info.target is None or not steps:
            return info.size
        if info.kind in _ALIASES:
            return self._size(info.target, steps - 1)
        if info.kind not in ("array", "vector") or not info.counts:
            return None
        size = self._size(info.target, steps - 1)
        for count in info.counts:
            size = None if size is None or count is None or size > 1 << 62 else size * count
        return size


class _Parts:
    """The children of a type's DIE, read once."""

    def __init__(self, dies: Dies, die: Die) -> None:
        self._children = list(itertools.islice(dies.children(die), MOST_PARTS))

    def of(self, tag: int) -> list[Die]:
        return [child for child in self._children if child.tag == tag]

    def members(self) -> list[Die]:
        """Fields and base classes; not static members, which are declarations of variables."""
        return [
            child
            for child in self._children
            if child.tag in (_MEMBER, _INHERITANCE)
            and not (child.tag == _MEMBER and {_EXTERNAL, DECLARATION} & child.attributes.keys())
        ]


def _constant(die: Die, attribute: int) -> int | None:
    value = die.attributes.get(attribute)
    return value.number if value is not None and value.is_constant else None


def _offset(value: Value | None) -> int | None:
    """A member's offset: a number, or before DWARF 3 the expression that adds it."""
    if value is None:
        return None
    if value.data is None or value.form in forms.CONSTANTS:
        return value.number
    if value.data[:1] not in (bytes([_PLUS_UCONST]), bytes([_CONSTU])):
        return None
    try:
        return Cursor(value.data, "member location", 1, len(value.data)).uleb()
    except Malformed:
        return None

"""Types as a table in which types refer to each other by number, so that cycles are just numbers; and constants by
their type: the bytes of a float are a number, those of a struct are bytes.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from symd.debuginfo.dwarf import At, Tag, forms
from symd.debuginfo.dwarf.forms import Cursor
from symd.debuginfo.dwarf.variable_constants import Ate, Op
from symd.debuginfo.variables import Die, DieReader, Value
from symd.debuginfo.variables.registers import address_space
from symd.debuginfo.variables.type_names import TypeNames, bounds, default_lower_bound
from symd.errors import Malformed
from symd.model.code import Vendor
from symd.model.variables import DISCRIMINANT, Member, TypeInfo

_FLOATS = {2: ("<e", np.float16), 4: ("<f", np.float32), 8: ("<d", np.float64)}
_SHOWN = 64
"""Bytes that a text gives."""
_SIGNED = frozenset({"signed", "signed_char", ""})
"""Encodings whose highest bit is a sign."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the bytes of a value are read: a base type's encoding and size, "address" for pointers, "bytes" for what is
    no single number, "" where nothing is known."""

    encoding: str
    size: int | None = None

    def cut(self, data: bytes) -> bytes:
        """``data``, lowest byte first, without the bytes that are more than the type has."""
        size = self.size
        return data[:size] if size is not None and 0 < size < len(data) else data

    def number(self, data: bytes) -> int | None:
        """``data`` as a signed number of at most 64 bits, a float as its bits; None where the type is no single number,
        or has no bytes or more."""
        data = self.cut(data)
        if self.encoding == "bytes" or not 0 < len(data) <= 8:
            return None
        value = int.from_bytes(data, "little", signed=self.encoding in _SIGNED)
        return value - (1 << 64) if value >> 63 > 0 else value

    def text(self, data: bytes) -> str:
        """``data`` as a number of the type."""
        data = self.cut(data)
        if not data:
            return "of no bytes"
        if self.encoding == "bytes" or len(data) > 16:
            return f"bytes {data[:_SHOWN].hex(' ')}" + ("..." if len(data) > _SHOWN else "")
        if self.encoding == "float" and len(data) in _FLOATS and len(data) == self.size:
            return _float_text(data)
        number = int.from_bytes(data, "little")
        if self.encoding == "address":
            return hex(number)
        if self.encoding == "boolean":
            return "true" if number else "false"
        return str(int.from_bytes(data, "little", signed=self.encoding in _SIGNED))


def _float_text(data: bytes) -> str:
    """The shortest text that reads back as the same float of its size."""
    layout, kind = _FLOATS[len(data)]
    return str(kind(struct.unpack(layout, data)[0]))


MAX_TYPES = 4096
"""Types of one answer."""
MAX_CHILDREN = 4096
"""Members, parameters and enumerators of one type."""
_KINDS: Mapping[int, str] = {
    Tag.DW_TAG_base_type: "base",
    Tag.DW_TAG_pointer_type: "pointer",
    Tag.DW_TAG_reference_type: "reference",
    Tag.DW_TAG_rvalue_reference_type: "rvalue_reference",
    Tag.DW_TAG_ptr_to_member_type: "member_pointer",
    Tag.DW_TAG_structure_type: "structure",
    Tag.DW_TAG_class_type: "class",
    Tag.DW_TAG_union_type: "union",
    Tag.DW_TAG_enumeration_type: "enumeration",
    Tag.DW_TAG_typedef: "typedef",
    Tag.DW_TAG_const_type: "const",
    Tag.DW_TAG_volatile_type: "volatile",
    Tag.DW_TAG_restrict_type: "restrict",
    Tag.DW_TAG_atomic_type: "atomic",
    Tag.DW_TAG_subroutine_type: "function",
    Tag.DW_TAG_unspecified_type: "unspecified",
    Tag.DW_TAG_array_type: "array",
    Tag.DW_TAG_string_type: "string",
}
_ENCODINGS: Mapping[int, str] = {int(encoding): encoding.name.removeprefix("DW_ATE_") for encoding in Ate}
_ALIASES = frozenset({"typedef", "const", "volatile", "restrict", "atomic"})
_POINTERS = frozenset({"pointer", "reference", "rvalue_reference"})
_ALIAS_STEPS = 32
"""Typedefs and qualifiers that are followed from a type to what it is; more are a cycle."""
_OFFSET_OPERATIONS = (bytes([Op.DW_OP_plus_uconst]), bytes([Op.DW_OP_constu]))
"""The first byte of the expressions by which DWARF 2 states a member's offset."""


class TypeTable:
    """Types numbered as they are met; ``all`` completes what was only referred to. ``full`` says that MAX_TYPES were
    reached and further ones are None."""

    def __init__(self, dies: DieReader, names: TypeNames, vendor: Vendor) -> None:
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
            if len(self._found) >= MAX_TYPES:
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
        if die.tag == Tag.DW_TAG_base_type:
            return Reading(self._encoding(die) or "", _byte_size(die))
        if _KINDS.get(die.tag) in _POINTERS:
            return Reading("address", _byte_size(die))
        if die.tag == Tag.DW_TAG_enumeration_type:
            return self._of_enumeration(die)
        return Reading("bytes", _byte_size(die))

    def _of_enumeration(self, die: Die) -> Reading:
        """How a constant of an enumeration is read: by the type under it, which says whether it has a sign (DWARF 3 on,
        5.7)."""
        size, under = _byte_size(die), self._dies.type_of(die)
        for _ in range(_ALIAS_STEPS):
            if under is None or _KINDS.get(under.tag) not in _ALIASES:
                break
            under = self._dies.type_of(under)
        if under is None or under.tag != Tag.DW_TAG_base_type:
            return Reading("", size)
        return Reading(self._encoding(under) or "", _byte_size(under) if size is None else size)

    def _make(self, die: Die) -> TypeInfo:
        kind = _KINDS.get(die.tag, f"tag {die.tag:#x}")
        first = default_lower_bound(self._dies, die)
        parts = (
            _Children(self._dies, die)
            if kind in ("structure", "class", "union", "function", "enumeration", "array")
            else None
        )
        return TypeInfo(
            text=self._names.of(die),
            kind="vector" if kind == "array" and At.DW_AT_GNU_vector in die.attributes else kind,
            size=self._own_size(die, kind),
            encoding=self._encoding(die),
            target=self.number(self._dies.type_of(die)),
            counts=tuple(_count(one, first) for one in parts.of(Tag.DW_TAG_subrange_type)) if parts else (),
            members=tuple(self._members(parts.members(), None)) if parts else (),
            parameters=tuple(self.number(self._dies.type_of(one)) for one in parts.of(Tag.DW_TAG_formal_parameter))
            if parts
            else (),
            enumerators=tuple(map(self._enumerator, parts.of(Tag.DW_TAG_enumerator))) if parts else (),
            address_space=self._space(die) if kind in _POINTERS else None,
        )

    def _own_size(self, die: Die, kind: str) -> int | None:
        size = _byte_size(die)
        return die.unit.widths.address if size is None and kind in _POINTERS else size

    def _encoding(self, die: Die) -> str | None:
        number = _constant(die, At.DW_AT_encoding)
        return None if number is None else _ENCODINGS.get(number, f"encoding {number:#x}")

    def _space(self, die: Die) -> str | None:
        number = _constant(die, At.DW_AT_address_class)
        return None if number is None else address_space(self._vendor, number)

    def _members(self, dies: Iterable[Die], discriminant: int | None) -> Iterator[Member]:
        """Fields and base classes, and what is in parts that have variants: the field that tells these apart, and
        the fields of each."""
        for die in dies:
            if die.tag != Tag.DW_TAG_variant_part:
                yield replace(self._member(die), discriminant=discriminant)
                continue
            for child in itertools.islice(self._dies.children(die), MAX_CHILDREN):
                if child.tag == Tag.DW_TAG_member:
                    yield replace(self._member(child), name=self._dies.name(child) or DISCRIMINANT)
                elif child.tag == Tag.DW_TAG_variant:
                    value = _constant(child, At.DW_AT_discr_value)
                    yield from self._members(_Children(self._dies, child).members(), value)

    def _member(self, die: Die) -> Member:
        offset = _offset(die.attributes.get(At.DW_AT_data_member_location))
        bit_size = _constant(die, At.DW_AT_bit_size)
        bit_offset = _constant(die, At.DW_AT_data_bit_offset)
        if bit_size is not None and bit_offset is None:
            bit_offset = self._old_bit_offset(die, offset or 0, bit_size)
        if bit_offset is not None and offset is None:
            offset = bit_offset // 8
        if offset is None and die.tag == Tag.DW_TAG_member:
            offset = 0  # a member of a union may have no location
        return Member(self._dies.name(die), self.number(self._dies.type_of(die)), offset, bit_offset, bit_size)

    def _old_bit_offset(self, die: Die, offset: int, bit_size: int) -> int | None:
        """DWARF 2 and 3 count a bit field from the highest bit of its storage (DWARF 3, 5.6.6)."""
        from_top = _constant(die, At.DW_AT_bit_offset)
        storage = _byte_size(die)
        if storage is None:
            storage = self.reading(self._dies.type_of(die)).size
        return None if from_top is None or storage is None else 8 * (offset + storage) - from_top - bit_size

    def _enumerator(self, die: Die) -> tuple[str, int]:
        return self._dies.name(die), _constant(die, At.DW_AT_const_value) or 0

    def _sized(self, number: int) -> TypeInfo:
        """A type with the size that follows from the types it is made from."""
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


class _Children:
    """The children of a type's DIE, read once."""

    def __init__(self, dies: DieReader, die: Die) -> None:
        self._children = list(itertools.islice(dies.children(die), MAX_CHILDREN))

    def of(self, tag: int) -> list[Die]:
        return [child for child in self._children if child.tag == tag]

    def members(self) -> list[Die]:
        """Fields, base classes and parts with variants; not static members, which are declarations of variables."""
        return [
            child
            for child in self._children
            if child.tag in (Tag.DW_TAG_member, Tag.DW_TAG_inheritance, Tag.DW_TAG_variant_part)
            and not (
                child.tag == Tag.DW_TAG_member and {At.DW_AT_external, At.DW_AT_declaration} & child.attributes.keys()
            )
        ]


def _constant(die: Die, attribute: int) -> int | None:
    value = die.attributes.get(attribute)
    return value.number if value is not None and value.is_constant else None


def _byte_size(die: Die) -> int | None:
    """DW_AT_byte_size. A form with a sign can state one below 0, which is no size."""
    size = _constant(die, At.DW_AT_byte_size)
    return None if size is None or size < 0 else size


def _count(dimension: Die, default_lower: int | None) -> int | None:
    """The element count of a dimension: none where its last index is below its first one, as GDB has it."""
    count = bounds(dimension).elements(default_lower)
    return None if count is None else max(count, 0)


def _offset(value: Value | None) -> int | None:
    """A member's offset: a number, or before DWARF 3 the expression that adds it."""
    if value is None:
        return None
    data = value.data
    if data is None or value.form in forms.CONSTANTS:
        return value.number
    if data[:1] not in _OFFSET_OPERATIONS:
        return None
    try:
        return Cursor(data, "member location", 1, len(data)).uleb()
    except Malformed:
        return None

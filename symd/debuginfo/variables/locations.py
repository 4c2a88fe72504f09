"""Where one variable is at an address: its location attribute, list or expression, made into text, and why a location
cannot be right.

LLVM marks a variable in AMD's private memory at the end of its expression, and leaves the mark there when it keeps the
value in a register, or knows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from symd.debuginfo.dwarf import At, Form
from symd.debuginfo.dwarf.units import Unit
from symd.debuginfo.dwarf.variable_constants import Op
from symd.debuginfo.relocation import LinearLayout, first_base
from symd.debuginfo.text_ranges import section_of
from symd.debuginfo.variables import Die, DieReader, Value
from symd.debuginfo.variables.lanes import Evaluations, LaneLocation, OperandNames, is_one_constant
from symd.debuginfo.variables.location_lists import ListEntry, ListEntryBudget, ListReader
from symd.debuginfo.variables.location_records import MAX_BYTES, Description, constant, describe, in_words
from symd.debuginfo.variables.machine import (
    Constant,
    Deref,
    ExpressionContext,
    Register,
    StackValue,
    StepBudget,
    Sum,
    Term,
)
from symd.debuginfo.variables.registers import (
    NVIDIA_REGISTER_CLASS,
    PRIVATE_SPACES,
    RegisterName,
    address_space,
    is_vector,
    machine_registers,
    ptx_name,
    register_name,
)
from symd.debuginfo.variables.scopes import AddressRange
from symd.debuginfo.variables.types import Reading
from symd.errors import LimitExceeded, Malformed
from symd.model.code import CodeObject, Vendor
from symd.model.variables import LocationDoubt, LocationPiece, PieceKind, VariableLocation

FIRST_WITH_STACK_VALUE = 4
"""The version of DWARF that brought DW_OP_stack_value. In older units compilers write a variable's constant value as if
it were an address (LLVM's DwarfExpression::addStackValue)."""
_FEW_BYTES = 4096
"""Bytes of a DIE that are not counted."""
_EXPRESSION_STEPS = 64
"""What an expression takes, however short, until it is told in words."""
_BYTES_A_STEP = 64
"""Bytes of a larger one that count as one operation of an expression."""
_MAX_VALUE_BYTES = 8
"""Bytes of a variable whose value one register or number can be."""
_NO_PRIVATE_MEMORY = "private memory, of which the kernel has none"
_SASS = ".nv_debug_info_reg_sass"


class LocationAt(NamedTuple):
    """Where a variable is at one address. ``text`` says where the variable is (None: nowhere here) and ``locations``
    the same as structure; ``ranges`` are the linear ranges in which it is somewhere, ``everywhere`` that these are
    all of its scope."""

    text: str | None
    locations: tuple[VariableLocation, ...] = ()
    ranges: tuple[AddressRange, ...] = ()
    everywhere: bool = False


class Locator:
    """Finds out where variables are, at one linear ``address``, which lies in text section number ``section``.
    ``frame_divisor`` is what ``registers.frame_divisor`` says."""

    def __init__(
        self,
        code: CodeObject,
        dies: DieReader,
        layout: LinearLayout,
        evaluations: Evaluations,
        section: int,
        address: int,
        frame_divisor: int = 1,
    ) -> None:
        self._code = code
        self._frame_divisor = frame_divisor
        self._evaluations = evaluations
        self._dies = dies
        self._layout = layout
        self._address = address
        self._vendor = code.vendor
        self._function: Die | None = None
        self._lanes: int | None = None
        self._machine_registers = self._sass(section)
        self._without_private = self._vendor is Vendor.AMD and self._is_without_private(section)
        self._step_budget = StepBudget()
        self._lists = ListReader(dies, ListEntryBudget())

    def enter(self, function: Die | None, lanes: int | None) -> None:
        """The function whose frame variables are in, and how many SIMD lanes share its code."""
        self._function, self._lanes = function, lanes

    def find(self, die: Die, reading: Reading) -> LocationAt:
        """Where the variable ``die`` is. What cannot be read is said in the text."""
        found = self._dies.find(die, At.DW_AT_location)
        value = self._dies.find(die, At.DW_AT_const_value) if found is None else None
        try:
            if found is not None:
                return self._located(die, *found, reading)
            return LocationAt(None) if value is None else self._constant(*value, self._operand_names(die, reading))
        except (Malformed, LimitExceeded) as error:
            text = f"unreadable: {error}"
            return LocationAt(text, _alone(in_words(text)))

    def _located(self, die: Die, owner: Die, value: Value, reading: Reading) -> LocationAt:
        names = self._operand_names(die, reading)
        self._charge(owner.end - owner.at)
        if value.is_block:
            said = self._described(owner.unit, value.data or b"", names)
            return LocationAt(None) if said is None else LocationAt(said.text, said.locations, everywhere=True)
        entries = self._lists.entries(owner.unit, value)
        if entries is None:
            return LocationAt(None)
        told = [self._described(owner.unit, entry.expression, names) for entry in self._here(entries)]
        all_told = [one for one in told if one is not None]
        return LocationAt(
            "; also ".join(one.text for one in all_told) or None,
            tuple(one for each in all_told for one in each.locations),
            tuple(AddressRange(entry.start, entry.end) for entry in entries if not entry.default and entry.expression),
            any(entry.default for entry in entries),
        )

    def _here(self, entries: list[ListEntry]) -> list[ListEntry]:
        """The entries that hold at the address: the default one only where no other does."""
        here = [entry for entry in entries if entry.start <= self._address < entry.end]
        return here or [entry for entry in entries if entry.default]

    def _described(self, unit: Unit, expression: bytes, names: OperandNames) -> Description | None:
        self._dies.spend(_EXPRESSION_STEPS)
        if unit.version < FIRST_WITH_STACK_VALUE and names.memory is None and is_one_constant(expression):
            expression += bytes([Op.DW_OP_stack_value])
        context = self._context(unit)
        found = self._evaluations.evaluate(expression, context, self._lanes)
        size = names.reading.size
        if context.without_private and size is not None and size > _MAX_VALUE_BYTES and _is_whole(found):
            as_written = self._evaluations.evaluate(expression, replace(context, without_private=False), self._lanes)
            if found != as_written:
                return Description(_NO_PRIVATE_MEMORY, _alone(in_words(_NO_PRIVATE_MEMORY)))
        said = describe(found, names)
        why = None if said is None or context.without_private else doubt(found, names.reading, self._vendor)
        if said is None or why is None:
            return said
        return Description(said.text, tuple(replace(each, doubt=why) for each in said.locations))

    def _context(self, unit: Unit) -> ExpressionContext:
        return ExpressionContext(
            vendor=self._vendor,
            widths=unit.widths,
            unit=unit.offset,
            address=partial(self._dies.address_entry, unit),
            frame_base=self._frame_base,
            called=lambda offset: self._expression(offset, At.DW_AT_location),
            name_of=self._name,
            text_at=self._code_text,
            step_budget=self._step_budget,
            without_private=self._without_private,
        )

    def _frame_base(self) -> bytes | None:
        return None if self._function is None else self._expression(self._function.at, At.DW_AT_frame_base)

    def _expression(self, offset: int, attribute: int) -> bytes | None:
        """The expression that an attribute of the DIE at ``offset`` says for the address."""
        die = self._dies.at(offset)
        found = None if die is None else self._dies.find(die, attribute)
        if found is None:
            return None
        owner, value = found
        self._charge(owner.end - owner.at)
        if value.is_block:
            return value.data
        here = self._here(self._lists.entries(owner.unit, value) or [])
        return here[0].expression if here else None

    def _name(self, offset: int) -> str:
        die = self._dies.at(offset)
        name = "" if die is None else self._dies.name(die)
        self._charge(len(name))
        return name

    def _charge(self, size: int) -> None:
        """Count many bytes of debug data as operations: any number of DIEs may have the same ones."""
        if size <= _FEW_BYTES:
            return
        self._step_budget.steps -= size // _BYTES_A_STEP
        if self._step_budget.steps < 0:
            raise Malformed("it overlaps itself without end", where=self._dies.sections.info.name)

    def _code_text(self, value: int) -> str | None:
        """A linear address of an unlinked object's text as section and offset: the number itself means nothing."""
        if self._code.linked or value < first_base(self._code):
            return None
        number, offset, found = section_of(self._layout, np.array([value], np.uint64))
        names = {section.index: section.name for section in self._code.sections}
        return f"({names[int(number[0])] if found[0] else '?'})+{int(offset[0]):#x}"

    def _constant(self, owner: Die, value: Value, names: OperandNames) -> LocationAt:
        self._charge(owner.end - owner.at)
        if value.form == Form.DW_FORM_string or not (value.is_block or value.is_constant):
            text = self._dies.text(owner, value)
            piece = LocationPiece(PieceKind.IMPLICIT, data=text.encode("utf-8", "replace")[:MAX_BYTES])
            return LocationAt(f"constant {text!r}", _alone(piece), everywhere=True)
        data = value.data
        if data is None:
            size = max(min(names.reading.size or 8, MAX_BYTES), (value.number.bit_length() + 7) // 8, 1)
            data = (value.number % (1 << 8 * size)).to_bytes(size, "little")
        return LocationAt(f"constant {names.reading.text(data)}", _alone(constant(data, names)), everywhere=True)

    def _operand_names(self, die: Die, reading: Reading) -> OperandNames:
        found = self._dies.find(die, At.DW_AT_address_class)
        number = found[1].number if found is not None and found[1].is_constant else 0
        in_register = self._vendor is Vendor.NVIDIA and number == NVIDIA_REGISTER_CLASS
        return OperandNames(
            register=self._register_name,
            space=partial(address_space, self._vendor),
            reading=reading,
            memory=number if number and not in_register else None,
            frame_divisor=self._frame_divisor,
        )

    def _register_name(self, number: int) -> RegisterName:
        """The name of a register; that of a PTX register with the machine's registers that hold it here, where the
        object says so."""
        name = register_name(self._vendor, number)
        if self._vendor is not Vendor.NVIDIA or self._machine_registers is None or ptx_name(number) is None:
            return RegisterName(name)
        return RegisterName(name, self._machine_registers.get(name, ()))

    def _is_without_private(self, section: int) -> bool:
        """Whether the address is in kernels alone that say they have no private memory, or in a function of a linked
        object whose kernels all say so."""
        offset = self._address - (self._layout.base_of(section) or 0)
        kernels = self._code.kernels
        held = [
            each
            for each in kernels
            if each.section_index == section and each.offset <= offset < each.offset + each.size
        ] or (kernels if self._code.linked else ())
        facts = (each.facts for each in held)
        return bool(held) and all(each.get("scratch") == 0 and not each.get("dynamic_stack") for each in facts)

    def _sass(self, section: int) -> dict[str, tuple[str, ...]] | None:
        """PTX to machine registers at the address; None where the object does not say it."""
        table = self._code.section(_SASS)
        base = self._layout.base_of(section)
        if table is None or base is None:
            return None
        offset = self._address - base
        held = [
            one
            for one in self._code.functions
            if one.section_index == section and one.offset <= offset < one.offset + one.size
        ]
        if not held:
            return None
        function = min(held, key=lambda one: one.size)
        return machine_registers(table.data, function.name, offset - function.offset)


def _is_whole(found: Sequence[LaneLocation]) -> bool:
    return all(len(each.pieces) == 1 and each.pieces[0].size is None for each in found)


def _alone(piece: LocationPiece) -> tuple[VariableLocation, ...]:
    return (VariableLocation((piece,)),)


VALUE_NOT_ADDRESS = "VALUE_NOT_ADDRESS"
"""The reason where what is said to be an address is the value."""
_REGISTER_BITS = 32
"""Bits that a vector register has for each lane."""
_MAX_SCALAR_BYTES = 8
"""Bytes of a scalar."""


def doubt(found: Sequence[LaneLocation], reading: Reading, vendor: Vendor) -> LocationDoubt | None:
    """Why a location is wrong, where it is one of AMD's code, of a scalar, and all of it is what cannot be.

    A variable of a function is at an offset from its frame, which all lanes share and scalar registers hold; only what
    is passed by address, which no scalar is, can be at an address of each lane's own. Nothing is loaded from a fixed
    address of private memory: a known value is meant.
    """
    size = _MAX_SCALAR_BYTES if reading.size is None and reading.encoding == "address" else reading.size
    if vendor is not Vendor.AMD or reading.encoding == "bytes" or size is None or not 0 < size <= _MAX_SCALAR_BYTES:
        return None
    pieces = [piece for each in found for piece in each.pieces if piece.place is not None]
    if not pieces or any(each.error for each in found):
        return None
    if all(_is_constant(piece.place) for piece in pieces):
        return LocationDoubt(
            VALUE_NOT_ADDRESS, "the address is the value: no variable is at a fixed address of private memory"
        )
    if all(_is_vector(piece.place) and (piece.size or 8 * size) <= _REGISTER_BITS for piece in pieces):
        what = "a vector register has the value: no scalar is in private memory at an address of each lane's own"
        return LocationDoubt(VALUE_NOT_ADDRESS, what)
    return None


def _is_vector(place: Term | None) -> bool:
    if not isinstance(place, Deref) or place.size is not None or place.space not in PRIVATE_SPACES:
        return False
    address = place.address
    if isinstance(address, Sum) and not address.offset.value:  # DW_OP_bregx adds one, if only 0
        address = address.base
    return isinstance(address, Register) and is_vector(address.number)


def _is_constant(place: Term | None) -> bool:
    value = place.term if isinstance(place, StackValue) else None
    if not isinstance(value, Deref) or value.size is not None or value.space not in PRIVATE_SPACES:
        return False
    return isinstance(value.address, Constant) and not value.address.linked

"""Where one variable lives at the address asked about: its location attribute, list or expression, made into text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from symd.debuginfo.layout import FIRST_BASE, Layout
from symd.debuginfo.variables import location_lists
from symd.debuginfo.variables.constants import Reading, constant_text
from symd.debuginfo.variables.describe import Words, describe
from symd.debuginfo.variables.dies import CONST_VALUE, Die, Dies, Value
from symd.debuginfo.variables.expression import evaluate
from symd.debuginfo.variables.machine import Allowance, Context
from symd.debuginfo.variables.registers import (
    NVIDIA_REGISTER_CLASS,
    address_space,
    ptx_name,
    register_name,
)
from symd.debuginfo.variables.sass_registers import machine_registers
from symd.debuginfo.variables.scopes import Span
from symd.dwarf.units import Unit
from symd.errors import LimitExceeded, Malformed
from symd.model.code import CodeObject, Vendor

LOCATION = 0x02
_FRAME_BASE, _ADDRESS_CLASS, _LOCLISTS_BASE = 0x40, 0x33, 0x8C
_SEC_OFFSET, _LOCLISTX, _STRING = 0x17, 0x22, 0x08
_DATA_OFFSETS = frozenset({0x06, 0x07})  # data4 and data8 are offsets before DWARF 4
_SASS = ".nv_debug_info_reg_sass"


class Home(NamedTuple):
    """``text`` says where the variable is (None: nowhere here); ``spans`` are the linear ranges in which it is somewhere,
    ``everywhere`` that these are all of its scope."""

    text: str | None
    spans: tuple[Span, ...] = ()
    everywhere: bool = False


class Locator:
    """Finds the homes of variables at one linear ``address``, which lies in text section number ``section``."""

    def __init__(self, code: CodeObject, dies: Dies, space: Layout, section: int, address: int) -> None:
        self._code = code
        self._dies = dies
        self._space = space
        self._address = address
        self._vendor = code.vendor
        self._function: Die | None = None
        self._lanes: int | None = None
        self._machine_registers = self._sass(section)
        self._allowance = Allowance()
        self._budget = location_lists.Budget()

    def enter(self, function: Die | None, lanes: int | None) -> None:
        """The function whose frame variables are in, and how many SIMD lanes share its code."""
        self._function, self._lanes = function, lanes

    def home(self, die: Die, reading: Reading) -> Home:
        """Where the variable ``die`` is. What cannot be read is said in the text."""
        found = self._dies.find(die, LOCATION)
        if found is None:
            constant = self._dies.find(die, CONST_VALUE)
            return Home(None) if constant is None else Home(self._constant(*constant, reading), everywhere=True)
        owner, value = found
        try:
            return self._located(die, owner, value, reading)
        except (Malformed, LimitExceeded) as error:
            return Home(f"unreadable: {error}")

    def _located(self, die: Die, owner: Die, value: Value, reading: Reading) -> Home:
        words = self._words(die, reading)
        if value.is_block:
            text = self._text(owner.unit, value.data or b"", words)
            return Home(text, everywhere=text is not None)
        entries = self._list(owner.unit, value)
        if entries is None:
            return Home(None)
        texts = [self._text(owner.unit, entry.expression, words) for entry in self._here(entries)]
        spans = tuple(Span(entry.start, entry.end) for entry in entries if not entry.default and entry.expression)
        everywhere = any(entry.default for entry in entries)
        return Home("; also ".join(text for text in texts if text is not None) or None, spans, everywhere)

    def _here(self, entries: list[location_lists.Entry]) -> list[location_lists.Entry]:
        """The entries that hold at the address: the default one only where no other does."""
        here = [entry for entry in entries if entry.start <= self._address < entry.end]
        return here or [entry for entry in entries if entry.default]

    def _list(self, unit: Unit, value: Value) -> list[location_lists.Entry] | None:
        """The list that the value refers to; None where it refers to none."""
        shape = self._list_unit(unit)
        if value.form == _LOCLISTX:
            offset = location_lists.offset_of(self._dies.sections, shape, value.number)
        elif value.form == _SEC_OFFSET or (value.form in _DATA_OFFSETS and unit.version < 4):
            offset = value.number
        else:
            return None
        return location_lists.read(self._dies.sections, shape, offset, self._budget)

    def _list_unit(self, unit: Unit) -> location_lists.Unit:
        top = self._dies.top(unit)
        stated = top.attributes.get(_LOCLISTS_BASE) if top is not None else None
        header = 12 if unit.widths.offset == 4 else 20
        return location_lists.Unit(
            unit.version,
            unit.widths.address,
            unit.widths.offset,
            unit.low_pc,
            header if stated is None else stated.number,
            partial(self._dies.address_entry, unit),
        )

    def _text(self, unit: Unit, expression: bytes, words: Words) -> str | None:
        return describe(evaluate(expression, self._context(unit), self._lanes), words)

    def _context(self, unit: Unit) -> Context:
        return Context(
            vendor=self._vendor,
            widths=unit.widths,
            unit=unit.offset,
            address=partial(self._dies.address_entry, unit),
            frame_base=self._frame_base,
            called=lambda offset: self._expression(offset, LOCATION),
            name_of=self._name,
            text_at=self._code_text,
            allowance=self._allowance,
        )

    def _frame_base(self) -> bytes | None:
        return None if self._function is None else self._expression(self._function.at, _FRAME_BASE)

    def _expression(self, offset: int, attribute: int) -> bytes | None:
        """The expression that an attribute of the DIE at ``offset`` says for the address."""
        die = self._dies.at(offset)
        found = None if die is None else self._dies.find(die, attribute)
        if found is None:
            return None
        owner, value = found
        if value.is_block:
            return value.data
        here = self._here(self._list(owner.unit, value) or [])
        return here[0].expression if here else None

    def _name(self, offset: int) -> str:
        die = self._dies.at(offset)
        return "" if die is None else self._dies.name(die)

    def _code_text(self, value: int) -> str | None:
        """A linear address of an unlinked object's text as section and offset: the number itself means nothing."""
        if self._code.linked or value < FIRST_BASE:
            return None
        number, offset, found = self._space.locate(np.array([value], np.uint64))
        names = {section.index: section.name for section in self._code.sections}
        return f"({names[int(number[0])] if found[0] else '?'})+{int(offset[0]):#x}"

    def _constant(self, owner: Die, value: Value, reading: Reading) -> str:
        if value.form == _STRING or not (value.is_block or value.is_constant):
            return f"constant {self._dies.text(owner, value)!r}"
        data = value.data
        if data is None:
            size = max(reading.size or 8, (value.number.bit_length() + 7) // 8, 1)
            data = (value.number % (1 << 8 * size)).to_bytes(size, "little")
        return f"constant {constant_text(data, reading)}"

    def _words(self, die: Die, reading: Reading) -> Words:
        found = self._dies.find(die, _ADDRESS_CLASS)
        number = found[1].number if found is not None and found[1].is_constant else 0
        in_register = self._vendor is Vendor.NVIDIA and number == NVIDIA_REGISTER_CLASS
        return Words(
            register=self._register_text(),
            space=partial(address_space, self._vendor),
            constant=partial(constant_text, reading=reading),
            memory=address_space(self._vendor, number) if number and not in_register else "",
        )

    def _register_text(self) -> Callable[[int], str]:
        return self._nvidia_register if self._vendor is Vendor.NVIDIA else partial(register_name, self._vendor)

    def _nvidia_register(self, number: int) -> str:
        """The machine's registers that hold a PTX register here, and that."""
        name = ptx_name(number)
        if name is None or self._machine_registers is None:
            return register_name(Vendor.NVIDIA, number)
        holding = self._machine_registers.get(name)
        return f"{':'.join(holding)} ({name})" if holding else f"{name} (in no machine register here)"

    def _sass(self, section: int) -> dict[str, tuple[str, ...]] | None:
        """PTX to machine registers at the address; None where the object does not say it."""
        table = self._code.section(_SASS)
        base = self._space.base_of(section)
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

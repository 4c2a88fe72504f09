"""Symbols of AMDGPU code by place: which are functions, which are assembly labels, and how far each one reaches.

Source: System V ABI, chapter 4, "Symbol Table"; LLVM's AMDGPU usage guide, "Symbols"."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from symd.containers import amdgpu_segments, elf
from symd.containers.elf import Elf, Symbol
from symd.model import Function, Section

STT_HSA_KERNEL = 10
_STT_NOTYPE, _STT_OBJECT, _STT_FUNC = 0, 1, 2
_SHF_ALLOC = 0x2


@dataclass(frozen=True, slots=True)
class Placed:
    """A symbol of code: ``offset`` counts from the start of ``section``; ``entry`` says function rather than label."""

    name: str
    section: Section
    offset: int
    size: int
    entry: bool
    kind: int


class Symbols:
    """``code``: every function and label by place; ``by_name``: the same; ``descriptors``: the ``.kd`` symbols by their
    kernel's name; ``relocatable``: symbol values are section offsets."""

    def __init__(self, image: Elf) -> None:
        symbols = _all_symbols(image)
        self.relocatable = image.type == 1
        self._image = image
        self._loaded = sorted(
            (section for section in image.sections if section.flags & _SHF_ALLOC and section.size),
            key=lambda section: section.address,
        )
        self._starts = [section.address for section in self._loaded]
        self.descriptors = {
            symbol.name.removesuffix(".kd"): symbol
            for symbol in symbols
            if symbol.name.endswith(".kd") and symbol.type in (_STT_OBJECT, _STT_NOTYPE) and symbol.section
        }
        self.code = _sized([placed for symbol in symbols if (placed := self._place(symbol))])
        self.by_name = {placed.name: placed for placed in self.code}

    def _place(self, symbol: Symbol) -> Placed | None:
        kernel = symbol.type in (_STT_FUNC, STT_HSA_KERNEL)
        if not symbol.name or not symbol.section or not (kernel or symbol.type == _STT_NOTYPE):
            return None
        if symbol.section >= 0xFF00 and symbol.section != 0xFFFF:
            return None  # absolute values, such as register counts that newer compilers leave as symbols
        section = self.holding(symbol)
        if section is None or not section.executable:
            return None
        offset = symbol.value - (0 if self.relocatable else section.address)
        if not 0 <= offset < max(section.size, 1):
            return None
        entry = kernel or symbol.name in self.descriptors
        return Placed(symbol.name, section, offset, symbol.size, entry, symbol.type)

    def holding(self, symbol: Symbol) -> Section | None:
        """The section that a symbol names, or, where that is not true, the one whose addresses hold it."""
        sections = self._image.sections
        named = sections[symbol.section] if symbol.section < len(sections) else None
        if self.relocatable or (named and named.address <= symbol.value < named.address + named.size):
            return named
        return self.at(symbol.value)

    def at(self, address: int) -> Section | None:
        """The loaded section that holds an address of a linked object."""
        slot = bisect_right(self._starts, address) - 1
        if slot < 0 or address >= self._starts[slot] + self._loaded[slot].size:
            return None
        return self._loaded[slot]

    def functions(self) -> list[Function]:
        return [Function(placed.name, placed.section.index, placed.offset, placed.size) for placed in self.code]

    def bytes_of(self, symbol: Symbol, size: int) -> bytes:
        """``size`` bytes at a symbol, from its section or its segment."""
        section = self.holding(symbol)
        if section and section.data:
            start = symbol.value - (0 if self.relocatable else section.address)
            return section.data[start : start + size]
        return b"" if self.relocatable else self._image.at_address(symbol.value, size)


def _sized(found: list[Placed]) -> list[Placed]:
    """Symbols without a size reach to the next one: a function to the next function, a label to the next symbol or
    the end of the function around it."""
    found.sort(key=lambda placed: (placed.section.index, placed.offset, not placed.entry))
    result: list[Placed] = []
    next_entry = next_any = (-1, 0)  # section, offset of the nearest symbol behind
    enclosing = _ends(found)
    for placed, inside in zip(reversed(found), reversed(enclosing), strict=True):
        number, offset = placed.section.index, placed.offset
        behind = next_entry if placed.entry else next_any
        end = behind[1] if behind[0] == number else placed.section.size
        if not placed.entry and inside > offset:
            end = min(end, inside)
        result.append(placed if placed.size else replace(placed, size=end - offset))
        next_entry = _behind(next_entry, number, offset) if placed.entry else next_entry
        next_any = _behind(next_any, number, offset)
    return result[::-1]


def _behind(last: tuple[int, int], section: int, offset: int) -> tuple[int, int]:
    """Symbols at one place share what is behind them."""
    return last if last == (section, offset) else (section, offset)


def _ends(found: list[Placed]) -> list[int]:
    """For each symbol the end of the sized function that covers it, 0 where none does."""
    result, number, end = [], -1, 0
    for placed in found:
        if placed.section.index != number:
            number, end = placed.section.index, 0
        if placed.entry and placed.size:
            end = max(end, placed.offset + placed.size)
        result.append(end if end > placed.offset else 0)
    return result


def _all_symbols(image: Elf) -> list[Symbol]:
    """Of .symtab, else of .dynsym, else of PT_DYNAMIC."""
    for kind in (elf.SHT_SYMTAB, elf.SHT_DYNSYM):
        table = next((section for section in image.sections if section.type == kind and section.data), None)
        if table:
            return image.symbols(table)
    return amdgpu_segments.dynamic_symbols(image)

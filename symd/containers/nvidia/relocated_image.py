"""Cubins as the driver loaded them: device addresses in ``st_value`` and in the debug data, while ``sh_addr`` stays 0. Each
text section begins where its symbols say.

Source: NVIDIA's ``cudadebugger.h`` on relocated images; cuda-gdb 12.4, which reads them so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symd.elf import Elf, Symbol
from symd.elf.constants import STT_FUNC, STT_SECTION
from symd.model.code import Section

_ADDRESS_SPACE_BYTES = 1 << 64


def is_relocated(image: Elf, symbols: Sequence[Symbol]) -> bool:
    """Whether functions lie past the end of their sections, all of them: in a cubin from a file none does."""
    functions = [one for one in symbols if one.type == STT_FUNC and _text(image, one) is not None]
    return bool(functions) and all(one.value > image.sections[one.section].size for one in functions)


def placed(image: Elf, symbols: Sequence[Symbol]) -> tuple[Elf, list[Symbol]]:
    """The image with its text sections at their device addresses, and the symbols of text counted from the start of
    their section again. A section that no symbol places stays at 0, where no device address is."""
    bases = _bases(image, symbols)
    sections = tuple(
        replace(section, address=bases[section.index]) if section.index in bases else section
        for section in image.sections
    )
    return replace(image, sections=sections), [_counted(one, bases) for one in symbols]


def _bases(image: Elf, symbols: Sequence[Symbol]) -> dict[int, int]:
    """The address of each text section: its section symbol's, else the lowest of its functions'."""
    functions: dict[int, int] = {}
    own: dict[int, int] = {}
    for one in symbols:
        text = _text(image, one)
        if text is None or one.value + text.size >= _ADDRESS_SPACE_BYTES:
            continue
        if one.type == STT_SECTION and one.value:
            own[one.section] = one.value
        elif one.type == STT_FUNC:
            functions[one.section] = min(one.value, functions.get(one.section, one.value))
    near = {number: base for number, base in own.items() if _holds(base, functions.get(number), image.sections[number])}
    return functions | near


def _holds(base: int, function: int | None, section: Section) -> bool:
    return function is None or base <= function <= base + section.size


def _counted(symbol: Symbol, bases: dict[int, int]) -> Symbol:
    base = bases.get(symbol.section)
    if base is None or symbol.value < base:
        return symbol
    return symbol._replace(value=symbol.value - base)


def _text(image: Elf, symbol: Symbol) -> Section | None:
    """The text section that a symbol is defined in."""
    section = image.sections[symbol.section] if 0 < symbol.section < len(image.sections) else None
    return section if section is not None and section.executable else None

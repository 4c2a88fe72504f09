"""Cubins as the driver loaded them: device addresses in ``st_value`` and in the debug data, while ``sh_addr`` stays 0. Each
text section begins where its symbols say.

Source: NVIDIA's ``cudadebugger.h`` on relocated images; cuda-gdb 12.4, which reads them so."""

from __future__ import annotations

from collections.abc import Sequence

from symd.formats.elf import Elf, Symbol
from symd.formats.elf.constants import SHF_EXECINSTR, STT_FUNC, STT_SECTION
from symd.model.code import Section

_ADDRESS_SPACE_BYTES = 1 << 64


def is_relocated(image: Elf, symbols: Sequence[Symbol]) -> bool:
    """Whether functions lie past the end of their sections: in a cubin from a file none does. The driver loads functions when they
    are needed first (CUDA_MODULE_LOADING), and those that nobody needed are still at 0."""
    return bool(_loaded(image, symbols))


def placed(image: Elf, symbols: Sequence[Symbol]) -> tuple[Elf, list[Symbol]]:
    """The image with its text sections at their device addresses, and the symbols of text counted from the start of
    their section again. Sections that were not loaded are no text: their debug data has no addresses, so that it would mean one another's
    code."""
    bases = _bases(image, symbols)
    sections = tuple(_at(section, bases.get(section.index)) for section in image.sections)
    return image.with_sections(sections), [_counted(one, bases) for one in symbols]


def _at(section: Section, base: int | None) -> Section:
    if base is not None:
        return section.changed(address=base)
    return section.changed(flags=section.flags & ~SHF_EXECINSTR) if section.executable else section


def _loaded(image: Elf, symbols: Sequence[Symbol]) -> set[int]:
    """The text sections all of whose functions lie past their end, and whose own symbol, if they have one, was moved too."""
    sizes = [section.size if section.executable else _ADDRESS_SPACE_BYTES for section in image.sections]
    functions = [one for one in symbols if one.type == STT_FUNC and one.section < len(sizes)]
    if all(one.value <= sizes[one.section] for one in functions):
        return set()
    inside, outside, unmoved = set[int](), set[int](), set[int]()
    for one in symbols:
        text = _text(image, one)
        if text is None:
            continue
        if one.type == STT_SECTION and not one.value:
            unmoved.add(one.section)
        elif one.type == STT_FUNC:
            (outside if one.value > text.size else inside).add(one.section)
    return outside - inside - unmoved


def _bases(image: Elf, symbols: Sequence[Symbol]) -> dict[int, int]:
    """The address of each text section that was loaded: its section symbol's, else the lowest of its functions'."""
    functions: dict[int, int] = {}
    own: dict[int, int] = {}
    loaded = _loaded(image, symbols)
    for one in symbols:
        text = _text(image, one)
        if text is None or one.section not in loaded or one.value + text.size >= _ADDRESS_SPACE_BYTES:
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

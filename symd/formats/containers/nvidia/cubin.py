"""NVIDIA cubins: the ELF images that ptxas and nvlink write, one text section a function, all at address 0.

There are two dialects, told apart by the ABI version of the header (not by any other value): up to 7 e_version is the
toolkit and e_flags hold the SM in the low byte; from 8 on e_version is 1, the SM is in bits 8 to 15, and section flags
and sh_info say less. Functions are keyed by section number, since linked images repeat section and symbol names.

A cubin that the driver relocated, as core dumps carry them, has device addresses in ``st_value`` and in its debug data,
while ``sh_addr`` stays 0. Each of its text sections gets the address where its symbols begin, and it counts as linked.

Sources: layouts measured with ptxas 12.0 to 13.4; NVIDIA's ``cudadebugger.h`` on relocated images; cuda-gdb 12.4, which
reads them so.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.nvidia.cubin_facts import CubinFacts
from symd.formats.elf import Elf, Symbol
from symd.formats.elf.constants import (
    EF_CUDA_ACCELERATORS,
    EF_CUDA_ACCELERATORS_V1,
    EF_CUDA_SM,
    EF_CUDA_SM_OFFSET,
    EF_CUDA_VIRTUAL_SM_OFFSET,
    ELFABIVERSION_CUDA_V2,
    EM_CUDA,
    ET_CORE,
    ET_CUDA_EWP,
    ET_EXEC,
    ET_REL,
    NT_NV_CUINFO,
    NT_NV_TKINFO,
    SHF_EXECINSTR,
    STO_CUDA_ENTRY,
    STT_FUNC,
    STT_SECTION,
)
from symd.formats.elf.contents import debug_scheme
from symd.formats.lazy import LazyMapping, LazySequence, PackedMapping
from symd.model.code import CodeObject, Function, Kernel, RelocationScheme, Section, Vendor
from symd.model.light_typing import Any
from symd.model.texts import counted

NAME = "cubin"
_TO_BE_LINKED = (ET_REL, ET_CUDA_EWP)
FIRST_SM_WITH_VARIANT = 90
"""The first processor for which there is code of an architecture-specific variant: sm_90a (PTX ISA, ``.target``)."""


def claims(data: bytes) -> bool:
    """An ELF image of machine EM_CUDA that is no core dump."""
    kind = elf.kind(data)
    return kind is not None and kind.machine == EM_CUDA and kind.type != ET_CORE


def read(element: Element, budget: Budget) -> Contents:
    """One code object, not linked, its section addresses all 0, unless the driver relocated it, of whatever ELF type.
    What the image says of kernels is read when somebody looks at facts or warnings. Raises Malformed, Unsupported,
    LimitExceeded."""
    image = elf.parse(element.data, budget, NAME)
    symbol_warnings: list[str] = []
    if image.header.type not in (*_TO_BE_LINKED, ET_EXEC):
        symbol_warnings.append(f"ELF type {image.header.type:#x} is new to symd: read as if it were an executable one")
    symbols = _symbols(image, symbol_warnings)
    relocated = is_relocated(image, symbols)
    if relocated:
        image, symbols = placed(image, symbols)
    tools = list(_tools(image))
    texts = {section.index: section for section in image.sections if section.executable}
    named = [(number, one) for number, one in enumerate(symbols) if one.type == STT_FUNC and one.section in texts]
    described = CubinFacts(image, kernels=any(symbol.other & STO_CUDA_ENTRY for _, symbol in named))
    function_warnings: list[str] = []
    functions = tuple(_functions(texts, named, function_warnings))
    code = CodeObject(
        path=element.path,
        bias=element.bias,
        stored=element.stored,
        format=NAME,
        target=_target(image, tools, described.accelerated, element.target),
        data=element.data,
        sections=image.sections,
        kernels=tuple(_kernels(texts, named, described, budget)),
        functions=functions,
        vendor=Vendor.NVIDIA,
        relocation=RelocationScheme.NONE if relocated else RelocationScheme.CUDA,
        linked=relocated,
        address_bits=image.header.bits,
        debug=debug_scheme(image.sections),
        facts=LazyMapping(partial(_facts, image, tools, described)),
        warnings=LazySequence(lambda: (*symbol_warnings, *described.warnings, *function_warnings)),
    )
    return Contents(code_object=code)


def _symbols(image: elf.Elf, warnings: list[str]) -> list[elf.Symbol]:
    """The symbols by number; none, with a warning, where the image has no symbol table."""
    table = next((section for section in image.sections if section.name == ".symtab"), None)
    if table is None:
        warnings.append("no symbol table: functions are named by their sections")
        return []
    return image.symbols(table)


_Numbered = list[tuple[int, elf.Symbol]]
"""Symbols of the functions that have code here with their numbers in the symbol table; undefined ones belong to another
file of a link."""


def _functions(texts: Mapping[int, Section], symbols: _Numbered, warnings: list[str]) -> Iterator[Function]:
    """The functions: one for each symbol of code, and one for each text section that no symbol names."""
    named, outside = set(), 0
    for _, symbol in symbols:
        bytes_left = texts[symbol.section].size - symbol.value
        if bytes_left < 0:
            outside += 1
            continue
        named.add(symbol.section)
        yield Function(symbol.name, symbol.section, symbol.value, min(symbol.size, bytes_left))
    unnamed = {number: section for number, section in texts.items() if number not in named}
    names = {name: name.removeprefix(".text.") for name in {section.name for section in unnamed.values()}}
    for number, section in unnamed.items():
        yield Function(names[section.name], number, 0, section.size)
    if outside:
        warnings.append(f"left out: {counted(outside, 'function symbol')} outside of the symbol's section")


def _kernels(
    texts: Mapping[int, Section], symbols: _Numbered, described: CubinFacts, budget: Budget
) -> Iterator[Kernel]:
    known: set[int] = set()
    for number, symbol in symbols:
        section = texts[symbol.section]
        if symbol.other & STO_CUDA_ENTRY and symbol.value <= section.size:
            size = min(symbol.size, section.size - symbol.value)
            if section.index in known:
                budget.count("shared_facts", described.records_of(section), symbol.name)
            known.add(section.index)
            facts = PackedMapping(partial(described.of_kernel, section, number))
            yield Kernel(symbol.name, symbol.section, symbol.value, size, facts)


def _target(image: elf.Elf, tools: list[dict[str, str]], accelerated: bool, outer: str | None) -> str:
    """The processor, such as "sm_90", "sm_90a" or "sm_100f"; ``outer`` is what the fat binary around it says, or None.
    The letter is in e_flags (ABI 7: 0x800; ABI 8 of 12.x: 8), in .nv.compat, or only
    in the options of the tool or in ``outer``. In ABI 7 the bit stands for the letter from
    sm_90 on, the first processor with such a variant: CUDA 8.0 sets it, to say something else, in cubins of sm_50 to
    sm_61 (0x3c0d3c beside 0x3c053c, where the fat binary's entry says sm_60 of both)."""
    newer = image.header.abi_version >= ELFABIVERSION_CUDA_V2
    flags = image.header.flags
    number = (flags >> EF_CUDA_SM_OFFSET if newer else flags) & EF_CUDA_SM
    base = f"sm_{number}"
    specific = flags & (EF_CUDA_ACCELERATORS if newer else EF_CUDA_ACCELERATORS_V1) and number >= FIRST_SM_WITH_VARIANT
    letter = "a" if specific or accelerated else ""
    options = re.search(rf"-arch[ =]{base}([af]?)\b", tools[0]["options"]) if tools else None
    if not letter and options:
        letter = options[1]
    if not letter and outer in {f"{base}a", f"{base}f"}:
        return str(outer)
    return base + letter


def _tools(image: elf.Elf) -> Iterator[dict[str, str]]:
    """The programs that made the image, the last first: .note.nv.tkinfo holds a version, an object name and the
    string offsets of tool, version, build and options."""
    for _, note in image.notes():
        if note.type == NT_NV_TKINFO and note.owner.startswith("NVIDIA") and len(note.data) >= 24:
            offsets = struct.unpack_from("<4I", note.data, 8)
            words = [elf.string_at(note.data[24:], offset).strip() for offset in offsets]
            yield dict(zip(("tool", "version", "build", "options"), words, strict=True))


def _toolkit(image: elf.Elf, tools: list[dict[str, str]]) -> tuple[str | None, str | None]:
    """(toolkit "13.0", virtual architecture "compute_90"). Version 1 of the note does not have the toolkit."""
    if image.header.abi_version < ELFABIVERSION_CUDA_V2:
        virtual = image.header.flags >> EF_CUDA_VIRTUAL_SM_OFFSET & EF_CUDA_SM
        version = image.header.version
        return f"{version // 10}.{version % 10}", f"compute_{virtual}" if virtual else None
    release = re.search(r"release (\d+\.\d+)", tools[0]["version"]) if tools else None
    toolkit = release[1] if release else None
    for _, note in image.notes():
        if note.type == NT_NV_CUINFO and len(note.data) >= 8:
            version, virtual, number = struct.unpack_from("<HHI", note.data)
            return f"{number // 10}.{number % 10}" if version == 2 else toolkit, f"compute_{virtual}"
    return toolkit, None


def _facts(image: elf.Elf, tools: list[dict[str, str]], described: CubinFacts) -> dict[str, Any]:
    toolkit, virtual = _toolkit(image, tools)
    return {
        "abi_version": image.header.abi_version,
        "toolkit": toolkit,
        "virtual_architecture": virtual,
        "relocatable": image.header.type in _TO_BE_LINKED,
        "tools": tools,
        **described.of_image,
    }


_ADDRESS_SPACE_BYTES = 1 << 64


def is_relocated(image: Elf, symbols: Sequence[Symbol]) -> bool:
    """Whether functions lie past the end of their sections: in a cubin from a file none does. The driver loads
    functions when they are needed first (CUDA_MODULE_LOADING), and those that nobody needed are still at 0."""
    return bool(_loaded(image, symbols))


def placed(image: Elf, symbols: Sequence[Symbol]) -> tuple[Elf, list[Symbol]]:
    """The image with its text sections at their device addresses, and the symbols of text counted from the start of
    their section again. Sections that were not loaded are no text: their debug data has no addresses, so that it would
    mean one another's code."""
    bases = _bases(image, symbols)
    sections = tuple(_section_at(section, bases.get(section.index)) for section in image.sections)
    return image.with_sections(sections), [_from_section_start(one, bases) for one in symbols]


def _section_at(section: Section, base: int | None) -> Section:
    """The section at its address; code without one is marked as no code."""
    if base is not None:
        return section.changed(address=base)
    return section.changed(flags=section.flags & ~SHF_EXECINSTR) if section.executable else section


def _loaded(image: Elf, symbols: Sequence[Symbol]) -> set[int]:
    """The text sections all of whose functions lie past their end, and whose own symbol, if they have one, was moved
    too."""
    sizes = [section.size if section.executable else _ADDRESS_SPACE_BYTES for section in image.sections]
    functions = [one for one in symbols if one.type == STT_FUNC and one.section < len(sizes)]
    if all(one.value <= sizes[one.section] for one in functions):
        return set()
    inside, outside, unmoved = set[int](), set[int](), set[int]()
    for one in symbols:
        text = _text_section(image, one)
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
        text = _text_section(image, one)
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


def _from_section_start(symbol: Symbol, bases: dict[int, int]) -> Symbol:
    """The symbol, with its value counted from the start of its section if that was loaded."""
    base = bases.get(symbol.section)
    if base is None or symbol.value < base:
        return symbol
    return symbol._replace(value=symbol.value - base)


def _text_section(image: Elf, symbol: Symbol) -> Section | None:
    """The text section that a symbol is defined in."""
    section = image.sections[symbol.section] if 0 < symbol.section < len(image.sections) else None
    return section if section is not None and section.executable else None

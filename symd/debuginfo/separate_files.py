"""Debug data in separate files, joined to its code object as one image, and how such a file is made of AMD's.

``slim`` splits an AMDGPU code object into what the runtime needs and a debug file. It drops the sections that the
runtime does not read, drops the program headers except those of the notes and of what is loaded, packs the file. ROCm's
loader finds symbols, notes and relocations through the section table (.symtab, .note, SHT_RELA) and copies PT_LOAD
segments. So a version 2 object keeps .note, .text, .symtab and the string tables; later ones also keep .rodata, which
holds the kernel descriptors; data sections stay where there are any; .dynsym and .dynstr stay only for dynamic
relocations, for variables (HIP looks these up there), or when there is no .symtab. Addresses never change.

AMD's code objects have no build ID, so the debug file carries a note with the SHA-256 of its code: of each executable
section the address and the size, as little-endian u64, and the content. A file that objcopy's ``--only-keep-debug``
made has neither that note nor code; it is known by all other notes, which describe each kernel.

To join one the object stays byte for byte in its place, the debug sections follow it, and a new section table ends the
image. ``.dwo`` files and ``.dwp`` packages are joined by ``symd.formats.containers.with_dwo``.

Source: System V ABI, chapter 4, "Symbol Table": st_shndx is a section number, or one of the reserved numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.dwarf.sections import DWO_NAMES, DebugSections, split_contents, with_split
from symd.debuginfo.dwarf.units import Unit, read_units, split_units
from symd.errors import HashMismatch, InvalidInput, Malformed, NoDebugData, Unsupported
from symd.formats import elf
from symd.formats.budget import Budget, DebugBudget
from symd.formats.containers.amd import amdgpu
from symd.formats.containers.file_part import hashed
from symd.formats.containers.format import Element
from symd.formats.elf.constants import (
    EM_AMDGPU,
    ET_REL,
    PF_R,
    PT_LOAD,
    PT_NOTE,
    SHF_ALLOC,
    SHN_LORESERVE,
    SHN_UNDEF,
    SHT_DYNSYM,
    SHT_FINI_ARRAY,
    SHT_INIT_ARRAY,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_PROGBITS,
    SHT_RELA,
    SHT_SYMTAB,
    STB_LOCAL,
    STT_OBJECT,
)
from symd.formats.elf.writer import (
    SECTION_NAMES,
    OutputSection,
    OutputSegment,
    image_of,
    stored_sections,
    with_sections,
)
from symd.model.code import CodeObject, Section

SECTION = ".note.symd.code"
_OWNER, _TYPE = b"symd\0\0\0\0", 1
_DIGEST_SIZE = 32


def note(sections: Iterable[Section]) -> OutputSection:
    """The note section for the debug file of an object with these sections."""
    content = struct.pack("<III", 5, _DIGEST_SIZE, _TYPE) + _OWNER + _digest(sections)
    return OutputSection(SECTION, SHT_NOTE, size=len(content), content=content, align=4)


def check(code: CodeObject, debug: CodeObject) -> None:
    """Raises HashMismatch where ``debug``, a debug file or a whole object, is not of the same build as ``code``."""
    hint = "give the debug file that was written with this object"
    if code.target != debug.target:
        raise HashMismatch(f"the debug data is for {debug.target}, the object for {code.target}", hint=hint)
    found = debug.section(SECTION)
    if found:
        same = found.data[-_DIGEST_SIZE:] == _digest(code.sections)
    elif all(section.type == SHT_NOBITS for section in debug.sections if section.executable):
        same = _layout(code) == _layout(debug) and _have_the_same_notes(code, debug)
    else:
        same = _code(code) == _code(debug)
    if not same:
        raise HashMismatch("the debug data belongs to another code object: the code differs", hint=hint)


def _digest(sections: Iterable[Section]) -> bytes:
    parts = ((struct.pack("<QQ", one.address, len(one.data)), one.data) for one in sections if one.executable)
    return hashed(chain.from_iterable(parts))


def _layout(code: CodeObject) -> list[tuple[str, int, int]]:
    return [(one.name, one.address, one.size) for one in code.sections if one.executable]


def _have_the_same_notes(code: CodeObject, debug: CodeObject) -> bool:
    ours, theirs = _notes(code), _notes(debug)
    shared = ours.keys() & theirs.keys()
    return bool(shared) and all(ours[name] == theirs[name] for name in shared)


def _notes(code: CodeObject) -> dict[str, bytes]:
    return {one.name: one.data for one in code.sections if one.type == SHT_NOTE}


def _code(code: CodeObject) -> list[tuple[str, int, int, bytes]]:
    return [(one.name, one.address, one.size, one.data) for one in code.sections if one.executable]


_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
"""Elf64_Sym."""


def renumbered(table: bytes, number: Mapping[int, int]) -> NDArray[np.void]:
    """The entries of a 64-bit symbol table, writable, with section numbers mapped by ``number``; sections that it lacks
    become SHN_UNDEF. A last entry that the content cuts off is left out."""
    rows = np.frombuffer(table[: len(table) // _SYMBOL.itemsize * _SYMBOL.itemsize], _SYMBOL).copy()
    lookup = np.zeros(0x10000, np.uint16)
    lookup[SHN_LORESERVE:] = np.arange(SHN_LORESERVE, 0x10000)
    for old, new in number.items():
        if old < SHN_LORESERVE:
            lookup[old] = new
    rows["section"] = lookup[rows["section"]]
    return rows


def without_lost(
    table: OutputSection, strings: OutputSection, number: Mapping[int, int]
) -> tuple[OutputSection, OutputSection]:
    """A symbol table and its string table without the symbols whose sections ``number`` lacks."""
    rows = renumbered(table.content, number)
    before = np.frombuffer(table.content[: len(rows) * _SYMBOL.itemsize], _SYMBOL)["section"]
    rows = rows[(rows["section"] != SHN_UNDEF) | (before == SHN_UNDEF)]
    names = _own_strings(rows, strings.content)
    local = int(np.count_nonzero(rows["info"] >> 4 == STB_LOCAL))
    content = rows.tobytes()
    return (
        table._replace(content=content, size=len(content), info=local),
        strings._replace(content=names, size=len(names)),
    )


def _own_strings(rows: NDArray[np.void], strings: bytes) -> bytes:
    """A string table that has only the names of ``rows``, which are pointed at it."""
    names = bytearray(b"\0")
    starts = {0: 0}
    for old in rows["name"].tolist():
        if old not in starts and old < len(strings):
            end = strings.find(b"\0", old)
            starts[old] = len(names)
            names += strings[old : end if end >= 0 else len(strings)] + b"\0"
            if len(names) > 16 * len(strings) + 64:
                raise Malformed(
                    "symbol names overlap and are more than 16 times as long as their table", where=".strtab"
                )
    rows["name"] = [starts.get(old, 0) for old in rows["name"].tolist()]
    return bytes(names)


DEBUG_SECTIONS = (".debug_", ".zdebug_")
"""What the names of debug sections begin with."""
_LOADED_TYPES = {SHT_PROGBITS, SHT_NOBITS, SHT_INIT_ARRAY, SHT_FINI_ARRAY}


@dataclass(frozen=True, slots=True)
class Slimmed:
    """A code object without its debug data, and the debug data apart from it. ``data`` is the slim object; ``debug``
    a separate ELF file with the debug sections and all symbols, b"" when there are no debug sections; ``removed``
    names the sections that neither has; ``before`` is the size in bytes."""

    data: bytes = field(repr=False)
    debug: bytes = field(repr=False)
    removed: tuple[str, ...]
    before: int


def slim(data: bytes, budget: Budget) -> Slimmed:
    """Apply the three steps. Raises Unsupported for relocatable objects and for images without a section table,
    Malformed for damaged ones."""
    image = elf.parse(data, budget)
    if image.header.machine != EM_AMDGPU or image.header.bits != 64:
        raise Unsupported("only AMDGPU code objects can be slimmed")
    if image.header.type == ET_REL:
        raise Unsupported(
            "relocatable objects are input of a linker, not of the runtime", hint="slim the linked object"
        )
    if not image.sections:
        raise Unsupported("without a section table nothing says what the runtime needs")
    stored = stored_sections(data)
    kept = _kept(image)
    debug = [section for section in stored if section.name.startswith(DEBUG_SECTIONS)]
    left = {"", SECTION_NAMES.name} | {stored[number].name for number in kept} | {section.name for section in debug}
    return Slimmed(
        _slim_image(image, stored, kept),
        _debug_image(image, stored, kept, debug) if debug else b"",
        tuple(section.name for section in stored if section.name not in left),
        len(data),
    )


def _kept(image: elf.Elf) -> list[int]:
    """Numbers of the sections that the runtime reads, in file order."""
    relocated = any(_is_loaded_relocation(section) for section in image.sections)
    symtab = any(section.type == SHT_SYMTAB for section in image.sections)
    kept = {section.index for section in image.sections if _is_needed(section) or section.type == SHT_NOTE}
    for section in image.sections:
        symbols = section.type == SHT_SYMTAB or (
            section.type == SHT_DYNSYM and (relocated or not symtab or _has_variables(image, section))
        )
        if symbols or _is_loaded_relocation(section):
            kept.add(section.index)
        if symbols and 0 < section.link < len(image.sections):
            kept.add(section.link)
    return sorted(kept - {0})


def _has_variables(image: elf.Elf, table: Section) -> bool:
    """Whether a table defines variables, which HIP looks up by name through comgr: that reads the dynamic symbols of a
    linked object alone. Kernel descriptors are objects, too."""
    return any(not each.name.endswith(".kd") for each in image.symbols(table, (STT_OBJECT,)))


def _is_loaded_relocation(section: Section) -> bool:
    return section.type == SHT_RELA and bool(section.flags & SHF_ALLOC) and bool(section.data)


def _is_needed(section: Section) -> bool:
    return _is_loaded(section) and section.size > 0 and section.name != ".relro_padding"


def _is_loaded(section: Section | OutputSection) -> bool:
    """Whether a loader copies it, or makes room for it."""
    return bool(section.flags & SHF_ALLOC) and section.type in _LOADED_TYPES


def _slim_image(image: elf.Elf, stored: Sequence[OutputSection], kept: Sequence[int]) -> bytes:
    sections = _chosen(stored, kept)
    return image_of(image.header, [*sections, SECTION_NAMES], _segments(image, sections))


def _debug_image(
    image: elf.Elf, stored: Sequence[OutputSection], kept: Sequence[int], debug: Sequence[OutputSection]
) -> bytes:
    """Loaded sections without content, the debug sections, all symbols of the loaded ones, and the identity note."""
    loaded = [number for number in kept if _is_loaded(stored[number])]
    symbols = [number for number in kept if stored[number].type == SHT_SYMTAB]
    strings = sorted({stored[number].link for number in symbols})
    sections = _chosen(stored, [*loaded, *symbols, *strings])
    sections[: len(loaded)] = [one._replace(type=SHT_NOBITS, content=b"") for one in sections[: len(loaded)]]
    sections += [one._replace(link=0, info=0) for one in debug]
    return image_of(image.header, [*sections, note(image.sections), SECTION_NAMES])


def _chosen(stored: Sequence[OutputSection], numbers: Sequence[int]) -> list[OutputSection]:
    """Some of the sections, numbered from 1 in this order, in all that refers to sections by number. In .symtab,
    symbols of sections that are gone go too, and their names; .dynsym stays in order, because relocations count in
    it."""
    number = {old: new for new, old in enumerate(numbers, 1)}
    sections = [_renumbered(stored[old], number) for old in numbers]
    for place, section in enumerate(sections):
        if section.type == SHT_DYNSYM:
            sections[place] = section._replace(content=renumbered(section.content, number).tobytes())
        elif section.type == SHT_SYMTAB:
            strings = section.link - 1
            if not 0 <= strings < len(sections):
                raise Malformed(f"{section.name} has no string table")
            sections[place], sections[strings] = without_lost(section, sections[strings], number)
    # some linkers keep section names and symbol names in one .shstrtab: here it holds symbol names alone
    return [one._replace(name=".strtab") if one.name == SECTION_NAMES.name else one for one in sections]


def _renumbered(section: OutputSection, number: Mapping[int, int]) -> OutputSection:
    info = number.get(section.info, 0) if section.type == SHT_RELA else section.info
    return section._replace(link=number.get(section.link, 0), info=info)


def _segments(image: elf.Elf, sections: Sequence[OutputSection]) -> list[OutputSegment]:
    """A PT_LOAD for each old one of which a section is left, and a PT_NOTE for each note section.

    The loader places the first PT_LOAD at an allocation's start, so that one begins at a multiple of the strictest
    alignment; what is before its first section in the file is loaded with it and read by nobody.
    """
    loaded = [(number, one) for number, one in enumerate(sections, 1) if _is_loaded(one)]
    strictest = max([one.align for _, one in loaded], default=1) or 1
    result: list[OutputSegment] = []
    for old in image.segments:
        inside = [number for number, one in loaded if old.type == PT_LOAD and _is_inside(one, old)]
        if inside:
            _check_order([sections[number - 1] for number in inside], len(image.data))
            first = sections[inside[0] - 1].address
            result.append(OutputSegment(PT_LOAD, old.flags, tuple(inside), 0 if result else first % strictest))
    notes = [OutputSegment(PT_NOTE, PF_R, (number,)) for number, one in enumerate(sections, 1) if one.type == SHT_NOTE]
    return result + notes


def _is_inside(section: OutputSection, segment: elf.ElfSegment) -> bool:
    end = segment.address + segment.memory_size
    return segment.address <= section.address and section.address + section.size <= end


def _check_order(sections: Sequence[OutputSection], size: int) -> None:
    """Sections of one segment follow each other in the file as in memory, so far as the file has them."""
    for before, after in pairwise(sections):
        gap = after.address - before.address - before.size
        if gap < 0 or (gap > size and after.type != SHT_NOBITS):
            raise Malformed(f"{after.name} does not follow {before.name} in its segment")


def joined(data: bytes, debug: bytes, budget: Budget) -> bytes:
    """``data`` with the debug sections of ``debug``, and with its symbol table where ``data`` lost its own.

    Raises InvalidInput where ``data`` has debug sections already, NoDebugData where ``debug`` has none, HashMismatch
    where they are not of one build, Unsupported for what is no linked AMDGPU code object or has no section table.
    """
    _check_one_build(_amdgpu_object(data, budget, "the code object"), _amdgpu_object(debug, budget, "the debug file"))
    image, other = elf.parse(data, budget), elf.parse(debug, budget)
    if not image.sections:
        raise Unsupported("without a section table nothing says where debug sections belong")
    if any(section.name.startswith(DEBUG_SECTIONS) for section in image.sections):
        raise InvalidInput("the code object has debug sections of its own", hint="leave out --debug")
    stored = stored_sections(debug)
    added = [one._replace(link=0, info=0) for one in stored if one.name.startswith(DEBUG_SECTIONS)]
    if not added:
        raise NoDebugData("the debug file has no debug sections")
    if ".symtab" not in image.by_name:
        added += _symbols(image, other, stored, len(image.sections) + len(added))
    return with_sections(data, added)


def _amdgpu_object(data: bytes, budget: Budget, what: str) -> CodeObject:
    code = amdgpu.read(Element("", data), budget).code_object if amdgpu.claims(data) else None
    if code is None:
        raise Unsupported(f"{what} is not an AMDGPU code object: only those can have their debug data in another file")
    return code


def _check_one_build(code: CodeObject, debug: CodeObject) -> None:
    if not (code.linked and debug.linked):
        raise Unsupported("debug data can be joined to linked code objects only")
    check(code, debug)


def _symbols(image: elf.Elf, other: elf.Elf, stored: list[OutputSection], first: int) -> list[OutputSection]:
    """The debug file's symbol and string table for the section numbers of ``image``, to become its sections ``first``
    and ``first + 1``."""
    table = other.by_name.get(".symtab")
    if table is None or not 0 < table.link < len(stored):
        return []
    number = {(one.name, one.address): one.index for one in image.sections if one.executable}
    mapping = {0: 0, **{one.index: number.get((one.name, one.address), 0) for one in other.sections}}
    rows = renumbered(stored[table.index].content, mapping)
    return [
        stored[table.index]._replace(content=rows.tobytes(), link=first + 1),
        stored[table.link]._replace(name=".strtab"),
    ]


_DWO_NAME_ATTRIBUTES = (b"\x76", b"\xb0\x42")
"""DW_AT_dwo_name and DW_AT_GNU_dwo_name as abbreviations spell them: where neither stands no unit need be read."""


def skeletons(data: bytes, budget: Budget) -> tuple[Unit, ...]:
    """The units of a code object whose debug data is elsewhere, not in sections of its own either. Raises Malformed,
    LimitExceeded."""
    image = elf.parse(data, budget)
    return () if split_contents(image.sections) else _split_off(image, budget)


def _split_off(image: elf.Elf, budget: Budget) -> tuple[Unit, ...]:
    abbreviations = image.by_name.get(".debug_abbrev")
    if abbreviations is None or not any(name in abbreviations.data for name in _DWO_NAME_ATTRIBUTES):
        return ()
    contents = {each.name: each.data for each in image.sections if each.name.startswith(".debug_")}
    sections = DebugSections.of(contents, DebugBudget(budget.limits, len(image.data)))
    return tuple(unit for unit in read_units(sections).units if unit.dwo_name)


def has_units(data: bytes, budget: Budget) -> bool:
    """Whether ``data`` is a ``.dwo`` file or a ``.dwp`` package: an ELF file with a ``.debug_info.dwo``. Raises
    Malformed."""
    return elf.kind(data) is not None and DWO_NAMES["info"] in elf.parse(data, budget).by_name


def check_same_build(data: bytes, file: bytes, budget: Budget) -> None:
    """Raises HashMismatch where no unit of the ``.dwo`` file or package belongs to the code object ``data``."""
    wanted = {unit.dwo_id for unit in _split_off(elf.parse(data, budget), budget)}
    none = DebugSections.of({}, DebugBudget(budget.limits, len(file)))
    sections = with_split(none, split_contents(elf.parse(file, budget).sections))
    if wanted.isdisjoint(unit.dwo_id for unit in split_units(sections)):
        hint = "give the file that was written with this object"
        raise HashMismatch("the .dwo file or package belongs to another code object", hint=hint)

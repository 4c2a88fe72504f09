"""An AMDGPU code object without what the runtime does not need, and its debug data apart.

Three steps: drop the sections that the runtime does not read, drop the program headers except those of the notes and of
what is loaded, pack the file. ROCm's loader finds symbols, notes and relocations through the section table (.symtab,
.note, SHT_RELA) and copies PT_LOAD segments. So a version 2 object keeps .note, .text, .symtab and the string tables;
later ones also keep .rodata, which holds the kernel descriptors; data sections stay where there are any; .dynsym and
.dynstr stay only for dynamic relocations, or when there is no .symtab. Addresses never change.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from symd.budget import Budget
from symd.elf import reader
from symd.elf.writer import Output, image_of
from symd.elf.writer import Segment as OutSegment
from symd.errors import HashMismatch, Malformed, Unsupported
from symd.model.code import CodeObject, Function, Section

IDENTITY_SECTION = ".note.symd.code"
"""Of the debug file: the SHA-256 of the code it belongs to, because these objects have no build ID."""
_NULL, _PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOTE, _NOBITS, _DYNSYM = 0, 1, 2, 3, 4, 7, 8, 11
_ALLOC = 0x2
_LOADED_TYPES = {_PROGBITS, _NOBITS, 14, 15}  # and SHT_INIT_ARRAY, SHT_FINI_ARRAY

_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
NAMES = Output(".shstrtab", _STRTAB, 0, 0, 0, b"", 0, 0, 1, 0)


@dataclass(frozen=True, slots=True)
class Slimmed:
    """``data`` is the slim object; ``debug`` a separate ELF file with the debug sections and all symbols, b"" when there
    are no debug sections; ``removed`` names the sections that neither has; ``before`` is the size in bytes."""

    data: bytes = field(repr=False)
    debug: bytes = field(repr=False)
    removed: tuple[str, ...]
    before: int


def slim(data: bytes, budget: Budget) -> Slimmed:
    """Apply the three steps. Raises Unsupported for relocatable objects and for images without a section table, Malformed
    for damaged ones."""
    image = reader.parse(data, budget)
    if image.machine != 224 or image.bits != 64:
        raise Unsupported("only AMDGPU code objects can be slimmed")
    if image.type == 1:
        raise Unsupported(
            "relocatable objects are input of a linker, not of the runtime", hint="slim the linked object"
        )
    if not image.sections:
        raise Unsupported("without a section table nothing says what the runtime needs")
    raw = raw_sections(data, image)
    kept = _kept(image)
    debug = [section for section in raw if section.name.startswith((".debug_", ".zdebug_"))]
    left = {"", NAMES.name} | {raw[number].name for number in kept} | {section.name for section in debug}
    return Slimmed(
        _write_slim(image, raw, kept),
        _write_debug(image, raw, kept, debug) if debug else b"",
        tuple(section.name for section in raw if section.name not in left),
        len(data),
    )


def raw_sections(data: bytes, image: reader.Elf) -> list[Output]:
    """Sections as the file has them, compressed ones still compressed."""
    (table,) = struct.unpack_from("<Q", data, 40)
    (entry,) = struct.unpack_from("<H", data, 58)
    layout = struct.Struct("<IIQQQQIIQQ")
    result = []
    for number, section in enumerate(image.sections):
        _, kind, flags, address, offset, size, link, info, align, unit = layout.unpack_from(
            data, table + number * entry
        )
        content = b"" if kind in (_NULL, _NOBITS) else data[offset : offset + size]
        name = section.name if content[:4] != b"ZLIB" or flags & _ALLOC else section.name.replace(".debug", ".zdebug")
        align = align if align.bit_count() == 1 and align <= 4096 else 1
        result.append(Output(name, kind, flags, address, size, content, link, info, align, unit))
    return result


def _kept(image: reader.Elf) -> list[int]:
    """Numbers of the sections that the runtime reads, in file order."""
    relocated = any(section.type == _RELA and section.flags & _ALLOC and section.data for section in image.sections)
    symtab = any(section.type == _SYMTAB for section in image.sections)
    kept = {section.index for section in image.sections if _loaded(section) or section.type == _NOTE}
    for section in image.sections:
        wanted = section.type == _SYMTAB or (section.type == _DYNSYM and (relocated or not symtab))
        if wanted or (section.type == _RELA and section.flags & _ALLOC and section.data):
            kept.add(section.index)
            if section.type != _RELA and 0 < section.link < len(image.sections):
                kept.add(section.link)
    return sorted(kept - {0})


def _loaded(section: Section) -> bool:
    if not section.flags & _ALLOC or section.name == ".relro_padding":
        return False
    return section.type in _LOADED_TYPES and section.size > 0


def _write_slim(image: reader.Elf, raw: list[Output], kept: list[int]) -> bytes:
    number = {old: new for new, old in enumerate(kept, 1)}
    sections = [_renumbered(raw[old], number) for old in kept]
    for place, section in enumerate(sections):
        if section.kind in (_SYMTAB, _DYNSYM):
            strings = section.link - 1
            if not 0 <= strings < len(sections):
                raise Malformed(f"{section.name} has no string table")
            sections[place], sections[strings] = _symbols(section, sections[strings], number)
    sections = [*_plainly_named(sections), NAMES]
    return image_of(image, sections, _segments(image, sections))


def _plainly_named(sections: list[Output]) -> list[Output]:
    """Some linkers keep section names and symbol names in one .shstrtab: here it holds symbol names alone."""
    return [replace(one, name=".strtab") if one.name == NAMES.name else one for one in sections]


def _renumbered(section: Output, number: dict[int, int]) -> Output:
    return replace(section, link=number.get(section.link, 0), info=_info(section, number))


def _info(section: Output, number: dict[int, int]) -> int:
    return number.get(section.info, 0) if section.kind == _RELA else section.info


def _symbols(table: Output, strings: Output, number: dict[int, int]) -> tuple[Output, Output]:
    """The table with section numbers made new. In .symtab, symbols of sections that are gone go too, and their names;
    .dynsym stays in order, because relocations count in it."""
    rows = np.frombuffer(table.content[: len(table.content) // 24 * 24], _SYMBOL).copy()
    sections = rows["section"].astype(np.int64)
    lookup = np.zeros(0x10000, np.uint16)
    lookup[0xFF00:] = np.arange(0xFF00, 0x10000)
    for old, new in number.items():
        lookup[old] = new
    rows["section"] = lookup[sections]
    if table.kind == _DYNSYM:
        return replace(table, content=rows.tobytes()), strings
    alive = (rows["section"] != 0) | (sections == 0)
    rows = rows[alive]
    content, names = _packed(rows, strings.content)
    local = int(np.count_nonzero(rows["info"] >> 4 == 0))
    table = replace(table, content=content, size=len(content), info=local)
    return table, replace(strings, content=names, size=len(names))


def _packed(rows: np.ndarray, strings: bytes) -> tuple[bytes, bytes]:
    """Symbol rows and a string table that has only their names."""
    names = bytearray(b"\0")
    places = {0: 0}
    for old in rows["name"].tolist():
        if old not in places and old < len(strings):
            end = strings.find(b"\0", old)
            places[old] = len(names)
            names += strings[old : end if end >= 0 else len(strings)] + b"\0"
            if len(names) > 16 * len(strings) + 64:
                raise Malformed("the symbol names overlap beyond measure", where=".strtab")
    rows["name"] = [places.get(old, 0) for old in rows["name"].tolist()]
    return rows.tobytes(), bytes(names)


def _segments(image: reader.Elf, sections: list[Output]) -> list[OutSegment]:
    """A PT_LOAD for each old one of which a section is left, and a PT_NOTE for each note section.

    The loader places the first PT_LOAD at an allocation's start, so that one begins at a multiple of the strictest
    alignment; what stands before its first section in the file is loaded with it and read by nobody.
    """
    loaded = [(place, one) for place, one in enumerate(sections, 1) if one.flags & _ALLOC and one.kind in _LOADED_TYPES]
    strictest = max([one.align for _, one in loaded], default=1) or 1
    result: list[OutSegment] = []
    for old in image.segments:
        inside = [
            place
            for place, one in loaded
            if old.type == 1 and old.address <= one.address and one.address + one.size <= old.address + old.memory_size
        ]
        if inside:
            _check_order([sections[place - 1] for place in inside], len(image.data))
            first = sections[inside[0] - 1].address
            lead = first % strictest if not result else 0
            result.append(OutSegment(1, old.flags, tuple(inside), lead))
    notes = [OutSegment(4, 4, (place,), 0) for place, one in enumerate(sections, 1) if one.kind == _NOTE]
    return result + notes


def _check_order(sections: list[Output], size: int) -> None:
    """Sections of one segment follow each other in the file as in memory, so far as the file has them."""
    for before, after in pairwise(sections):
        gap = after.address - before.address - before.size
        if gap < 0 or (gap > size and after.kind != _NOBITS):
            raise Malformed(f"{after.name} does not follow {before.name} in its segment")


def _write_debug(image: reader.Elf, raw: list[Output], kept: list[int], debug: list[Output]) -> bytes:
    """Loaded sections without content, the debug sections, all symbols of the loaded ones, and the identity note."""
    loaded = [old for old in kept if raw[old].flags & _ALLOC and raw[old].kind in _LOADED_TYPES]
    symbols = [old for old in kept if raw[old].kind == _SYMTAB]
    strings = {raw[old].link for old in symbols}
    order = [*loaded, *symbols, *sorted(strings)]
    number = {old: new for new, old in enumerate(order, 1)}
    sections = [_renumbered(raw[old], number) for old in order]
    sections[: len(loaded)] = [replace(one, kind=_NOBITS, content=b"") for one in sections[: len(loaded)]]
    for place, section in enumerate(sections):
        if section.kind == _SYMTAB and section.link:
            other = section.link - 1
            sections[place], sections[other] = _symbols(section, sections[other], number)
    sections += [replace(one, link=0, info=0) for one in debug]
    note = struct.pack("<III", 5, 32, 1) + b"symd\0\0\0\0" + _identity(image.sections)
    sections.append(Output(IDENTITY_SECTION, _NOTE, 0, 0, len(note), note, 0, 0, 4, 0))
    return image_of(image, [*_plainly_named(sections), NAMES], [])


def _identity(sections: tuple[Section, ...]) -> bytes:
    digest = hashlib.sha256()
    for section in sections:
        if section.executable:
            digest.update(struct.pack("<QQ", section.address, len(section.data)) + section.data)
    return digest.digest()


def join(slim: CodeObject, debug: CodeObject) -> CodeObject:
    """The slim object with the debug sections of ``debug``, which may be the separate file or the whole object.

    Section numbers of ``slim`` stay; added sections follow them. Raises HashMismatch where the two are not of one build,
    Unsupported for relocatable objects.
    """
    if not (slim.linked and debug.linked):
        raise Unsupported("debug data can be joined to linked code objects only")
    _check(slim, debug)
    added = [section for section in debug.sections if section.name.startswith(".debug_")]
    first = len(slim.sections)
    sections = slim.sections + tuple(replace(one, index=first + at, link=0, info=0) for at, one in enumerate(added))
    functions = slim.functions + _missing(slim, debug)
    return replace(slim, sections=sections, functions=functions, debug=debug.debug)


def _check(slim: CodeObject, debug: CodeObject) -> None:
    hint = "give the debug file that was written with this object"
    if slim.target != debug.target:
        raise HashMismatch(f"the debug data is for {debug.target}, the object for {slim.target}", hint=hint)
    note = debug.section(IDENTITY_SECTION)
    same = note.data[-32:] == _identity(slim.sections) if note else _code(slim) == _code(debug)
    if not same:
        raise HashMismatch("the debug data belongs to another code object: the code differs", hint=hint)


def _code(code: CodeObject) -> list[tuple[str, int, int, bytes]]:
    return [(one.name, one.address, one.size, one.data) for one in code.sections if one.executable]


def _missing(slim: CodeObject, debug: CodeObject) -> tuple[Function, ...]:
    """Functions that only ``debug`` names, with the section numbers of ``slim``."""
    index = {(one.name, one.address): one.index for one in slim.sections}
    number = {one.index: index.get((one.name, one.address)) for one in debug.sections}
    known = {(one.name, one.section_index, one.offset) for one in slim.functions}
    moved = ((one, number.get(one.section_index)) for one in debug.functions)
    return tuple(
        one._replace(section_index=at)
        for one, at in moved
        if at is not None and (one.name, at, one.offset) not in known
    )

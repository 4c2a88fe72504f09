"""The debug sections of one object as one value, by what they hold and not by their names in an object file, so that a
caller with other names, or with two files, can make such a value too.

The sections of ``.dwo`` files and ``.dwp`` packages (split DWARF) are laid after those of their object, so that their
units are read like all others.

Sources: DWARF 5, 7.3.2 and 7.3.5; for DWARF 4 GCC's wiki, "DebugFission" and "DebugFissionDWP".
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from symd.errors import Malformed
from symd.formats.budget import DebugBudget
from symd.model.code import Section
from symd.model.light_typing import Any, NamedTuple
from symd.model.texts import counted


class DebugSection(NamedTuple):
    """One section: ``name`` is what errors and warnings call it, and its place in ``contents``. ``split`` says of
    ``.debug_info`` which of its units come from ``.dwo`` files; these are behind all others."""

    name: str
    contents: Mapping[str, bytes]
    split: tuple[Contributions, ...] = ()

    @property
    def data(self) -> bytes:
        """The bytes of the section, little-endian, relocated and decompressed; empty where the section is absent.
        Read when asked for if ``contents`` does so."""
        return self.contents.get(self.name, b"")


class DebugSections(NamedTuple):
    """Sections by role (DWARF 5, 7.1 and appendix B): ``ranges`` and ``locations`` are the lists of DWARF 2 to 4,
    ``range_lists`` and ``location_lists`` those of DWARF 5. ``budget`` counts what reading them takes; None: any
    amount."""

    info: DebugSection
    abbreviations: DebugSection
    lines: DebugSection
    strings: DebugSection
    line_strings: DebugSection
    string_offsets: DebugSection
    addresses: DebugSection
    ranges: DebugSection
    range_lists: DebugSection
    locations: DebugSection
    location_lists: DebugSection
    budget: DebugBudget | None = None

    @classmethod
    def of(cls, contents: Mapping[str, bytes], budget: DebugBudget | None = None) -> DebugSections:
        """The sections of an object that holds all of its debug data, by ELF name."""
        return _SECTIONS((*[_SECTION((name, contents, ())) for name in ELF_NAMES], budget))

    def every(self) -> tuple[DebugSection, ...]:
        return self[:-1]

    def spend(self, steps: int, where: str) -> None:
        """Count steps of reading that are about to be taken; ``where`` is what an error names. Raises LimitExceeded."""
        if self.budget is not None:
            self.budget.spend(steps, where)


_SECTION: Callable[[tuple[Any, ...]], DebugSection] = partial(tuple.__new__, DebugSection)
_SECTIONS: Callable[[tuple[Any, ...]], DebugSections] = partial(tuple.__new__, DebugSections)
"""Make what ``DebugSections.of`` returns out of all fields, in half of the time."""
ELF_NAMES = (
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_str",
    ".debug_line_str",
    ".debug_str_offsets",
    ".debug_addr",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_loc",
    ".debug_loclists",
)
"""ELF's names of the sections, in the order of the fields of ``DebugSections``."""


_KEPT = 100


class Warnings:
    """The first hundred warnings in full, and a count of the others."""

    def __init__(self, known: tuple[str, ...] = ()) -> None:
        self._texts = list(known)
        self._more = 0

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> None:
        if len(self._texts) < _KEPT:
            self._texts.append(text)
        else:
            self._more += 1

    def all(self) -> tuple[str, ...]:
        return (*self._texts, *([f"and {counted(self._more, 'more warning')}"] if self._more else []))


UNIT_INDEX = ".debug_cu_index"
"""Where a package says which part of each section a unit has."""
DWO_NAMES = {
    "info": ".debug_info.dwo",
    "abbreviations": ".debug_abbrev.dwo",
    "strings": ".debug_str.dwo",
    "string_offsets": ".debug_str_offsets.dwo",
    "range_lists": ".debug_rnglists.dwo",
    "locations": ".debug_loc.dwo",
    "location_lists": ".debug_loclists.dwo",
}
"""Names of the sections in ``.dwo`` files and packages, by the fields of ``DebugSections`` (DWARF 5, 7.3.2)."""
_INDEXED_2 = {1: "info", 3: "abbreviations", 5: "locations", 6: "string_offsets"}
"""DW_SECT_INFO and so on, in packages of version 2 (DWARF 4)."""
_INDEXED_5 = {1: "info", 3: "abbreviations", 5: "location_lists", 6: "string_offsets", 8: "range_lists"}
_INDEX_HEADER = struct.Struct("<IIII")
_DWARF_64 = 0xFFFFFFFF


class Contributions(NamedTuple):
    """Where the contributions of some split units (of a file, or of one unit in a package) are in the sections that
    they were laid into: the units are ``info[start:end]``, and their offsets into each other section count from these
    numbers."""

    start: int
    end: int
    abbreviations: int
    string_offsets: int
    range_lists: int
    locations: int
    location_lists: int


def split_contents(sections: Iterable[Section]) -> list[Mapping[str, bytes]]:
    """The sections of each ``.dwo`` file or package among all sections of an object, by name. Where there are several
    files each begins with its ``.debug_info.dwo``."""
    files: list[dict[str, bytes]] = []
    wanted = {*DWO_NAMES.values(), UNIT_INDEX}
    for section in sections:
        if section.name in wanted:
            if not files or section.name in files[-1]:
                files.append({})
            files[-1][section.name] = section.data
    return [file for file in files if DWO_NAMES["info"] in file]


def with_split(sections: DebugSections, files: Sequence[Mapping[str, bytes]]) -> DebugSections:
    """``sections`` with those of ``files`` behind them. Raises Malformed."""
    if not files:
        return sections
    contents = {role: bytearray(getattr(sections, role).data) for role in DWO_NAMES}
    contributions: list[Contributions] = []
    for file in files:
        base = {role: len(content) for role, content in contents.items()}
        contributions += _contributions(file, base)
        for role, name in DWO_NAMES.items():
            data = file.get(name, b"")
            contents[role] += _moved(data, base["strings"], file) if role == "string_offsets" else data
    merged = {getattr(sections, role).name: bytes(content) for role, content in contents.items()}
    laid: dict[str, Any] = {role: DebugSection(getattr(sections, role).name, merged) for role in DWO_NAMES}
    laid["info"] = laid["info"]._replace(split=tuple(sorted(contributions)))  # a package lists them in any order
    return sections._replace(**laid)


def _contributions(file: Mapping[str, bytes], base: Mapping[str, int]) -> Iterator[Contributions]:
    """The contributions of each unit of a package, or of a ``.dwo`` file."""
    index, size = file.get(UNIT_INDEX), len(file[DWO_NAMES["info"]])
    rows = [{"info": (0, size)}] if index is None else _indexed(index)
    if sum(row.get("info", (0, 0))[1] for row in rows) > size:
        raise Malformed("the units of a package overlap", where=UNIT_INDEX)
    for row in rows:
        start, size = row.get("info", (0, 0))
        start += base["info"]
        others = {role: base[role] + row.get(role, (0, 0))[0] for role in Contributions._fields[2:]}
        yield Contributions(start, start + size, **others)


def _indexed(index: bytes) -> list[dict[str, tuple[int, int]]]:
    """The rows of a package's index of units: (offset, size) by section. What is cut off is left out."""
    if len(index) < _INDEX_HEADER.size:
        return []
    version, columns, units, slots = _INDEX_HEADER.unpack_from(index)
    known = _INDEXED_5 if version & 0xFFFF == 5 else _INDEXED_2  # 2 is a u32, 5 a u16 and padding
    table = _INDEX_HEADER.size + slots * 12
    if not columns or len(index) < table + columns * 4 * (2 * units + 1):
        return []
    words = [*struct.iter_unpack(f"<{columns}I", index[table : table + columns * 4 * (2 * units + 1)])]
    sections = [known.get(number) for number in words[0]]
    rows = zip(words[1 : units + 1], words[units + 1 :], strict=True)
    return [
        {role: each for role, *each in zip(sections, *row, strict=True) if role is not None}  # type: ignore[misc]
        for row in rows
    ]


def _moved(table: bytes, by: int, file: Mapping[str, bytes]) -> bytes:
    """A table of string offsets whose strings begin ``by`` bytes later. Its contributions have headers from DWARF 5
    on."""
    info = file[DWO_NAMES["info"]]
    version = int.from_bytes(info[12:14] if info[:4] == b"\xff" * 4 else info[4:6], "little")
    moved = bytearray(table)
    for start, end, width in _tables(table) if version >= 5 else [(0, len(table), 4)]:
        count = (end - start) // width
        form, most = ("I", 0xFFFFFFFF) if width == 4 else ("Q", (1 << 64) - 1)
        values = array(form, table[start : start + count * width])
        moved[start : start + count * width] = array(form, [value + by & most for value in values]).tobytes()
    return bytes(moved)


def _tables(table: bytes) -> Iterator[tuple[int, int, int]]:
    """Where the entries of each contribution begin and end, and their size (DWARF 5, 7.26)."""
    at = 0
    while at + 8 <= len(table):
        length, width, header = int.from_bytes(table[at : at + 4], "little"), 4, 8
        if length == _DWARF_64:
            length, width, header = int.from_bytes(table[at + 4 : at + 12], "little"), 8, 16
        end = min(at + header - 4 + length, len(table))
        yield min(at + header, end), end, width
        at = max(end, at + header)

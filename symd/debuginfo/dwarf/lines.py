"""All line tables of an object: their headers (DWARF 5, 6.2.4; DWARF 2-4, 6.2.4 of each) as the core reads them, and
their rows, with one list of files. Paths are joined as llvm-symbolizer joins absolute paths, in bounds: compilation
directory, include directory, name; nothing is normalized.

Also the lines of its source file that a function can have: from its declaration up to the next one in the same file. A
declaration inside the function must not end it: lambdas, blocks, methods of local classes and outlined parallel regions
are known by their names; so must none before a line from which the function calls something. If a function calls from a
line before its own declaration, #line is in use in this file, so that no function of it gets bounds."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

from symd.core import function_extents as core
from symd.core import inlined_calls
from symd.core.byte_reader import StringReader
from symd.core.headers import LineHeader, LineHeaderReader
from symd.core.inlined_calls import InlinedCalls
from symd.core.line_program import LineProgramRows
from symd.core.scopes import FUNCTION_COLUMNS, ScopeRows
from symd.debuginfo.dwarf import Lnct
from symd.debuginfo.dwarf.sections import DebugSection, DebugSections, Warnings
from symd.debuginfo.dwarf.units import Unit, Units, read_units
from symd.errors import Malformed, SymdError, Unsupported
from symd.formats.budget import DebugBudget, beyond
from symd.model.light_typing import NamedTuple

_LLVM_SOURCE = int(Lnct.DW_LNCT_LLVM_source)
_TEXT_COLUMN = bytes([_LLVM_SOURCE & 0x7F | 0x80, _LLVM_SOURCE >> 7])
"""DW_LNCT_LLVM_source as tables spell it."""
_MIN_HEADER_BYTES = 12
"""Bytes up to and with header_length, at most."""
_WITH_ADDRESS_SIZE = 5
"""The version of DWARF from which on headers say how large addresses are."""
_MIN_RESERVED_LENGTH = 0xFFFFFFF0
"""Lengths of tables from here on mean something else (7.4)."""
_MAX_WALKED = 4096
"""Tables whose headers are looked at one by one; the rest of a section that has more is searched whole."""


def may_have_texts(data: bytes) -> bool:
    """Whether a line table of a section may have texts of files: a header spells the column. Programs, which are most
    of a section, are not looked at."""
    at = 0
    for _ in range(_MAX_WALKED):
        if at >= len(data):
            return False
        length = int.from_bytes(data[at : at + 4], "little")
        if length >= _MIN_RESERVED_LENGTH or len(data) - at < _MIN_HEADER_BYTES:
            break
        said = at + (8 if data[at + 4] >= _WITH_ADDRESS_SIZE else 6)  # the place of header_length
        program = said + 4 + int.from_bytes(data[said : said + 4], "little")
        at += 4 + length
        if data.find(_TEXT_COLUMN, said, min(program, at)) >= 0:
            return True
    return data.find(_TEXT_COLUMN, at) >= 0


def read_headers(
    section: DebugSection,
    strings: StringReader,
    skipped: frozenset[int],
    warnings: Warnings,
    budget: DebugBudget | None = None,
) -> Iterator[LineHeader]:
    """The header of every table that has a readable one and does not begin at one of the ``skipped`` offsets. Raises
    LimitExceeded where they list more than ``LINE_FILES`` directories and files together, or are more than
    ``budget`` has left."""
    data, at = section.data, 0
    reader = LineHeaderReader(data, section.name, strings, ListedFiles(section.name))
    while at < len(data):
        if budget is not None:
            budget.count_header(section.name)
        try:
            length = reader.length(at)
        except SymdError as error:
            warnings.add(f"the rest of the section is left out: {error}")
            return
        if length > len(data) - reader.at:
            where = f"{section.name}+{at:#x}"
            warnings.add(f"{where}: the rest is left out: table length {length:#x} passes the section's end")
            return
        end = reader.at + length
        try:
            if length and at not in skipped:
                yield reader.read(at, end)
        except (Malformed, Unsupported) as error:
            warnings.add(f"{section.name}+{at:#x}: line table left out: {error}")
        at = end


LINE_FILES = 2_000_000
"""Directories and files that the line tables of one code object list, all together."""


class ListedFiles:
    """Counts the directories and files that an object's line tables list: an entry may take no more than a byte of a
    section that was compressed, and hundreds of memory."""

    def __init__(self, section: str) -> None:
        self._section, self._count = section, 0

    def add(self, number: int) -> None:
        """``number`` more are about to be read. Raises LimitExceeded."""
        self._count += number
        if self._count > LINE_FILES:
            what = f"line tables list more than {LINE_FILES} directories and files"
            raise beyond("line_files", LINE_FILES, what, self._section)


_NO_FILES = array("I")
_BYTES_A_STEP = 4
"""Bytes of programs that are as much work as a step."""


class LineTables(NamedTuple):
    """What the line tables of an object say: ``rows``, whose ``program`` is a place in ``headers`` and whose files are
    numbers of ``files``, entry 0 of which is "". Of rows that several objects share, its own are ``rows_at``, and its
    sequences ``sequences_at``. ``file_maps`` maps a table's offset to an array (u32) that turns its file register into
    such a number; ``calls`` are the inlined calls that NVIDIA's tables carry (None where none does)."""

    rows: LineProgramRows
    rows_at: slice
    sequences_at: slice
    headers: Sequence[LineHeader]
    file_maps: Mapping[int, array[int]]
    files: tuple[str, ...]
    calls: InlinedCalls | None
    warnings: tuple[str, ...]


def read_tables(sections: DebugSections, units: Units | None = None) -> LineTables:
    """``read_tables_of`` one object. ``units`` is ``read_units(sections)``, read here when it is not given."""
    return read_tables_of([(sections, read_units(sections) if units is None else units)])[0]


def read_tables_of(objects: Sequence[tuple[DebugSections, Units]]) -> list[LineTables]:
    """Decode every line table of ``.debug_line`` of each object, each once, whether a unit of ``.debug_info`` refers to
    it or not. The objects share one budget, and the rows of one follow those of another.

    Units are those of the object, and supply compilation directories (the first unit that refers to a table decides).
    DWARF 2 to 5 (6.2), 32- and 64-bit, all opcodes, NVIDIA's inline extension.

    A table whose header or program contradicts the format is left out whole, and a sequence without an end is left
    out, each with a warning; a table whose length leads out of the section ends the walk. Raises Malformed when an
    object has tables and not one of them can be read, LimitExceeded where they list more files than are taken, have
    more rows or instructions than the budget has left, or where strings of inlined calls overlap without end.
    """
    first = objects[0][0]
    budget, counted = first.budget, 0

    def check(count: int) -> None:
        if budget is not None:
            budget.check(count - counted, first.lines.name)

    known = []
    for sections, units in objects:
        strings, warnings = StringReader(sections), Warnings()
        headers = list(read_headers(sections.lines, strings, units.skipped_tables, warnings, budget))
        known.append((sections.lines, units, strings, warnings, headers))
    rows = LineProgramRows(first.lines.data, first.lines.name, check)
    found = []
    for section, units, strings, warnings, headers in known:
        listed = ListedFiles(section.name)  # what headers list was counted when these were read
        first_row, first_sequence = rows.count, len(rows.ends)
        rows.open(section.data, listed.add)
        refused = 0
        for number, header in enumerate(headers):
            refused += not _run(rows, number, header, section, warnings, budget)
            if budget is not None:
                budget.count(rows.count - counted, section.name)
            counted = rows.count
        if warnings and refused == len(headers):
            raise Malformed(f"no line table can be read: {warnings.all()[0]}", where=section.name)
        file_maps, files = number_files(FilePaths(section.name), headers, units.units)
        rows.number_files([file_maps[header.offset] for header in headers])
        calls = None
        if rows.context:
            calls = inlined_calls.resolved(rows.of_this_object(), [each.names_base for each in headers], strings)
        own, sequences = slice(first_row, rows.count), slice(first_sequence, len(rows.ends))
        found.append(LineTables(rows, own, sequences, headers, file_maps, files, calls, warnings.all()))
    rows.trim()
    return found


def _run(
    rows: LineProgramRows,
    number: int,
    header: LineHeader,
    section: DebugSection,
    warnings: Warnings,
    budget: DebugBudget | None,
) -> bool:
    """Add the rows of a program; whether it was taken, if perhaps with a warning. Files that it defines are appended to
    the ``files`` of its header. Raises LimitExceeded where it defines too many."""
    if budget is not None:
        budget.spend((header.end - header.program) // _BYTES_A_STEP, section.name)
    try:
        is_whole, files = rows.run(number, header.program, header.end, header.parameters)
    except Malformed as error:
        warnings.add(f"{section.name}+{header.offset:#x}: line table left out: {error}")
        return False
    header.files.extend(files)
    if not is_whole:
        warnings.add(f"{section.name}+{header.offset:#x}: the last sequence has no end and is left out")
    return True


def number_files(
    full: FilePaths, headers: Sequence[LineHeader], units: Sequence[Unit]
) -> tuple[dict[int, array[int]], tuple[str, ...]]:
    """Every table's map from file register to file number, and the files' full paths."""
    comp_dirs: dict[int, bytes] = {}
    for unit in units:
        if unit.stmt_list is not None:
            comp_dirs.setdefault(unit.stmt_list, unit.comp_dir)
    numbers: dict[bytes, int] = {b"": 0}
    maps = {}
    for header in headers:
        paths = full.of(header, comp_dirs.get(header.offset, b""))
        maps[header.offset] = array("I", [numbers.setdefault(path, len(numbers)) for path in paths])
    return maps, tuple(path.decode("utf-8", "replace") for path in numbers)


def maps_of_units(file_maps: Mapping[int, array[int]], units: Sequence[Unit]) -> list[array[int]]:
    """The entry of ``file_maps`` (as ``LineTables`` has them) of each unit's line table; an empty one where it has none
    that was read."""
    return [file_maps.get(-1 if unit.stmt_list is None else unit.stmt_list, _NO_FILES) for unit in units]


PATH_BYTES = 256 << 20
"""Bytes of the paths that directories and files of one code object's line tables make: a few long directories and many
files multiply."""


def is_absolute(path: bytes) -> bool:
    """Absolute on POSIX or on Windows: "/x", "C:\\x", "C:/x", "\\\\host\\x"."""
    if path.startswith(b"/"):
        return True
    if path[1:2] == b":":
        return path[:1].isalpha() and path[2:3] in (b"\\", b"/")
    return path.startswith(b"\\\\") and path[2:].replace(b"/", b"\\").find(b"\\") > 0


def append(path: bytes, part: bytes) -> bytes:
    """``path`` and ``part`` with exactly one separator made where neither brings one."""
    if not part or not path:
        return path + part
    if path.endswith(b"/"):
        return path + part.lstrip(b"/")
    return path + part if part.startswith(b"/") else path + b"/" + part


def join(comp_dir: bytes, directory: bytes, name: bytes) -> bytes:
    """The path of ``name`` in ``directory`` of a unit compiled in ``comp_dir``; each may be empty or absolute. Nothing
    where there is no name, as in a table whose strings are missing: a folder is no source file."""
    if not name or is_absolute(name):
        return name
    if not is_absolute(directory):
        directory = append(comp_dir, directory)
    return append(directory, name)


def table_paths(
    version: int, directories: Sequence[bytes], files: Sequence[tuple[bytes, int]], comp_dir: bytes
) -> Iterator[bytes]:
    """The full paths of a line table's ``files`` (name and directory index), by file register: from 0 in DWARF 5, from
    1 before (0 is b""), where directory 0 is the compilation's."""
    if version >= 5:
        comp_dir = comp_dir or (directories[0] if directories else b"")
    else:
        directories = [b"", *directories]
        yield b""
    for name, number in files:
        base = b"" if version >= 5 and number == 0 else comp_dir
        yield join(base, directories[number] if 0 <= number < len(directories) else b"", name)


class FilePaths:
    """The paths of an object's line tables, made within ``PATH_BYTES`` bytes in all. ``section`` is where the tables
    stand."""

    def __init__(self, section: str) -> None:
        self._section, self._left = section, PATH_BYTES

    def of(self, header: LineHeader, comp_dir: bytes) -> list[bytes]:
        """``table_paths``. Raises LimitExceeded before more is made than may be."""
        found = []
        for path in table_paths(header.version, header.directories, header.files, comp_dir):
            self._left -= len(path)
            if self._left < 0:
                what = f"file paths take more than {PATH_BYTES} bytes"
                raise beyond("path_bytes", PATH_BYTES, what, self._section)
            found.append(path)
        return found


_LOCAL = "_ZZ"
"""How the Itanium ABI begins the mangled name of what is declared inside a function."""
_INSIDE = ("operator()", "_block_invoke", "omp_outlined")
"""What the names of lambdas, blocks and outlined regions have in common."""


def line_ends(found: ScopeRows, names: Sequence[Sequence[str]]) -> array[int]:
    """For each function the line (u32) behind its last one: ``symd.core.function_extents.NO_END`` where no other
    declaration follows, 0 where nothing is known. The names of an object's functions are indexes of its ``names``."""
    count = len(found.functions) // len(FUNCTION_COLUMNS)
    is_inside = bytearray(count)
    first = 0
    for stop, texts in zip(found.function_ends, names, strict=True):
        text = "\n".join(texts)
        if first < stop and (_LOCAL in text or any(part in text for part in _INSIDE)):  # not so in most objects
            name, linkage_name = found.functions[first:stop], found.functions[count + first : count + stop]
            is_inside[first:stop] = _are_inside(name, linkage_name, texts)
        first = stop
    return core.line_ends(found.functions, is_inside, found)


def _are_inside(name: Sequence[int], linkage_name: Sequence[int], names: Sequence[str]) -> bytes:
    """For each function whether its name says that it is declared inside another one."""
    inside = {
        number
        for number in {*name, *linkage_name}
        if names[number].startswith(_LOCAL) or any(part in names[number] for part in _INSIDE)
    }
    return bytes(one in inside or other in inside for one, other in zip(name, linkage_name, strict=True))

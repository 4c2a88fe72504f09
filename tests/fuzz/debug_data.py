"""Readers of debug data as targets. Their inputs are bundles of debug sections, relocated and expanded, without an image
around them; relocation and SPIR-V have whole images."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import ModuleType

import numpy as np

from symd.config import Limits
from symd.core import line_program
from symd.core.byte_reader import StringReader
from symd.core.headers import LineHeader
from symd.debuginfo import embedded_sources, reading
from symd.debuginfo.dwarf import columns as columns_module
from symd.debuginfo.dwarf import units as units_module
from symd.debuginfo.dwarf.columns import unit_ranges
from symd.debuginfo.dwarf.forms import Widths
from symd.debuginfo.dwarf.lines import read_headers
from symd.debuginfo.dwarf.sections import ELF_NAMES, DebugSections, Warnings
from symd.debuginfo.dwarf.units import SCOPES, read_rows
from symd.debuginfo.folded_sequences import find_folded, function_lines
from symd.debuginfo.relocation import linear_layout, relocated
from symd.debuginfo.variables import location_lists
from symd.debuginfo.variables.lanes import OperandNames, evaluate
from symd.debuginfo.variables.location_records import describe
from symd.debuginfo.variables.machine import ExpressionContext
from symd.debuginfo.variables.registers import RegisterName, address_space, register_name
from symd.debuginfo.variables.types import Reading
from symd.debuginfo.variables.visible import VariableReader
from symd.errors import LimitExceeded, Malformed, SymdError
from symd.formats import containers, elf
from symd.formats.budget import Budget, DebugBudget
from symd.formats.containers import spirv
from symd.formats.containers.format import Element
from symd.formats.containers.nvidia import cubin
from symd.formats.spirv_rules import check
from symd.model.code import CodeObject, DebugScheme, RelocationScheme, Section, Vendor
from symd.model.debug_info import DebugInfo
from symd.model.identities import ObjectPath
from symd.query.line_tables import ptx_table
from symd.query.source_files import from_module
from tests.core.plain_values import plain
from tests.core.uncompiled import uncompiled, without_compiled_core
from tests.debuginfo.folded_one_by_one import judged
from tests.fuzz import bundle, seeds, spirv_words
from tests.fuzz.elf_sections import section_of
from tests.fuzz.folded import columns
from tests.fuzz.folded import objects as folded
from tests.fuzz.target import Refused, Target, fitting

LIMITS = Limits()
NAMES = ELF_NAMES
"""The parts of a bundle, after one that says where the text is."""
_PARTS = 1 + len(NAMES)
_LINES = (".debug_line", ".debug_line_str", ".debug_str")
_LISTS = (".debug_ranges", ".debug_rnglists", ".debug_loc", ".debug_loclists", ".debug_addr")
_SAY_WHOSE = (".debug_line", ".debug_info", ".debug_abbrev", ".debug_ranges", ".debug_rnglists", ".debug_addr")
_VENDORS = tuple(Vendor)
_UNCOMPILED = uncompiled("line_program")
_UNCOMPILED_BYTES = 1 << 15
"""Larger bundles are read by the compiled core alone: uncompiled it takes a hundred times as long."""
_TEXT = np.dtype([("address", "<u8"), ("size", "<u4")])


@cache
def _bundles() -> tuple[bytes, ...]:
    """Text and debug sections of the samples; the vendor's number goes first."""
    return _bundled(seeds.debug_code())


@cache
def _folded() -> tuple[bytes, ...]:
    """The same of code objects with folded functions."""
    return _bundled(code for data in folded.objects() for code in containers.unpack(data, LIMITS).objects)


def _bundled(codes: Iterable[CodeObject]) -> tuple[bytes, ...]:
    found = []
    for code in codes:
        layout = linear_layout(code)
        contents = relocated(code, layout)
        text = np.array(list(zip(layout.base.tolist(), layout.size.tolist(), strict=True)), _TEXT)
        head = bytes([_VENDORS.index(code.vendor)]) + text.tobytes()
        parts = {section.name: section.data for section in contents.every()}
        if sum(map(len, parts.values())) <= seeds.LARGEST:
            found.append(bundle.pack([head, *(parts[name] for name in NAMES)]))
    return tuple(found)


def _sections(parts: Sequence[bytes]) -> DebugSections:
    return DebugSections.of(dict(zip(NAMES, parts, strict=True)))


def _code(data: bytes) -> CodeObject:
    """A linked code object with the text and the debug sections of a bundle."""
    head, *parts = bundle.unpack(data, _PARTS)
    text = np.frombuffer(head[1 : 1 + len(head[1:]) // _TEXT.itemsize * _TEXT.itemsize], _TEXT)[:64]
    sections = [
        Section(number, f".text.{number}", 1, 6, address, size, b"")
        for number, (address, size) in enumerate(text.tolist(), 1)
        if address + size < 1 << 64
    ]
    sections += [
        Section(100 + number, name, 1, 0, 0, len(part), part)
        for number, (name, part) in enumerate(zip(NAMES, parts, strict=True))
    ]
    return CodeObject(
        ObjectPath(""),
        "amdgpu",
        None,
        b"",
        tuple(sections),
        vendor=_VENDORS[head[0] % len(_VENDORS)] if head else Vendor.NONE,
        relocation=RelocationScheme.NONE,
        debug=DebugScheme.DWARF_4 if parts[0] else DebugScheme.LINE_ONLY,
    )


def read_lines(data: bytes) -> None:
    """Line tables, by the core compiled and as its source stands: both have the same rows, or refuse a program for the same reason."""
    parts = dict(zip(_LINES, bundle.unpack(data, len(_LINES)), strict=True))
    sections = DebugSections.of(parts)
    with fitting():
        headers = list(read_headers(sections.lines, StringReader(sections), frozenset(), Warnings()))
        for header in headers:
            compiled, plain = (_rows(module, sections, header) for module in (line_program, _UNCOMPILED))
            assert compiled == plain, header
        columns_module.read_lines(sections)


def _rows(module: ModuleType, sections: DebugSections, header: LineHeader) -> list[object] | str:
    """All that a program comes to, or why it was refused."""
    rows = module.LineProgramRows(sections.lines.data, sections.lines.name)
    try:
        whole = rows.run(0, header.program, header.end, header.parameters)
    except Malformed as error:
        return str(error)
    columns = (rows.address, rows.file, rows.line, rows.column, rows.flags, rows.context, rows.name)
    return [whole, rows.ends, rows.program, *(column[: rows.count] for column in columns)]


_DIE_COLUMNS = (
    "offset", "end", "name", "linkage_name", "origin", "specification", "location",
    "unit", "parent", "depth", "tag", "flags", "call_file", "call_line", "call_column", "decl_file", "decl_line",
)  # fmt: skip


def _decoded(data: bytes) -> object:
    """All that debug data comes to, or why it was refused."""
    code = _code(data)
    try:
        sections = relocated(code, linear_layout(code), DebugBudget.of(code, LIMITS))
        rows, left_out = read_rows(sections, units_module.read_units(sections).units, SCOPES, with_children=True)
        lists = [rows.ranges.which, rows.ranges.start, rows.ranges.stop]
        dies = (
            [rows.column(name) for name in _DIE_COLUMNS],
            lists,
            rows.missing_offsets,
            rows.missing_lists,
            rows.ranges.damaged,
        )
        return dies, [(place, str(error)) for place, error in left_out], plain(reading.read(code, LIMITS))
    except SymdError as error:
        return str(error)


def read_scopes(data: bytes) -> None:
    """Units, lines, the tree of DIEs, and ranges: all that an index needs. The core says the same of it, compiled and as its source stands, and of
    two objects that are read side by side as of one."""
    with fitting():
        compiled = _decoded(data)
        if len(data) <= _UNCOMPILED_BYTES:
            with without_compiled_core():
                assert _decoded(data) == compiled
        code = _code(data)
        alone, *twice = (found for objects in ([code], [code, code]) for _, found in reading.read_each(objects, LIMITS))
        if not any(
            isinstance(found, LimitExceeded) for found in (alone, *twice)
        ):  # two may be too much where one is not
            assert [plain(found) for found in twice] == 2 * [plain(alone)]
        debug = reading.read(code, LIMITS)
        _whole(debug)


def read_folded(data: bytes) -> None:
    """Line sequences at one place: which are other functions', found at once and one by one."""
    code = _code(data)
    with fitting():
        layout = linear_layout(code)
        sections = relocated(code, layout)
        units = units_module.read_units(sections)
        lines = columns_module.read_lines(sections, units)
        scopes = columns_module.read_scopes(sections, lines, units)
        functions = function_lines(scopes)
        found = find_folded(sections, lines, scopes, units, functions, layout)
        one_by_one = judged(unit_ranges(sections, units.units), lines, scopes, units, functions, layout)
    columns.agree(found, one_by_one)


def _whole(debug: DebugInfo) -> None:
    assert len(debug.rows) == len(debug.rows.line)


_PLACES = tuple((text, part) for part in range(4) for text in range(4))
"""Text sections, and quarters of one."""
_PLACES_ASKED = 3


def read_variables(data: bytes) -> None:
    """Variables at some places: locations, types, lists. Which places, its bytes say: all of them are asked sooner or later, and an
    input of which all were asked would take four times as long, mostly for what its change left alone."""
    code = _code(data)
    chosen = random.Random(zlib.crc32(data)).sample(_PLACES, _PLACES_ASKED)
    with fitting():
        reader = VariableReader(code)
        texts = [each for each in code.sections if each.executable]
        for number, part in chosen:
            if texts:
                text = texts[number % min(len(texts), 4)]
                reader.at(text.index, part * text.size // 4)


def read_units(data: bytes) -> None:
    """Headers, abbreviations and the units' own DIEs."""
    _, *parts = bundle.unpack(data, _PARTS)
    with fitting():
        units_module.read_units(_sections(parts))


_WIDTHS = tuple(Widths(address, 4 << wide, version) for address in (4, 8) for wide in (0, 1) for version in (2, 4, 5))


def read_expression(data: bytes) -> None:
    """One location expression; the first bytes say whose, and how wide."""
    vendor, widths, lanes, body = _VENDORS[data[0] % 4], _WIDTHS[data[1] % len(_WIDTHS)], data[2], data[3:]
    context = ExpressionContext(
        vendor,
        widths,
        address=lambda index: 0x1000 * index if index < 10 else None,
        frame_base=lambda: body[:16],
        called=lambda offset: body[offset % 64 :] if offset % 3 else None,
        name_of=str,
        text_at=lambda address: hex(address) if address % 2 else None,
    )
    names = OperandNames(
        lambda number: RegisterName(register_name(vendor, number)),
        lambda space: address_space(vendor, space),
        Reading("", None),
    )
    with fitting():
        describe(evaluate(body, context, lanes or None), names)


def _expression(data: bytes) -> None:
    if len(data) < 4:
        raise Refused
    read_expression(data)


def read_location_list(data: bytes) -> None:
    """One location list; the first bytes say of which version."""
    if len(data) < 4:
        raise Refused
    body = data[4:]
    sections = DebugSections.of({".debug_loc": body, ".debug_loclists": body})
    unit = location_lists.ListUnit(data[0] % 4 + 2, 4 << data[1] % 2, 4 << data[2] % 2, data[3], _address)
    with fitting():
        location_lists.read(sections, unit, 0, location_lists.ListEntryBudget())
    with fitting():
        location_lists.offset_of(sections, unit, 4, data[3])


def _address(index: int) -> int | None:
    return 0x1000 * index if index < 10 else None


def read_relocated(data: bytes) -> None:
    """Relocation of a whole image's debug sections, and what is decoded of them."""
    with fitting():
        code = _claimed(data)
        layout = linear_layout(code)
        relocated(code, layout)
        reading.read(code, LIMITS)


def _claimed(data: bytes) -> CodeObject:
    form = containers.identify(data) if data[:4] == elf.MAGIC else None
    code = form.read(Element("", data), Budget(LIMITS)).code_object if form else None
    if code is None:
        raise Refused
    return code


def read_nvidia(data: bytes) -> None:
    """A cubin's line table with its inlined calls, and the second level of lines in PTX."""
    if not cubin.claims(data):
        raise Refused
    with fitting():
        code = cubin.read(Element("", data), Budget(LIMITS)).code_object
        assert code is not None
        table = ptx_table(code)
        assert table is None or len(table) == len(table.line)
        _whole(reading.read(code, LIMITS))


def read_spirv(data: bytes) -> None:
    """Words, functions, debug information, source text. The core says the same of it, compiled and as its source stands."""
    if not spirv.claims(data):
        raise Refused
    with fitting():
        if len(data) <= _UNCOMPILED_BYTES:
            compiled = _decoded_spirv(data)
            with without_compiled_core():
                assert _decoded_spirv(data) == compiled
        code = spirv.read(Element("", data), Budget(LIMITS)).code_object
        assert code is not None
        for kernel in code.kernels:
            dict(kernel.facts)
        dict(code.facts)
        debug = reading.read(code, LIMITS)
        from_module([code], list(debug.files)[:4])


def _decoded_spirv(data: bytes) -> object:
    """All that a module comes to, or why it was refused."""
    try:
        code = spirv.read(Element("", data), Budget(LIMITS)).code_object
        assert code is not None
        return code.kernels, code.functions, plain(reading.read(code, LIMITS))
    except SymdError as error:
        return str(error)


def check_spirv(data: bytes) -> None:
    """The rules; they judge every module, however damaged."""
    check(data)


def read_sources(data: bytes) -> None:
    """Source text that debug data embeds."""
    with fitting():
        for text in embedded_sources.embedded_sources(_code(data)).values():
            assert text is not None


@cache
def _lines() -> list[bytes]:
    found = []
    for data in _bundles():
        _, *parts = bundle.unpack(data, _PARTS)
        by_name = dict(zip(NAMES, parts, strict=True))
        found.append(bundle.pack([by_name[name] for name in _LINES]))
    return seeds.spread(found, 64)


@cache
def _cubins() -> list[bytes]:
    found = [data for form, data in seeds.elements() if form is cubin]
    return seeds.spread(found, 24)


@cache
def _spirv() -> list[bytes]:
    return seeds.spread((data for form, data in seeds.elements() if form is spirv), 32)


@cache
def _relocatable() -> list[bytes]:
    return [code.data for code in seeds.debug_code() if code.relocation is not RelocationScheme.NONE]


@cache
def _with_lists() -> list[bytes]:
    numbers = [1 + NAMES.index(name) for name in _LISTS[:4]]
    return [data for data in _bundles() if any(bundle.unpack(data, _PARTS)[number] for number in numbers)]


_EXPRESSIONS = tuple(
    bytes([vendor, 6, 16]) + bytes.fromhex(body)
    for vendor in range(4)
    for body in (
        "0300100000000000009f",
        "ed33252323 2d eb ed371a0820 1e 0820 ec 9f".replace(" ", ""),
        "9110",
        "5093049304",
        "a3015030 9f".replace(" ", ""),
        "08201e230422940493049d0804",
        "fe0401ed",
        "f004 9f".replace(" ", ""),
        "92e80010 06 23 10 06".replace(" ", ""),
        "2f0000 2801 00 9e 0401020304".replace(" ", ""),
    )
)
_LOCATION_LISTS = tuple(
    bytes([version, 1, 0, 1]) + body
    for version in range(4)
    for body in (
        bytes(range(8)) + b"\x10" + bytes(7) + b"\x02\0\x50\x9f" + bytes(16),
        b"\xff" * 8 + bytes(8) + bytes(16),
        b"\x04\x00\x10\x01\x50\x05\x02\x50\x9f\x00",
        b"\x01\x01\x02\x01\x02\x02\x50\x9f\x06" + bytes(8) + b"\x03\x01\x10\x01\x50\x08" + bytes(8) + b"\x04\x00\x00",
    )
)

TARGETS: Mapping[str, Target] = {
    "dwarf.lines": Target(read_lines, _lines, bundle.part_of(len(_LINES))),
    "dwarf.units": Target(read_units, _bundles, bundle.part_of(_PARTS, {1, 2})),
    "dwarf.scopes": Target(read_scopes, _bundles, bundle.part_of(_PARTS)),
    "dwarf.folded": Target(
        read_folded, _folded, bundle.part_of(_PARTS, {1 + NAMES.index(name) for name in _SAY_WHOSE})
    ),
    **columns.TARGETS,
    "dwarf.range_lists": Target(
        read_scopes, _with_lists, bundle.part_of(_PARTS, {1 + NAMES.index(name) for name in _LISTS})
    ),
    "variables": Target(read_variables, _bundles, bundle.part_of(_PARTS)),
    "variables.lists": Target(
        read_variables, _with_lists, bundle.part_of(_PARTS, {1 + NAMES.index(name) for name in _LISTS})
    ),
    "variables.expression": Target(_expression, lambda: _EXPRESSIONS, largest=4096),
    "variables.location_list": Target(read_location_list, lambda: _LOCATION_LISTS, largest=1 << 16),
    "relocation": Target(
        read_relocated, _relocatable, section_of(".rel", ".symtab", ".strtab", ".debug_frame", ".debug_info")
    ),
    "nvidia": Target(
        read_nvidia, _cubins, section_of(".debug_line", ".nv_debug", ".nv.", ".symtab", ".strtab", ".rel")
    ),
    "sources": Target(read_sources, _bundles, bundle.part_of(_PARTS, {3, 5})),
    "spirv": Target(read_spirv, _spirv, spirv_words.mutate),
    "spirv_check": Target(check_spirv, _spirv, spirv_words.mutate),
}

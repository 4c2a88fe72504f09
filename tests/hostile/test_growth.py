"""Work grows with the file: counted in steps of the interpreter, which no other process of the machine changes."""

from __future__ import annotations

import struct
import tracemalloc
from functools import partial

import pytest

from symd.config import Limits
from symd.debuginfo.spirv import source_texts
from symd.errors import LimitExceeded, Malformed
from symd.formats import containers
from symd.formats.containers import bounded_yaml
from symd.index import Index
from symd.index.functions import _first_around
from symd.index.lookup import KEPT_MAPS
from symd.index.module import build_index
from symd.model.addresses import BySection, SectionOffset
from symd.model.names import Match, NameQuery
from symd.query.disasm.disassembler import code_ranges
from symd.query.names import find_names
from symd.query.symbolize import symbolize
from tests.builders.elf import AX, Section, Symbol, build_elf
from tests.hostile.growth import (
    AMD,
    CUDA_INFO,
    NVIDIA,
    OF_MANY,
    STO_CUDA_ENTRY,
    TEXT,
    bundles,
    instruction,
    literal,
    steps,
)
from tests.hostile.work import line_table

FEW = 150
SHADER_DEBUG_INFO = "NonSemantic.Shader.DebugInfo.100"


@pytest.mark.parametrize("name", OF_MANY)
def test_twice_as_many_are_not_more_than_twice_the_work(name: str) -> None:
    build_index(OF_MANY[name](2), Limits())  # what is imported now is not counted
    few, many, most = (steps(partial(build_index, OF_MANY[name](count), Limits())) for count in (1, FEW, 2 * FEW))
    assert most - few < 2.05 * (many - few)


@pytest.mark.parametrize("name", ["zebin kernels", "cubin sections", "fat binary members"])
def test_twice_as_many_names_are_not_more_than_twice_the_work(name: str) -> None:
    def work(count: int) -> int:
        index = Index(build_index(OF_MANY[name](count), Limits()))
        return steps(lambda: list(find_names(index, NameQuery("*", Match.GLOB))))

    work(2)  # what is imported now is not counted
    few, many, most = (work(count) for count in (1, FEW, 2 * FEW))
    assert most - few < 2.05 * (many - few)


def test_twice_as_many_sections_asked_for_are_not_more_than_twice_the_work() -> None:
    """By their numbers and by their names, also by names that no section has."""

    def work(count: int) -> int:
        index = Index(build_index(OF_MANY["cubin sections"](count), Limits()))
        names = [f"{begin}{at}" for at in range(count) for begin in (".text.k", "q")]
        queries = [BySection(each, SectionOffset(0)) for each in (*names, *range(1, count + 1))]
        return steps(lambda: symbolize(index, queries))

    work(2)  # what is imported now is not counted
    few, many, most = (work(count) for count in (1, FEW, 2 * FEW))
    assert most - few < 2.05 * (many - few)


@pytest.mark.parametrize("name", ["cubin sections", "zebin kernels", "AMD kernels"])
def test_twice_as_many_kernels_to_disassemble_are_not_more_than_twice_the_work(name: str) -> None:
    def work(count: int) -> int:
        [code] = containers.unpack(OF_MANY[name](count)).objects
        return steps(lambda: code_ranges(code))

    work(2)  # what is imported now is not counted
    few, many, most = (work(count) for count in (1, FEW, 2 * FEW))
    assert most - few < 2.05 * (many - few)


def test_what_an_index_keeps_of_the_objects_asked_about_is_bounded() -> None:
    """8,000 objects of 6 MB, each asked about by its path, took 390 MB of the daemon."""

    def kept(count: int) -> int:
        index = Index(build_index(OF_MANY["fat binary members"](count), Limits()))
        index.address_map(None).one(0)
        tracemalloc.start()
        try:
            for path in index.objects:
                index.address_map(path).one(0)
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert kept(4 * KEPT_MAPS) < 1.5 * kept(2 * KEPT_MAPS)


def test_of_symbols_of_one_name_the_first_around_a_function_is_its_own() -> None:
    """Also where they overlap."""
    spans = [(0, 100, 3), (10, 20, 1), (10, 60, 4), (50, 60, 0), (200, 300, 2)]
    offsets = [*range(0, 310, 5)]
    simple = {at: [number for start, end, number in spans if start <= at < end] for at in offsets}
    assert _first_around(spans, offsets) == {at: min(numbers) for at, numbers in simple.items() if numbers}


def refused(data: bytes) -> str:
    """The limit that indexing passes."""
    with pytest.raises(LimitExceeded) as caught:
        build_index(data, Limits())
    return str(caught.value.metadata["limit"])


def test_entries_that_many_damaged_bundles_have_in_common_are_counted() -> None:
    """2,000 tables that end where the section does have two million entries."""
    assert refused(bundles(2000)) == "work_ratio"


def test_attributes_that_many_kernels_have_in_common_are_counted() -> None:
    """2,000 symbols in one section with 2,000 attributes would have four million."""
    sections = [
        Section(".text.k", flags=AX, data=bytes(8)),
        Section(".nv.info.k", CUDA_INFO, data=struct.pack("<BBH", 1, 1, 0) * 2000, info=1),
    ]
    symbols = [Symbol(f"k{at}", size=8, section=1, other=STO_CUDA_ENTRY) for at in range(2000)]
    assert refused(build_elf(machine=NVIDIA, type=2, sections=sections, symbols=symbols)) == "shared_facts"


def test_sections_of_one_name_do_not_multiply_what_is_said_of_it() -> None:
    said = "kernels_misc_info:\n  - name: k\n    args_info:\n" + "      - {name: x}\n" * 500
    said += "kernels:\n  - name: k\n"
    texts = [Section(".text.k", flags=AX, data=bytes(8))] * 500
    [code] = containers.unpack(
        build_elf(machine=205, sections=[*texts, Section(".ze_info", 0xFF000011, data=said.encode())])
    ).objects
    assert [len(kernel.facts.get("arguments", ())) for kernel in code.kernels] == [500] + [0] * 499


def test_aliases_that_stand_for_more_than_the_text_holds_are_refused() -> None:
    few = "a: &a [" + "x, " * 100 + "]\nb: [*a, *a]\n"
    assert [len(each) for each in bounded_yaml.load(few)["b"]] == [100, 100]
    with pytest.raises(Malformed, match="more values than it has bytes"):
        bounded_yaml.load("a: &a [" + "x, " * 1000 + "]\nb: [" + "*a, " * 1000 + "]\n")


def test_source_texts_of_many_files_that_are_one_string_do_not_multiply_it() -> None:
    """A DebugSource and what continues it take fifty bytes, and name a string of any length."""
    by_file = [texts_of_one_string(count) for count in (2, 200)]
    few, many = (containers.unpack(data).objects[0] for data in by_file)
    assert {len(text) for text in source_texts(few).values()} == {2000}
    with pytest.raises(Malformed, match="8 times as long as the module"):
        source_texts(many)


@pytest.mark.parametrize("made", ["scopes of no function", "rows of lines that others can have"])
def test_calls_around_many_places_are_gone_through_once(made: str) -> None:
    """42 KB of such scopes took 13 s, 59 KB of such rows 11 s."""
    make = scopes_of_no_function if made.startswith("scopes") else rows_of_others

    def work(depth: int) -> int:
        one, many = (steps(partial(build_index, make(count, depth), Limits())) for count in (1, FEW))
        return many - one

    build_index(make(2, 2), Limits())  # what is imported now is not counted
    assert work(200) < 2 * work(2)


def scopes_of_no_function(count: int, depth: int) -> bytes:
    """SPIR-V with so many DebugScope of no function, each in so many inlined calls."""
    void, debug, integer, line, kind, first = 2, 3, 4, 5, 6, 100
    words = [
        0x07230203,
        0x10500,
        0,
        1_000_000,
        0,
        *instruction(17, 6),
        *instruction(11, debug, *literal(SHADER_DEBUG_INFO)),
    ]
    words += instruction(14, 2, 2) + instruction(19, void) + instruction(21, integer, 32, 0)
    words += instruction(43, integer, line, 7) + instruction(33, kind, void)
    for number in range(depth):
        around = [first + number - 1] if number else []
        words += instruction(12, void, first + number, debug, 25, line, 90_000 + number, *around)
    words += instruction(54, void, 50, 0, kind) + instruction(248, 51)
    for number in range(count):
        words += instruction(12, void, 200_000 + number, debug, 23, 300_000 + number, first + depth - 1) + instruction(
            0
        )
    words += instruction(253) + instruction(56)
    return struct.pack(f"<{len(words)}I", *words)


def rows_of_others(count: int, depth: int) -> bytes:
    """So many inlined calls inside so many others, each with a row of a line that only a function can have of which there are two copies."""
    abbreviations = (
        b"\1\x11\1\x10\x17\0\0"  # unit: stmt_list
        b"\2\x2e\1\3\x08\x11\1\x12\6\x3a\x0b\x3b\5\0\0"  # function: name, low_pc, high_pc, decl_file, decl_line
        b"\3\x1d\1\x31\x13\x11\1\x12\6\x58\x0b\x59\x0b\0\0"  # call with children: origin, low_pc, high_pc, call_file, call_line
        b"\4\x1d\0\x31\x13\x11\1\x12\6\x58\x0b\x59\x0b\0\0"  # call
        b"\5\x2e\0\3\x08\x3a\x0b\x3b\5\0\0\0"  # declared: name, decl_file, decl_line
    )
    size, place = count + 64, b"\1\x32"
    own, other, tree = 16, 22, b"\1" + bytes(4)
    tree += b"".join(
        b"\5" + name + b"\0\1" + struct.pack("<H", at) for name, at in ((b"a", 10), (b"b", 100), (b"c", 200))
    )
    tree += b"\2k\0" + struct.pack("<QI", TEXT, size) + b"\1\1\0"
    tree += (b"\3" + struct.pack("<IQI", own, TEXT, size) + place) * depth
    for copy in range(2):
        tree += b"\4" + struct.pack("<IQI", other, TEXT + count + 8 * copy, 4) + place
    tree += b"".join(b"\4" + struct.pack("<IQI", own, TEXT + number, 1) + place for number in range(count))
    unit = struct.pack("<HIB", 4, 0, 8) + tree + bytes(depth + 2)
    rows = b"\3\xf7\0" + b"\x20" * count + b"\2\x08\1\2\x08\1\2\x30"
    program = b"\0\x09\2" + struct.pack("<Q", TEXT) + rows + b"\0\1\1"
    return build_elf(
        machine=AMD,
        osabi=64,
        type=3,
        sections=[
            Section(".text", flags=AX, address=TEXT, data=bytes(size)),
            Section(".debug_info", data=struct.pack("<I", len(unit)) + unit),
            Section(".debug_abbrev", data=abbreviations),
            Section(".debug_line", data=line_table(program)),
        ],
        symbols=[Symbol("k", value=TEXT, size=size, section=".text")],
    )


def texts_of_one_string(files: int) -> bytes:
    """SPIR-V whose source files all consist of one string of 1,000 characters, twice."""
    words = [0x07230203, 0x10500, 0, 10_000, 0, *instruction(17, 6), *instruction(11, 3, *literal(SHADER_DEBUG_INFO))]
    words += instruction(14, 2, 2) + instruction(7, 5, *literal("x" * 1000)) + instruction(19, 1)
    for number in range(files):
        words += instruction(7, 1000 + number, *literal(f"f{number}"))
    for number in range(files):
        words += instruction(12, 1, 5000 + number, 3, 35, 1000 + number, 5) + instruction(
            12, 1, 8000 + number, 3, 102, 5
        )
    return struct.pack(f"<{len(words)}I", *words)

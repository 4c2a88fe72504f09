"""Names as long as whoever made the module liked, which many frames, sections or functions have: each is in memory once. Before, 63 KB of a
module took 2.4 GB of the daemon's own process for one address, and 5 KB took 1.5 GB for its sections as long as its index was open.
And each is looked at once: 60 KB of a cubin took 2 s for one name, 240 KB minutes, and 100 KB of calls in Python 4 s."""

from __future__ import annotations

import struct
import time
import tracemalloc
from array import array
from collections.abc import Callable

import pytest

from symd.config import Limits
from symd.core import inlined_calls
from symd.core.byte_reader import KERNEL_BODY
from symd.core.name_families import without_template_arguments
from symd.debuginfo import rows_alone
from symd.formats import containers
from symd.index import Index, functions
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.answers import Answer
from symd.model.breakpoints import SourceLine
from symd.model.code import Function, is_symbol_of
from symd.model.names import Match, NameQuery
from symd.query import names
from symd.query.breakpoints import locate
from symd.query.function_spellings import spellings
from symd.query.names import find_names
from symd.query.symbolize import symbolize
from tests.builders.elf import ALLOC, AX, OBJECT, Section, Symbol, build_elf
from tests.builders.leb128 import uleb
from tests.hostile import work
from tests.hostile.work import one_sequence

AMD, INTEL, CUDA, ZEBIN = 224, 205, 190, 0xFF11
TEXT, DATA = 0x1000, 0x8000_0000
LONG, MANY = 100_000, 200
"""Characters of a name, and how many have it."""


def debug(tree: bytes, functions: int, symbols: list[Symbol], *sections: Section, name: bytes = b"n" * LONG) -> bytes:
    """A code object with a unit of these DIEs, whose names are the first string of .debug_str."""
    abbreviations = (
        uleb(1) + b"\x11\x01\x10\x17\0\0"
        + uleb(2) + b"\x2e\x01\x03\x0e\x6e\x08\x11\x01\x12\x06\0\0"
        + uleb(3) + b"\x1d\x01\x31\x13\x11\x01\x12\x06\x59\x0b\0\0"
        + uleb(4) + b"\x2e\0\x03\x0e\x6e\x08\x11\x01\x12\x06\x3a\x0b\x3b\x0b\0\0"
        + uleb(5) + b"\x1d\0\x03\x0e\x6e\x0e\x58\x0b\x59\x0b\x11\x01\x12\x06\0\0"
        + b"\0"
    )  # fmt: skip
    unit = b"\x04\0" + bytes(4) + b"\x08" + b"\x01" + bytes(4) + tree + b"\0"
    parts = {
        ".debug_info": struct.pack("<I", len(unit)) + unit,
        ".debug_abbrev": abbreviations,
        ".debug_str": name + b"\0",
        ".debug_line": one_sequence(b"\x02\x40\x01" * functions),
    }
    text = Section(".text", flags=AX, address=TEXT, data=bytes(64 * functions))
    debug_sections = [Section(name, data=data) for name, data in parts.items()]
    return build_elf(
        machine=AMD, osabi=64, abiversion=2, type=3, sections=[text, *sections, *debug_sections], symbols=symbols
    )


def nested(calls: int) -> bytes:
    """A function of a long name with so many calls of itself in each other."""
    span = struct.pack("<QI", TEXT, 64)
    call = b"\x03" + struct.pack("<I", 11 + 5) + span + b"\x07"
    tree = b"\x02" + bytes(4) + b"f\0" + span + call * calls + b"\0" * (calls + 1)
    return debug(tree, 1, [Symbol("f", TEXT, 64, ".text")])


def named_alike(count: int) -> bytes:
    """So many kernels whose functions have one long name and linkage names of their own."""
    places = range(TEXT, TEXT + 64 * count, 64)
    functions = (b"\x04" + bytes(4) + b"k%d\0" % at + struct.pack("<QI", at, 64) + b"\1\1" for at in places)
    symbols = [Symbol(f"k{at}", at, 64, ".text") for at in places]
    stored = b""
    for at in places:
        place = DATA + len(stored)
        symbols.append(Symbol(f"k{at}.kd", place, 64, ".rodata", OBJECT))
        stored += struct.pack("<IIIxxxxq32xHH4x", 0, 0, 0, at - place, 0, 0)
    return debug(b"".join(functions), count, symbols, Section(".rodata", flags=ALLOC, address=DATA, data=stored))


def sections_named_alike(count: int, name: str = "n" * LONG, machine: int = AMD, elf_type: int = 1) -> bytes:
    """So many text sections of one long name."""
    sections = [Section(name if not number else "x", flags=AX, data=bytes(16)) for number in range(count)]
    data = bytearray(build_elf(machine=machine, type=elf_type, sections=sections, symbols=[Symbol("k", 0, 16, 1)]))
    (table,) = struct.unpack_from("<Q", data, 40)
    for number in range(2, count + 1):
        data[table + 64 * number : table + 64 * number + 4] = data[table + 64 : table + 68]
    return bytes(data)


def peak(ask: Callable[[], object]) -> int:
    """Bytes that something takes while it runs, and with what it answers."""
    tracemalloc.start()
    try:
        ask()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("single", [True, False])
def test_frames_share_their_names(single: bool) -> None:
    index, query = Index(build_index(nested(MANY), Limits())), ByAddress(ObjectAddress(TEXT + 4))

    def ask() -> Answer:
        found = index.answer(query) if single else symbolize(index, [query])[0]
        assert found is not None
        return found

    assert [len(frame.function or "") for frame in ask().frames] == [LONG] * (MANY + 1)
    assert peak(ask) < 10 * LONG


def test_sections_share_their_names() -> None:
    index = Index(build_index(sections_named_alike(MANY), Limits()))
    assert len(index.sections) == MANY
    assert peak(lambda: Index(index.buffer).sections) < 10 * LONG


@pytest.mark.parametrize(("machine", "elf_type"), [(INTEL, ZEBIN), (CUDA, 1)])
def test_kernels_and_functions_share_the_names_of_their_sections(machine: int, elf_type: int) -> None:
    data = sections_named_alike(MANY, ".text." + "n" * LONG, machine, elf_type)

    def named() -> list[str]:
        (code,) = containers.unpack(data, Limits()).objects
        return [each.name for each in (*code.kernels, *code.functions)]

    assert [len(name) for name in named()].count(LONG) >= MANY - 1
    assert peak(named) < 20 * LONG


@pytest.mark.parametrize("match", Match)
def test_a_search_for_names_has_a_name_once(match: Match) -> None:
    index = Index(build_index(named_alike(MANY), Limits()))
    assert peak(lambda: find_names(index, NameQuery("k", match))) < 20 * LONG


def test_a_search_for_names_spells_a_name_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, 125 KB of a module took 6 s for a question."""
    spelled: list[str] = []

    def count(name: str) -> frozenset[str]:
        spelled.append(name)
        return spellings(name)

    monkeypatch.setattr(names, "spellings", count)
    index = Index(build_index(named_alike(5), Limits()))
    assert len(find_names(index, NameQuery("n*", Match.GLOB))) == 0
    assert [len(name) for name in spelled].count(LONG) == 1


def test_an_index_is_made_of_a_name_once() -> None:
    data = named_alike(MANY)
    assert peak(lambda: build_index(data, Limits())) < 60 * LONG


def test_places_of_a_line_share_the_names_of_their_functions() -> None:
    index = Index(build_index(named_alike(MANY), Limits()))
    assert peak(lambda: locate(index, SourceLine("f", 1), every_address=True)) < 20 * LONG
    assert len(locate(index, SourceLine("f", 1), every_address=True).locations) >= MANY


def processor_seconds(ask: Callable[[], object]) -> float:
    began = time.process_time()
    ask()
    return time.process_time() - began


def test_a_mangled_name_is_gone_through_once() -> None:
    """What begins a substitution may be a part of its number, too."""
    assert processor_seconds(lambda: without_template_arguments("_Z" + "S" * 100_000)) < 5


@pytest.mark.parametrize("certain", [b"\0", b"\1"], ids=["by number", "certain"])
def test_families_are_compared_once(certain: bytes) -> None:
    """Two functions of long names that are inlined at many places."""
    places, names = range(20_000), ("", "a" * 2_000_000, "a" * 2_000_001)
    pairs = [place << 32 | place for place in places]
    distinct = [place << 32 | name for place in places for name in (1, 2)]
    columns = bytearray(b"\1") * 40_000, bytearray(certain) * 40_000
    told = processor_seconds(lambda: inlined_calls._meant_names(pairs, distinct, *columns, names))
    assert told < 5


def calls_of_one_name(count: int, name: bytes) -> bytes:
    """A function with so many calls of one name in it."""
    span = struct.pack("<QI", TEXT, 64)
    call = b"\x05" + bytes(8) + b"\1\1" + span
    tree = b"\x02" + struct.pack("<I", len(name) - 1) + b"f\0" + span + call * count + b"\0"
    return debug(tree, 1, [Symbol("f", TEXT, 64, ".text")], name=name)


def test_whether_a_call_is_the_body_of_its_kernel_is_found_once_for_a_name() -> None:
    rest = b"n" * 4_000_000
    data = [calls_of_one_name(100_000, KERNEL_BODY.encode() + rest), calls_of_one_name(100_000, b"." + rest)]
    body, other = (processor_seconds(lambda each=each: build_index(each, Limits())) for each in data)  # type: ignore[misc]
    assert body < 3 * other + 1


def test_whether_a_call_is_the_function_around_it_is_found_once_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def count(symbol: str, name: str) -> bool:
        asked.append((symbol, name))
        return is_symbol_of(symbol, name)

    for module in (functions, rows_alone):
        monkeypatch.setattr(module, "is_symbol_of", count)
    monkeypatch.setattr(work, "TABLE", work.TABLE.replace(b"f\0", b"f.py\0"))
    build_index(calls_of_one_name(MANY, b"." * LONG), Limits())
    assert len(asked) == len(set(asked)) > 0
    asked.clear()
    zeros, ones = array("I", bytes(4 * MANY)), array("I", [0] + [1] * (MANY - 1))
    rows = zeros, array("Q", range(MANY)), zeros, ones, zeros, bytes(MANY)
    calls = ones, array("I", [2]) * MANY, ones, ones, bytes(MANY)
    rows_alone.inlined_rows(rows, calls, ("", "." * LONG, "other"), [Function("f", 0, 0, MANY)], ("a.py",))
    assert len(asked) == len(set(asked)) > 0

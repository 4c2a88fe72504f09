"""A small file whose debug sections expand to very many units, tables, rows or entries: counted before they take memory, and
refused by the name of a limit. Kernels and text are answered all the same."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from symd.config import Limits
from symd.formats import containers
from symd.index.module import decoded_objects
from symd.model.debug_info import DebugInfo
from tests.builders.elf import Section
from tests.hostile.bombs import compressed, image

UNIT = struct.pack("<IHIB", 8, 4, 0, 8)
"""A unit of DWARF 4 of one byte, which follows."""
ABBREVIATIONS = b"\x01\x11\1\0\0" + b"\x02\x2e\0\0\0" + b"\0"
"""1 is a DW_TAG_compile_unit with children, 2 a DW_TAG_subprogram; neither has attributes."""
TABLE = bytes((1, 1, 1, 251, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)) + b"\0f\0\0\0\0\0"
SET_ADDRESS = b"\0\x09\x02" + struct.pack("<Q", 0x1000)
SPECIAL, END = b"\x20", b"\0\1\1"


def units(count: int, die: bytes = b"\0") -> list[Section]:
    return [compressed(".debug_info", (UNIT + die) * count), Section(".debug_abbrev", data=ABBREVIATIONS)]


def functions(count: int) -> list[Section]:
    tree = b"\x01" + b"\x02" * count + b"\0"
    unit = struct.pack("<IHIB", 7 + len(tree), 4, 0, 8) + tree
    return [compressed(".debug_info", noise_behind(unit)), Section(".debug_abbrev", data=ABBREVIATIONS)]


def noise_behind(content: bytes) -> bytes:
    """What compresses less, so that the whole stays below ``EXPANSION_RATIO``: a type unit of other bytes."""
    body = bytes(number * number % 251 for number in range(20_000))
    return content + struct.pack("<IHBBIQI", len(body) + 20, 5, 2, 8, 0, 0, 0) + body


def line_table(program: bytes, operations: int = 1) -> bytes:
    header = TABLE[:1] + bytes([operations]) + TABLE[2:]
    rest = b"\x04\0" + struct.pack("<I", len(header)) + header + program
    return struct.pack("<I", len(rest)) + rest


def lines(content: bytes) -> list[Section]:
    return [compressed(".debug_line", content)]


BOMBS: dict[str, Callable[[int], list[Section]]] = {
    "units without an entry": units,
    "units of one entry": lambda count: units(count, b"\x02"),
    "tables without rows": lambda count: lines(line_table(SET_ADDRESS + END) + line_table(b"") * count),
    "tables of two rows": lambda count: lines(line_table(SET_ADDRESS + SPECIAL + END) * count),
    "sequences": lambda count: lines(line_table((SET_ADDRESS + SPECIAL + END) * count)),
    "rows": lambda count: lines(line_table(SET_ADDRESS + SPECIAL * count + END)),
    "rows one by one": lambda count: lines(line_table(SET_ADDRESS + SPECIAL * count + END, 2)),
    "entries": functions,
}


def note(data: bytes, limits: Limits) -> str:
    """Why the debug data of the one code object cannot be read; "" where it can."""
    [found] = decoded_objects(containers.unpack(data, limits).objects, limits, len(data))
    return (
        "" if isinstance(found.debug, DebugInfo) else f"{found.debug} {found.debug and found.debug.metadata['limit']}"
    )


@pytest.mark.parametrize("kind", BOMBS)
def test_what_passes_the_number_of_entries_is_refused_by_its_name(kind: str) -> None:
    few, many = image(*BOMBS[kind](100)), image(*BOMBS[kind](4000))
    limits = Limits(debug_entries=3500)
    assert note(few, limits) == ""
    assert note(many, Limits()) == ""
    assert note(many, limits).endswith("debug_entries")
    assert "debug_entries = 3500" in note(many, limits)


@pytest.mark.parametrize(
    ("kind", "count", "limit"),
    [
        ("units without an entry", 1_000_000, "work_ratio"),
        ("units of one entry", 90_000, "work_ratio"),
        ("tables of two rows", 100_000, "work_ratio"),
        ("sequences", 1_000_000, "work_ratio"),
        ("entries", 1_200_000, "work_ratio"),
    ],
)
def test_a_small_file_cannot_have_more_than_its_bytes_explain(kind: str, count: int, limit: str) -> None:
    """In a tenth of a megabyte; a million units took half a minute and 1.4 GB."""
    data = image(*BOMBS[kind](count))
    assert len(data) < 100_000
    assert note(data, Limits()).endswith(limit)


def test_objects_of_one_module_share_what_it_may_have() -> None:
    limits = Limits(debug_entries=3500)
    one = containers.unpack(image(*BOMBS["rows"](2000)), limits).objects[0]
    first, second = decoded_objects([one, one], limits)
    assert isinstance(first.debug, DebugInfo)
    assert "debug_entries" in str(second.debug)


def test_a_file_that_is_not_compressed_is_read_however_many_rows_it_has() -> None:
    """A row takes at least a byte, and a file may have four for each of its bytes."""
    table = Section(".debug_line", data=line_table(SET_ADDRESS + SPECIAL * 3_000_000 + END))
    assert note(image(table), Limits()) == ""

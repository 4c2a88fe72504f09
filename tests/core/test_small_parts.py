"""Layout, relocation, strings and sorting by the core, compiled and not, beside searches through everything."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
from array import array
from pathlib import Path
from types import ModuleType

import pytest

from symd import core
from symd.core import (
    abbreviations,
    byte_reader,
    dies,
    elf_tables,
    line_program,
    range_lists,
    records,
    sorting,
    text_layout,
)
from symd.debuginfo.dwarf.sections import DebugSections
from symd.errors import LimitExceeded, Malformed, Unsupported
from tests.core.uncompiled import uncompiled

MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (byte_reader, dies, elf_tables, line_program, records, sorting, text_layout)
}
GAP = 16


def both(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("core", [MODULES[name], uncompiled(name)], ids=["compiled", "uncompiled"])


@both("sorting")
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 64, 1000])
def test_how_many_numbers_are_not_above_each(core: ModuleType, count: int) -> None:
    dice = random.Random(count)
    numbers = sorted({dice.randrange(1 << dice.choice((3, 64))) for _ in range(count)})
    asked = [0, (1 << 64) - 1, *numbers, *(max(number - 1, 0) for number in numbers)]
    found = array("q", bytes(8 * len(asked)))
    core.upper_bounds(array("Q", numbers), array("Q", asked), found)
    assert found.tolist() == [sum(number <= each for number in numbers) for each in asked]


@both("sorting")
@pytest.mark.parametrize("count", [0, 1, 2, 64, 5000])
def test_different_numbers_are_told_in_the_order_in_which_they_come_first(core: ModuleType, count: int) -> None:
    dice = random.Random(count)
    keys = [dice.choice((0, (1 << 64) - 1, dice.randrange(50), dice.randrange(1 << 64))) for _ in range(count)]
    number = array("I", bytes(4 * count))
    found = core.distinct(array("Q", keys), number)
    assert found.tolist() == [*dict.fromkeys(keys)]
    assert [found[each] for each in number] == keys


@both("sorting")
def test_numbers_that_mostly_differ_are_not_told_apart(core: ModuleType) -> None:
    count = (1 << 16) + 1
    number = array("I", bytes(4 * count))
    assert core.distinct(array("Q", range(count)), number) is None
    assert len(core.distinct(array("Q", [each % 1000 for each in range(count)]), number)) == 1000


@both("sorting")
def test_no_more_numbers_are_told_apart_than_there_is_room_for(core: ModuleType) -> None:
    most = core.MAX_DISTINCT
    keys = array("Q", bytes(8 * (1 << 16)))
    keys.extend(range(most - 1))
    number = array("I", bytes(4 * (len(keys) + 2)))
    keys.extend((most, 0))
    assert len(core.distinct(keys, number)) == most
    keys[-1] = most + 1
    assert core.distinct(keys, number) is None


@both("sorting")
def test_numbers_chosen_to_fall_into_one_slot_are_given_up_early(core: ModuleType) -> None:
    """What is multiplied by the inverse of the factor of the table keeps its high bits, which say the slot."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    keys = array("Q", [each * inverse % (1 << 64) for each in range(4000)])
    number = array("I", bytes(4 * len(keys)))
    assert core.distinct(keys, number) is None


@both("sorting")
@pytest.mark.parametrize("count", [0, 1, 2, 7, 64, 1000])
def test_numbers_of_all_64_bits_are_put_in_order(core: ModuleType, count: int) -> None:
    dice = random.Random(count)
    numbers = [dice.randrange(1 << dice.choice((3, 32, 64))) for _ in range(count)]
    assert core.ordered(array("Q", numbers)).tolist() == sorted(numbers)


@both("sorting")
@pytest.mark.parametrize("count", [0, 1, 2, 7, 64, 1000])
def test_numbers_are_ranked_among_the_distinct_ones(core: ModuleType, count: int) -> None:
    dice = random.Random(count)
    for numbers in [dice.randrange(1 << dice.choice((3, 64))) for _ in range(count)], range(count):
        ranks, distinct = core.ranked(array("Q", numbers))
        assert distinct.tolist() == sorted(set(numbers))
        assert [distinct[rank] for rank in ranks] == [*numbers]


@both("text_layout")
@pytest.mark.parametrize("seed", range(20))
def test_an_address_is_of_the_last_section_that_begins_before_it(core: ModuleType, seed: int) -> None:
    dice = random.Random(seed)
    texts, at = [], dice.choice((0, 100, (1 << 64) - 4000))
    for number in range(dice.randrange(1, 9)):
        texts.append((number + 3, at, dice.randrange(200)))
        at += dice.randrange(1, 300)
    layout = array("I", [text[0] for text in texts]), *(array("Q", [text[n] for text in texts]) for n in (1, 2))
    wanted = [max(texts[0][1] + dice.randrange(-50, 3000), 0) % (1 << 64) for _ in range(300)]
    section, offset, known = core.section_of(layout, GAP, array("Q", wanted))
    for number, place, is_known, address in zip(section, offset, known, wanted, strict=True):
        before = [text for text in texts if text[1] <= address]
        if is_known:
            assert (number, place) == (before[-1][0], address - before[-1][1])
        assert is_known == bool(before and address - before[-1][1] <= before[-1][2] + GAP)


@both("text_layout")
def test_rows_count_from_the_section_in_which_their_sequence_begins(core: ModuleType) -> None:
    layout = array("I", [5, 9]), array("Q", [0x100, 0x200]), array("Q", [0x40, 0x40])
    address = array("Q", [0x110, 0x150, 0x200, 0x208, 0x10, 0x20, 0x120, 0x124])
    ends = array("q", [2, 4, 6, 8])
    section, kept = core.place_rows([layout], GAP, [address], [ends], [bytes([0, 0, 0, 1])])
    assert (list(section)[:2], list(kept)) == ([5, 9], [1, 1, 0, 0])
    assert address.tolist()[:4] == [0x10, 0x50, 0, 8]
    assert core.place_rows([(array("I"), array("Q"), array("Q"))], GAP, [address], [ends], [None])[1] == bytes(4)


@both("text_layout")
def test_sequences_without_code_share_no_beginning(core: ModuleType) -> None:
    ends = array("q", [2, 4])
    assert core.begin_together(array("Q", [8, 16, 8, 9]), ends)
    assert not core.begin_together(array("Q", [8, 16, 8, 8]), ends)
    assert not core.begin_together(array("Q", [8, 16, 16, 17]), ends)


@both("text_layout")
@pytest.mark.parametrize("seed", range(20))
def test_a_row_is_found_in_the_only_sequence_that_holds_an_address(core: ModuleType, seed: int) -> None:
    dice = random.Random(seed)
    sequences = [sorted(dice.randrange(100) for _ in range(dice.randrange(1, 6))) for _ in range(3)]
    address, ends = array("Q", [each for sequence in sequences for each in sequence]), array("q")
    for sequence in sequences:
        ends.append((ends[-1] if ends else 0) + len(sequence))
    for wanted in range(100):
        held = [number for number, each in enumerate(sequences) if each[0] <= wanted < each[-1]]
        row, first = core.row_at(address, ends, wanted)
        if len(held) == 1:
            begin = ends[held[0]] - len(sequences[held[0]])
            assert first == begin
            assert row == begin + sum(each <= wanted for each in sequences[held[0]]) - 1
        else:
            assert (row, first) == (-1, -1 if held else 0)
    assert core.row_at(array("Q", [3, 2, 9]), array("q", [3]), 4) == (-1, -1)


@both("text_layout")
@pytest.mark.parametrize("seed", range(20))
def test_ranges_and_scopes_are_found_as_by_looking_at_each(core: ModuleType, seed: int) -> None:
    dice = random.Random(seed)
    start = array("Q", [dice.randrange(50) for _ in range(20)])
    stop = array("Q", [each + dice.randrange(1, 20) for each in start])
    parent = array("I", [dice.choice([0xFFFFFFFF, *range(scope)]) for scope in range(12)])
    of = array("I", [dice.randrange(12) for _ in range(20)])
    for first, last in ((dice.randrange(60), dice.randrange(70)) for _ in range(50)):
        known = [at for at in range(20) if start[at] < last and first < stop[at]]
        assert core.overlapping(start, stop, first, last).tolist() == known
    for function in range(12):
        around = {function}
        for scope in range(12):
            if parent[scope] in around:
                around.add(scope)
        assert core.inside(function, parent, of).tolist() == [each for each in of if each in around]


def entries(bits: int, has_addends: bool, rows: list[tuple[int, int, int, int]]) -> bytes:
    """(offset, type, symbol, addend) as a table of the ABI."""
    shift, word = (32, "Qq") if bits == 64 else (8, "Ii")
    layout = f"<2{word[0]}{word[1] if has_addends else ''}"
    return b"".join(
        struct.pack(layout, offset, symbol << shift | kind, *([addend] if has_addends else []))
        for offset, kind, symbol, addend in rows
    )


def symbol_table(bits: int, symbols: list[tuple[int, int]]) -> bytes:
    """(section, value) as a table of the ABI."""
    if bits == 64:
        return b"".join(struct.pack("<IBBHQQ", 0, 0, 0, section, value, 0) for section, value in symbols)
    return b"".join(struct.pack("<IIIBBH", 0, value, 0, 0, 0, section) for section, value in symbols)


@both("elf_tables")
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("has_addends", [False, True])
@pytest.mark.parametrize("leaves_undefined", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_symbol_plus_addend_is_stored(
    core: ModuleType, bits: int, has_addends: bool, leaves_undefined: bool, seed: int
) -> None:
    """System V ABI, chapter 4: where a relocation names no symbol its value is 0."""
    dice = random.Random(seed)
    symbols = [(dice.randrange(4), dice.randrange(1 << 31)) for _ in range(6)]
    bases = {1: 1 << 20, 2: 7}
    rows = [
        (8 * place, dice.randrange(3), dice.randrange(len(symbols)), dice.randrange(-999, 1 << 20))
        for place in range(20)
    ]
    data, widths = bytearray(dice.randbytes(160)), {0: 0, 1: 4, 2: 8}
    expected = bytearray(data)
    for offset, kind, symbol, addend in rows:
        section, value = symbols[symbol]
        width = widths[kind]
        there = addend if has_addends else int.from_bytes(expected[offset : offset + width], "little")
        if section or not leaves_undefined:
            result = (value + bases.get(section, 0) + there) % (1 << 8 * width)
            expected[offset : offset + width] = result.to_bytes(width, "little")
    values = core.SymbolValues(symbol_table(bits, symbols), ".symtab", bits, bases)
    table = core.RelocationTable(entries(bits, has_addends, rows), ".rel", bits, has_addends)
    table.apply(data, ".debug_info", widths, values, leaves_undefined=leaves_undefined)
    assert data == expected


@both("elf_tables")
def test_what_cannot_be_relocated_is_refused(core: ModuleType) -> None:
    values = core.SymbolValues(symbol_table(64, [(1, 0)]), ".symtab", 64, {1: 1 << 40})

    def apply(row: tuple[int, int, int, int], symbols: object = values) -> None:
        table = core.RelocationTable(entries(64, True, [row]), ".rela", 64, True)
        table.apply(bytearray(8), ".debug_info", {1: 4}, symbols, (1 << 40, 1 << 41))

    for row, error, message in (
        ((0, 9, 0, 0), Unsupported, "type 9 is not read"),
        ((5, 1, 0, 0), Malformed, "byte 5 leaves the section of 8"),
        (((1 << 64) - 2, 1, 0, 0), Malformed, "leaves the section"),
        ((0, 1, 1, 0), Malformed, "names symbol 1 of 1"),
        ((0, 1, 0, 0), Unsupported, "32-bit relocation against code"),
    ):
        with pytest.raises(error, match=message):
            apply(row)
    apply((0, 1, 0, 0), None)
    with pytest.raises(Malformed, match="multiple of 24"):
        core.RelocationTable(bytes(25), ".rela", 64, True)
    with pytest.raises(Malformed, match="multiple of 16"):
        core.SymbolValues(bytes(15), ".symtab", 32, {})


@both("elf_tables")
def test_places_have_the_base_of_the_last_beginning_before_them(core: ModuleType) -> None:
    rows = [(0, 1, 4, 1), (8, 1, 5, 2), (16, 2, 6, 3), (24, 1, 7, 4)]
    table = core.RelocationTable(entries(64, True, rows), ".rela", 64, True)
    data, places = bytearray(32), array("Q", [8, 20])
    table.apply_by_place(data, ".debug_info", 1, places, array("Q", [100, 200]))
    assert struct.unpack("<4Q", data) == (1, 102, 0, 204)
    assert table.symbols_by_place(1, places) == [{5}, {7}]


@both("byte_reader")
def test_strings_are_numbered_in_the_order_of_their_places(core: ModuleType) -> None:
    text = b"one\0two\0one\0\xff!\0rest"
    sections = DebugSections.of({".debug_str": text, ".debug_info": b"in\0"})
    places = {"two": 4, "one": 0, "again": 8, "ne": 9, "odd": 12, "lost": 15}
    keys = [core.IN_STRINGS << core.SECTION_BITS | place for place in places.values()]
    keys += [0, core.IN_INFO << core.SECTION_BITS, keys[0]]
    names = core.Names()
    found, missing = names.intern(core.StringReader(sections), array("Q", keys))
    known = names.all()
    assert [known[number] for number in found] == ["two", "one", "one", "ne", "\ufffd!", "", "", "in", "two"]
    assert (known, missing) == (("", "in", "one", "two", "ne", "\ufffd!"), 1)


@both("byte_reader")
def test_strings_that_share_an_end_too_often_are_refused(core: ModuleType) -> None:
    size = 1 << 15
    reader = core.StringReader(DebugSections.of({".debug_str": b"x" * size + b"\0"}))
    with pytest.raises(LimitExceeded, match="overlap without end"):
        core.Names().intern(reader, array("Q", [core.IN_STRINGS << core.SECTION_BITS | at for at in range(size)]))


@both("line_program")
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_set_address_is_found_wherever_its_three_bytes_are(core: ModuleType, width: int) -> None:
    dice, opcode = random.Random(width), bytes([0, width + 1, 2])
    for _ in range(300):
        program = bytes(dice.choices((0, 2, width + 1, 7), (4, 4, 4, dice.randrange(30)), k=dice.randrange(60)))
        begin, end = sorted(dice.randrange(70) for _ in "12")
        found, at = [], program.find(opcode, begin, end)
        while at >= 0:
            found.append(at + 3)
            at = program.find(opcode, at + 3, end)
        assert core.places_of_set_address(program, begin, end, width).tolist() == found


@both("dies")
def test_the_rows_of_objects_follow_each_other(core: ModuleType) -> None:
    tables, lists = (abbreviations, range_lists) if core is dies else (core.abbreviations, core.range_lists)
    unit_with_children, function, end = b"\x01\x11\x01\0\0", b"\x02\x2e\0\0\0", b"\0"
    declared = unit_with_children + function + end
    table = tables.AbbreviationTable(declared, ".debug_abbrev", 0, len(declared), 8, 4, 4)
    table.read()
    rows = core.DieRows()
    rows.begin(lists.RangeRows(), (0x2E,), False)
    for number, functions in enumerate((3, 0, 2)):
        info = b"\x01" + functions * b"\x02" + b"\0"
        rows.open(info, b"", b"")
        rows.read(lists.UnitParameters(number, 0, 0, len(info), 5, 8, 4, 0, 0, 0, 0, 0), table)
    assert rows.count == 5
    assert rows.column("offset").tolist() == [1, 2, 3, 1, 2]
    assert rows.column("unit").tolist() == [0, 0, 0, 2, 2]
    rows.begin(lists.RangeRows(), (0x2E,), False)
    assert rows.count == 0


@both("records")
def test_messages_are_counted_as_deep_as_they_are_known(core: ModuleType) -> None:
    """Kind 0 has messages of kind 1 in field 1 and texts in field 2; kind 1 has texts in field 3."""
    kinds = bytearray(2 * core.FIELDS)
    kinds[1], kinds[2], kinds[core.FIELDS + 3] = 1, core.LEAF, core.LEAF
    inner = b"\x1a\x01x" * 5 + b"\x12\x00" * 7  # field 2 is unknown there
    data = (b"\x0a" + bytes([len(inner)]) + inner) * 3 + b"\x12\x02\x0a\x00" + b"\x08\x96\x01"
    assert core.message_count(data, bytes(kinds), 1000) == 3 * (1 + 5) + 1
    assert core.message_count(data, bytes(kinds), 4) > 4
    assert core.message_count(data + b"\x0a\x7f", bytes(kinds), 1000) == 19
    assert core.message_count(b"", bytes(kinds), 1000) == 0


def test_sources_that_are_not_compiled_say_what_to_do(tmp_path: Path) -> None:
    """As of whoever starts Python in a clone after an install by ``pip install .``, without Cython."""
    package = tmp_path / "symd" / "core"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    shutil.copy(core.__file__, package)
    (tmp_path / "cython.py").write_text("raise ImportError")
    command = [sys.executable, "-c", "import symd.core"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: the sources of symd in {package.parent} are not compiled; ")
    assert "start Python in another folder" in last

"""Sections and names by the core, compiled and not, beside the arithmetic of whole numbers."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from symd.core import elf_tables
from symd.model.code import Section
from tests.core.uncompiled import uncompiled

SIZE = 1000
NULL, PROGBITS, NOBITS = 0, 1, 8
COMPRESSED = 0x800
LARGEST = (1 << 64) - 1

both = pytest.mark.parametrize("core", [elf_tables, uncompiled("elf_tables")], ids=["compiled", "uncompiled"])


def header(kind: int = PROGBITS, flags: int = 0, address: int = 0, offset: int = 0, size: int = 0) -> tuple[int, ...]:
    return 0, kind, flags, address, offset, size, 3, 4, 8, 24


def read(core: ModuleType, *headers: tuple[int, ...], names: list[str] | None = None) -> tuple[list, bool, list[int]]:
    return core.sections(headers, names or [""] * len(headers), {NULL, NOBITS}, SIZE, b"", Section)


@both
def test_a_section_has_the_fields_of_its_header_and_its_place_in_the_file(core: ModuleType) -> None:
    found, are_sound, packed = read(core, header(), header(PROGBITS, 6, 0x1000, 64, 100), names=["", ".text"])
    assert found[1] == Section(1, ".text", PROGBITS, 6, 0x1000, 100, b"", 3, 4, 24, 64, 164)
    assert (are_sound, packed) == (True, [])


@both
def test_what_has_no_content_has_no_place_in_the_file(core: ModuleType) -> None:
    found, are_sound, _ = read(
        core, header(NOBITS, offset=LARGEST, size=LARGEST), header(NULL, offset=SIZE + 1, size=1)
    )
    assert [(each.begin, each.end) for each in found] == [(0, 0), (0, 0)]
    assert are_sound


@both
@pytest.mark.parametrize(
    "wrong",
    [
        header(offset=SIZE - 7, size=8),
        header(offset=SIZE + 1),
        header(offset=LARGEST, size=2),
        header(offset=1, size=LARGEST),
        header(NOBITS, address=LARGEST, size=1),
    ],
)
def test_a_section_that_leaves_the_file_or_its_addresses_is_told(core: ModuleType, wrong: tuple[int, ...]) -> None:
    assert not read(core, header(), wrong)[1]
    assert not read(core, wrong, header())[1]


@both
def test_sections_may_hold_eight_times_the_file_together(core: ModuleType) -> None:
    whole = header(size=SIZE)
    assert read(core, *[whole] * 8)[1]
    assert not read(core, *[whole] * 8, header(size=1))[1]


@both
def test_sections_that_may_be_compressed_are_told(core: ModuleType) -> None:
    names = [".debug_info", ".debug_line", ".zdebug_str"]
    assert read(core, header(), header(flags=COMPRESSED | 2), header(), names=names)[2] == [1, 2]


@both
@pytest.mark.parametrize("seed", range(5))
def test_a_string_ends_at_the_next_nul_or_with_its_table(core: ModuleType, seed: int) -> None:
    dice = random.Random(seed)
    table = b"".join(dice.choice([b"\0", b"a", b"bc", "é".encode(), b"\xff"]) for _ in range(60))
    offsets = [dice.randrange(80) for _ in range(200)] + [0xFFFFFFFF]
    expected = [table[offset:].partition(b"\0")[0].decode("utf-8", "replace") for offset in offsets]
    assert core.strings_at(table, offsets) == expected


@both
def test_strings_that_overlap_so_much_that_they_outgrow_their_table_are_refused(core: ModuleType) -> None:
    """n offsets into one string of n bytes hold n * (n + 1) / 2 of them."""
    assert core.strings_at(b"x" * 300, range(300)) is not None
    assert core.strings_at(b"x" * 1000, range(1000)) is None

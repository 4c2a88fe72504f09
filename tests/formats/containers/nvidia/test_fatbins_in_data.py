"""Fat binaries among the data of host programs, in images made of those that fatbinary wrote."""

from __future__ import annotations

import hashlib

import pytest

from symd.config import Limits
from symd.errors import LimitExceeded, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers import unpack
from symd.formats.containers.file_part import part_of
from symd.formats.containers.nvidia.fatbin import FoundFatbins, fat_binaries_in
from tests.builders.elf import ALLOC, WRITE, Section, build_elf
from tests.formats.containers.nvidia.test_fatbin import PTX, container, entry
from tests.golden.cuda import make, samples

NAMES = (
    "tonemap.none.fatbin",
    "tonemap.lz4.fatbin",
    "tonemap.zstd.fatbin",
    "saxpy.debug.fatbin",
    "tonemap.concat-zstd.fatbin",
)
FATBINS = [samples.data(name) for name in NAMES]
MAGIC = b"\x50\xed\x55\xba"
WITHOUT_CODE = container(entry(b".version 9.0", PTX))


def program(content: bytes, name: str = ".data") -> bytes:
    return build_elf(machine=62, sections=[Section(name, flags=ALLOC | WRITE, address=0x2000, data=content, align=32)])


def found(content: bytes, limits: Limits | None = None) -> FoundFatbins:
    return fat_binaries_in(part_of(content), ".data", Budget(limits or Limits()))


@pytest.mark.parametrize("between", [b"", bytes(8), b"text of the program\0", MAGIC, WITHOUT_CODE, FATBINS[0][:400]])
def test_cubins_are_those_that_cuobjdump_extracts_whatever_lies_between(between: bytes) -> None:
    extracted = make.read("extracted.txt")
    expected = [line.split()[2] for name in NAMES for line in extracted[name]]
    unpacked = unpack(program(between + between.join(FATBINS) + between))
    assert sorted(hashlib.sha256(code.data).hexdigest() for code in unpacked.objects) == sorted(expected)
    assert {code.path.split("/")[0] for code in unpacked.objects} == {".data"}


def test_those_without_machine_code_are_counted() -> None:
    notes = unpack(program(WITHOUT_CODE * 2 + FATBINS[0])).notes
    assert "left out: 2 fat binaries in .data without machine code" in notes
    assert found(WITHOUT_CODE + FATBINS[0]) == FoundFatbins(
        (slice(len(WITHOUT_CODE), len(WITHOUT_CODE + FATBINS[0])),), 1
    )


@pytest.mark.parametrize(
    "content",
    [
        MAGIC,
        MAGIC * 9,
        WITHOUT_CODE,
        container(),
        FATBINS[1][:-8],
        container(entry(b"code"), version=2),
        container(entry(b"code", size=1 << 40)),
        container(entry(b"code"), header=3),
    ],
)
def test_what_is_no_whole_fat_binary_with_code_is_none(content: bytes) -> None:
    assert not found(content).extents
    with pytest.raises(Unsupported, match="carries no device code"):
        unpack(program(content))


def test_each_beginning_counts_and_each_entry_however_often_it_is_looked_at() -> None:
    with pytest.raises(LimitExceeded):
        found(MAGIC * 50, Limits(object_count=49))
    nested = container(size=80 * 40 + 8)
    for left in range(39, -1, -1):
        nested += entry(b"", PTX, header=80) + container(size=80 * left + 8)
    assert not found(nested + bytes(8)).extents
    with pytest.raises(LimitExceeded):
        found(nested + bytes(8), Limits(object_count=800))


def test_a_program_with_a_section_for_them_is_not_searched() -> None:
    sections = [
        Section(name, flags=ALLOC, address=address, data=data, align=32)
        for name, address, data in ((".nv_fatbin", 0x2000, FATBINS[0]), (".rodata", 0x90000, FATBINS[3]))
    ]
    paths = {code.path.split("/")[0] for code in unpack(build_elf(machine=62, sections=sections)).objects}
    assert paths == {".nv_fatbin"}

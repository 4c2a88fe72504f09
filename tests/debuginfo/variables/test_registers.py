"""Register numbers and address spaces by vendor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symd.debuginfo.variables.registers import address_space, ptx_name, register_name
from symd.model.code import Vendor
from tests import tools
from tests.builders.dwarf import At, Die, Unit, build_dwarf
from tests.builders.elf import Section, build_elf
from tests.builders.leb128 import uleb

AMDGPU, HSA, GFX942 = 224, 64, 0x4C
SPELT = {"SGPR": "s", "VGPR": "v", "AGPR": "a", "EXEC_LO": "exec_lo", "EXEC": "exec", "PC_REG": "pc"}


def test_amd_registers_are_those_that_dwarfdump_names(tmp_path: Path) -> None:
    """LLVM names the registers of 64-lane waves; it is asked for every number up to 4000."""
    variables = [
        Die("variable", [At("name", "string", f"n{number}"), At("location", "exprloc", b"\x90" + uleb(number))])
        for number in range(4000)
    ]
    sections = build_dwarf([Unit(Die("compile_unit", [], variables), version=5)]).sections
    elf = build_elf(
        machine=AMDGPU,
        osabi=HSA,
        abiversion=4,
        flags=GFX942,
        sections=[Section(name, data=data) for name, data in sections.items()],
    )
    path = tmp_path / "registers.elf"
    path.write_bytes(elf)
    text = tools.output(tools.require("llvm-dwarfdump-22"), "--debug-info", path)
    named = re.findall(r'"n(\d+)"\)\n\s+DW_AT_location\t\(DW_OP_regx ([A-Z_]+)(\d*)\)', text)
    assert len(named) > 600
    for number, word, index in named:
        assert register_name(Vendor.AMD, int(number)) == SPELT[word] + index


@pytest.mark.parametrize(
    ("number", "name"),
    [(1536, "v0"), (1791, "v255"), (2048, "a0"), (128, "status"), (127, "reg127"), (5000, "reg5000")],
)
def test_amd_registers_of_32_lane_waves_and_numbers_that_name_none(number: int, name: str) -> None:
    assert register_name(Vendor.AMD, number) == name


@pytest.mark.parametrize(
    ("number", "name"),
    [(16, "r0"), (143, "r127"), (271, "r255"), (272, "a0"), (288, "f0"), (304, "acc0"), (335, "mme0"), (350, "r256"),
     (1, "emask"), (15, "reg15"), (606, "reg606")],
)  # fmt: skip
def test_intel_registers(number: int, name: str) -> None:
    assert register_name(Vendor.INTEL, number) == name


def test_ptx_registers_are_spelt_by_their_number() -> None:
    assert ptx_name(0x25726434) == "%rd4"
    assert [ptx_name(number) for number in (0, 5, 0x2572FF, 0x25, 0x726434)] == [None] * 5


def test_address_spaces_without_a_name_are_numbers() -> None:
    assert [address_space(Vendor.NVIDIA, number) for number in (4, 7, 8, 99)] == [
        "const",
        "param",
        "shared",
        "address space 99",
    ]

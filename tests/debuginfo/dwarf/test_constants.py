"""The numbers of DWARF against pyelftools' tables, which were written by others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from elftools.dwarf import enums
from elftools.dwarf.dwarf_expr import DW_OP_name2opcode

from symd.debuginfo.dwarf import At, Form, Lnct, Tag
from symd.debuginfo.dwarf.variable_constants import Ate, Lang, Lle, Op

ROOMS = [Path(__file__).parents[3] / "symd" / room for room in ("debuginfo/dwarf", "debuginfo")]
NOT_IN_PYELFTOOLS = {
    "DW_AT_INTEL_simd_width",
    "DW_FORM_LLVM_addrx_offset",
    "DW_LLE_GNU_view_pair",
    "DW_OP_GNU_encoded_addr",
    "DW_OP_GNU_reinterpret",
    "DW_OP_INTEL_bit_piece_stack",
    "DW_OP_INTEL_piece_stack",
    "DW_OP_INTEL_push_bit_piece_stack",
    "DW_OP_INTEL_push_simd_lane",
    "DW_OP_INTEL_regs",
    "DW_OP_INTEL_regval_bits",
    "DW_OP_LLVM_user",
    "DW_TAG_template_type_parameter",
    "DW_TAG_template_value_parameter",
}
"""Vendors' own, and those that pyelftools spells in its own way."""
THEIRS = {
    Tag: enums.ENUM_DW_TAG,
    At: enums.ENUM_DW_AT,
    Form: enums.ENUM_DW_FORM,
    Lnct: enums.ENUM_DW_LNCT,
    Lle: enums.ENUM_DW_LLE,
    Ate: enums.ENUM_DW_ATE,
    Lang: enums.ENUM_DW_LANG,
    Op: DW_OP_name2opcode,
}


def members(table: type) -> dict[str, int]:
    return {name: int(number) for name, number in vars(table).items() if name.startswith("DW_")}


@pytest.mark.parametrize("ours", THEIRS, ids=lambda table: table.__name__)
def test_every_number_is_that_of_its_name(ours: type) -> None:
    theirs = THEIRS[ours]
    known = {name: number for name, number in members(ours).items() if name not in NOT_IN_PYELFTOOLS}
    assert known == {name: theirs[name] for name in known}
    assert known
    assert all(name.startswith(f"DW_{ours.__name__.upper()}_") for name in members(ours))


@pytest.mark.parametrize("ours", THEIRS, ids=lambda table: table.__name__)
def test_no_number_has_two_names(ours: type) -> None:
    assert len(members(ours)) == len(set(members(ours).values()))


def test_pyelftools_lacks_what_is_said_to_be_lacking() -> None:
    known = {name for theirs in THEIRS.values() for name in theirs}
    assert not NOT_IN_PYELFTOOLS & known
    assert {name for ours in THEIRS for name in members(ours)} >= NOT_IN_PYELFTOOLS


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_no_table_is_keyed_by_bare_numbers(room: Path) -> None:
    """``0x91: _fbreg`` and ``_LOW_PC = 0x11`` are found by nobody who searches for DWARF's names."""
    keyed = re.compile(r"^\s*0x[0-9A-Fa-f]+:|\{0x[0-9A-Fa-f]+:", re.MULTILINE)
    sources = [path for path in room.rglob("*.py") if not path.name.endswith("constants.py")]
    assert sources
    assert not [path.name for path in sources if keyed.search(path.read_text())]

"""What units say of themselves, against pyelftools; the core compiled and as its source stands."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest

from symd.debuginfo.verify import second_opinion
from tests.builders.dwarf import At, Base, Die, Unit, build_dwarf
from tests.core.uncompiled import without_compiled_core
from tests.debuginfo.dwarf.decode import read_units

TEXT_FORMS = ("string", "strp")
NEW_TEXT_FORMS = (*TEXT_FORMS, "strx", "strx1", "strx2", "line_strp")


@pytest.fixture(autouse=True, params=["compiled", "uncompiled"])
def way(request):
    """The core, compiled or not."""
    with without_compiled_core() if request.param == "uncompiled" else nullcontext():
        yield


def made(seed: int) -> tuple[list[Unit], dict[str, bytes]]:
    """Some units, in which attributes come in any order, and the bases of their forms last, too."""
    chance = random.Random(seed)
    units = []
    for number in range(4):
        version = chance.choice((2, 3, 4, 5))
        forms = NEW_TEXT_FORMS if version >= 5 else TEXT_FORMS
        attributes = [
            At("name", chance.choice(forms), f"unit{number}.c"),
            At("comp_dir", chance.choice(forms), f"/folder{number}"),
            At("stmt_list", "sec_offset" if version >= 4 else chance.choice(("data4", "data8")), number * 16),
            At("low_pc", chance.choice(("addr", "addrx", "addrx1")) if version >= 5 else "addr", 0x1000 * number),
            At(0x2136, "data16", bytes(16)),
            At("producer", "indirect", ("string", "somebody")),
        ]
        attributes = [each for each in attributes if chance.random() < 0.8]
        if version >= 5:
            attributes += [At(f"{pool}_base", "sec_offset", Base(pool)) for pool in ("addr", "str_offsets", "rnglists")]
        chance.shuffle(attributes)
        children = [Die("subprogram")] * chance.choice((0, 1))
        wide = version > 2 and chance.random() < 0.5
        units.append(Unit(Die("compile_unit", attributes, children), version, wide, chance.choice((4, 8))))
    return units, build_dwarf(units).sections


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else b""


@pytest.mark.parametrize("seed", range(80))
def test_units_say_what_pyelftools_reads(seed):
    units, sections = made(seed)
    read = read_units(sections)
    assert not read.warnings
    others = [*second_opinion.open_dwarf(sections).iter_CUs()]
    for mine, other, unit in zip(read.units, others, units, strict=True):
        top = other.get_top_DIE()
        header = (mine.offset, mine.dies, mine.version, mine.widths.address, mine.widths.offset, mine.abbreviations)
        assert header == (
            other.cu_offset, other.cu_die_offset, other["version"], other["address_size"], 8 if unit.dwarf64 else 4,
            other["debug_abbrev_offset"],
        )  # fmt: skip
        assert mine.end == other.cu_offset + other.size
        assert (mine.tag, mine.has_children) == (0x11, top.has_children)

        def said(name: str, default: object, top: Any = top) -> Any:
            found = top.attributes.get(f"DW_AT_{name}")
            return default if found is None else found.value

        assert (mine.name, mine.comp_dir) == (said("name", b""), said("comp_dir", b""))
        assert (mine.stmt_list, mine.low_pc) == (said("stmt_list", None), said("low_pc", 0))
        if unit.version >= 5:
            bases = (mine.addr_base, mine.str_offsets_base, mine.rnglists_base)
            assert bases == tuple(said(f"{pool}_base", None) for pool in ("addr", "str_offsets", "rnglists"))


@pytest.mark.parametrize("seed", range(10))
def test_a_unit_that_is_cut_off_is_left_out_and_those_before_it_stay(seed):
    _, sections = made(seed)
    whole = read_units(sections).units
    for at in range(whole[-1].offset, whole[-1].end):
        read = read_units({**sections, ".debug_info": sections[".debug_info"][:at]})
        assert [unit.name for unit in read.units] == [unit.name for unit in whole[:-1]]
        assert len(read.warnings) == (at > whole[-1].offset)


def test_an_abbreviation_that_nobody_declares_is_told_with_its_place():
    _, sections = made(0)
    info = bytearray(sections[".debug_info"])
    (first, *_) = read_units(sections).units
    info[first.dies] = 0x7F
    (warning,) = read_units({**sections, ".debug_info": bytes(info)}).warnings
    place = f".debug_info+{first.dies:#x}"
    assert warning == f".debug_info+0x0: unit left out: {place}: abbreviation 127 is not declared"

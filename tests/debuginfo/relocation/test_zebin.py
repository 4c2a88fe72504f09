"""Relocation entries of zebins that are not what compilers write; what they do write is compared with LLVM."""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from symd.debuginfo import reading
from symd.debuginfo.dwarf.units import external_functions, read_units
from symd.debuginfo.relocation import linear_layout, relocated
from symd.debuginfo.verify import second_opinion
from symd.errors import Malformed, SymdError, Unsupported
from symd.formats import containers
from symd.model.code import CodeObject
from tests.builders.hostile import flips
from tests.debuginfo.dwarf.decode import by_name

KERNELS = Path(__file__).parents[3] / "samples" / "kernels" / "bin"
SAMPLE = (KERNELS / "vadd" / "dg2-opt.zebin").read_bytes()
ZEBINS = sorted(KERNELS.glob("*/igc2-*-O0.zebin"))


def with_type(kind: int) -> bytes:
    """The sample with the first relocation entry of .debug_info of another type."""
    table = next(
        one for one in ELFFile(BytesIO(SAMPLE)).iter_sections() if one.name in (".rela.debug_info", ".rel.debug_info")
    )
    data = bytearray(SAMPLE)
    struct.pack_into("<I", data, table["sh_offset"] + 8, kind)
    return bytes(data)


@pytest.mark.parametrize("kind", [3, 4, 5, 99])
def test_a_type_that_means_nothing_in_debug_data_is_refused_by_number(kind: int) -> None:
    code = containers.unpack(with_type(kind)).objects[0]
    with pytest.raises(Unsupported, match=f"relocation type {kind} "):
        reading.read(code)


def test_type_0_is_no_relocation() -> None:
    assert len(reading.read(containers.unpack(with_type(0)).objects[0]).rows)


def functions_of_pyelftools(sections: dict[str, bytes]) -> list[tuple[str, ...]]:
    """For each unit the names of the external functions with code below its first DIE."""
    wanted = {"DW_AT_name", "DW_AT_external", "DW_AT_low_pc"}
    return [
        tuple(
            die.attributes["DW_AT_name"].value.decode()
            for die in unit.get_top_DIE().iter_children()
            if die.tag == "DW_TAG_subprogram" and wanted <= set(die.attributes)
        )
        for unit in second_opinion.open_dwarf(sections).iter_CUs()
    ]


@pytest.mark.parametrize("path", ZEBINS, ids=lambda path: "/".join(path.parts[-2:]))
def test_the_functions_of_units_are_those_that_pyelftools_finds(path: Path) -> None:
    code = containers.unpack(path.read_bytes()).objects[0]
    sections = relocated(code, linear_layout(code))
    expected = functions_of_pyelftools(by_name(sections))
    assert any(expected)
    assert external_functions(sections, read_units(sections)) == expected


@pytest.mark.parametrize("name", [".debug_info", ".debug_abbrev"])
def test_damaged_units_are_read_or_refused(name: str) -> None:
    section = containers.unpack(SAMPLE).objects[0].section(name)
    assert section is not None
    start = SAMPLE.index(section.data)
    refused = 0
    for damaged in flips(section.data, 11, 300):
        code = containers.unpack(SAMPLE[:start] + damaged + SAMPLE[start + len(damaged) :]).objects[0]
        try:
            reading.read(code)
        except SymdError:
            refused += 1
    assert 0 < refused < 300


def with_contents(code: CodeObject, contents: dict[int, bytes]) -> CodeObject:
    """The object with other contents of some sections."""
    return code._replace(
        sections=tuple(each.changed(content=contents.get(each.index, each.content)) for each in code.sections)
    )


def test_symbols_that_their_table_does_not_have_name_nothing() -> None:
    """The unit's function says then which kernel it belongs to."""
    code = containers.unpack((KERNELS / "bodies" / "igc2-dg2-O0.zebin").read_bytes()).objects[0]
    symtab = code.section(".symtab")
    assert symtab is not None
    lost = with_contents(code, {symtab.index: b""})
    assert len(lost.kernels) == 3
    assert by_name(relocated(lost, linear_layout(lost))) == by_name(relocated(code, linear_layout(code)))


def test_names_of_symbols_that_overlap_beyond_measure_are_refused() -> None:
    """Each relocation is one of text, and names another symbol, whose name is one character shorter."""
    code = containers.unpack((KERNELS / "raycast" / "igc2-dg2-O0.zebin").read_bytes()).objects[0]
    table, symtab = code.section(".rela.debug_info"), code.section(".symtab")
    assert table is not None
    assert symtab is not None
    entries = [struct.unpack_from("<QQq", table.data, at) for at in range(0, len(table.data), 24)]
    data = b"".join(struct.pack("<QQq", at, number << 32 | 1, addend) for number, (at, _, addend) in enumerate(entries))
    rows = b"".join(struct.pack("<I20x", number) for number in range(len(entries)))
    long = with_contents(code, {table.index: data, symtab.index: rows, symtab.link: b"x" * 100_000})
    with pytest.raises(Malformed, match="overlap"):
        relocated(long, linear_layout(long))

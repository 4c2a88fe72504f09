"""Relocated line tables of cubins against nvdisasm at every instruction, read with the plain reader of these tests."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from symd.debuginfo.relocation import LinearLayout, cuda, linear_layout
from symd.debuginfo.text_ranges import section_of
from symd.errors import Malformed, SymdError, Unsupported
from symd.model.code import CodeObject
from tests.builders.elf import AX, ET_EXEC, FUNC, GLOBAL, Relocation, Section, Symbol, build_elf
from tests.debuginfo import nvidia_lines
from tests.golden.cuda import make, positions, samples

R_CUDA_32, R_CUDA_64, R_CUDA_UNUSED_CLEAR64 = 1, 2, 73
"""Types of relocations as cuobjdump prints them."""

WITH_LINES = [name for name in samples.CUBINS if ".none." not in name]
FIRST_BASE = 1 << 40


def _relocated(code: CodeObject) -> tuple[dict[str, bytes], LinearLayout]:
    plan = linear_layout(code)
    return cuda(code, plan), plan


def _by_section(code: CodeObject) -> dict[int, list[nvidia_lines.Sequence]]:
    """Section number -> the sequences that relocation put there; number 0 is "nowhere"."""
    sections, plan = _relocated(code)
    result: dict[int, list[nvidia_lines.Sequence]] = {}
    for sequence in nvidia_lines.decode(sections[".debug_line"], sections.get(".debug_str", b"")):
        first = np.array([sequence.rows[0].address], np.uint64)
        section, _, found = section_of(plan, first)
        result.setdefault(int(section[0]) if found[0] else 0, []).append(sequence)
    return result


@pytest.mark.parametrize("name", WITH_LINES)
def test_every_instruction_has_the_position_and_chain_that_nvdisasm_prints(name):
    code = samples.code(name)
    own = _by_section(code)
    plan = linear_layout(code)
    compared = 0
    for section, shown in positions.matched(code, positions.printed("lines.txt", name)):
        base = plan.base_of(section.index)
        sequences = own.get(section.index, [])
        assert len(sequences) <= 1
        for offset, chain, new in positions.instructions(section, shown):
            number = sequences[0].at(base + offset) if sequences else None
            found = sequences[0].chain(number) if number else []
            assert found[:1] == chain[:1], (section.name, hex(offset))
            if new and not positions.is_debug(name):
                assert found == chain, (section.name, hex(offset))
            compared += bool(chain)
    assert compared > 20


@pytest.mark.parametrize("name", WITH_LINES)
def test_rows_and_inline_names_are_those_that_elfutils_reads(name):
    code = samples.code(name)
    strings = code.section(".debug_str")
    sections, _ = _relocated(code)
    found = []
    for number, sequence in enumerate(nvidia_lines.decode(sections[".debug_line"], strings.data if strings else b"")):
        start = sequence.rows[0].address
        for row in sequence.rows:
            place = f"{number} {row.address - start:x}"
            found.append(
                f"{place} end" if row.end else f"{place} {row.file} {row.line} {row.context} {row.name or '-'}"
            )
    golden = make.read("rows.txt")[name]
    assert found == golden


@pytest.mark.parametrize(
    ("name", "dead"),
    [("linked.sm_80.lines.cubin", 1), ("linked.sm_100.lines.cubin", 0), ("linked_callee.sm_80.dc.cubin", 0)],
)
def test_the_sequence_of_a_stripped_function_stays_below_every_section(name, dead):
    """nvlink leaves the sequence of ``nobody`` behind for sm_80, and takes it out for sm_100."""
    assert len(_by_section(samples.code(name)).get(0, [])) == dead


@pytest.mark.parametrize("name", WITH_LINES)
def test_relocation_leaves_sizes_and_everything_without_addresses_alone(name):
    code = samples.code(name)
    sections, _ = _relocated(code)
    assert set(sections) == {
        one.name for one in code.sections if one.name.startswith(".debug_") or one.name == ".nv_debug_line_sass"
    }
    for key, content in sections.items():
        original = code.section(key)
        assert original is not None
        assert len(content) == len(original.data)
    assert not any("merc" in key for key in sections)


def test_names_of_the_second_unit_of_a_link_count_from_its_own_base():
    names = {
        row.name
        for sequences in _by_section(samples.code("linked.sm_80.lines.cubin")).values()
        for sequence in sequences
        for row in sequence.rows
    }
    assert names == {"", "_Z4toneff", "_Z9to_linearf", "_Z5cubicffff", "_Z4filmf", "_Z9to_storedf"}


def _subprograms(code: CodeObject, info: bytes) -> dict[int, int]:
    """What stands at the places of .debug_info that the image relocates with R_CUDA_64: place -> value."""
    table = next(one for one in code.sections if one.name == ".rela.debug_info")
    places = [place for place, kind, _, _ in struct.iter_unpack("<QIIq", table.data) if kind == R_CUDA_64]
    return {place: int.from_bytes(info[place : place + 8], "little") for place in places}


@pytest.mark.parametrize("name", ["raycast.sm_90.debug.cubin", "linked.sm_90.debug.cubin"])
def test_addresses_of_scopes_lie_in_the_linear_space(name):
    code = samples.code(name)
    sections, plan = _relocated(code)
    values = np.array(list(_subprograms(code, sections[".debug_info"]).values()), np.uint64)
    text = values[values >= FIRST_BASE]
    assert len(text) >= 20
    _, offset, found = section_of(plan, text)
    sizes = {one.size for one in code.sections if one.executable}
    assert found.all()
    assert int(offset.max()) <= max(sizes)


LINE = b"\x11" * 8 + (64).to_bytes(8, "little") + b"\x22" * 8


def _made(entries: list[Relocation], *, rela: bool = True, line: bytes = LINE, bits: int = 64) -> CodeObject:
    """A cubin with two functions of 256 bytes, ``b`` at offset 32 of its section, and ``.debug_line`` to relocate."""
    sections = [
        Section(".text.a", flags=AX, data=bytes(256)),
        Section(".text.b", flags=AX, data=bytes(256)),
        Section(".debug_line", data=line),
    ]
    symbols = [
        Symbol("a", section=".text.a", size=256, type=FUNC, bind=GLOBAL),
        Symbol("b", section=".text.b", value=32, size=224, type=FUNC, bind=GLOBAL),
        Symbol("elsewhere", section=0, bind=GLOBAL),
    ]
    built = build_elf(
        machine=190, type=ET_EXEC, abiversion=8, flags=0x5000, sections=sections, symbols=symbols,
        relocations={".debug_line": entries}, rela=rela, bits=bits,
    )  # fmt: skip
    return samples.read_cubin(built)


def _word(code: CodeObject, size: int = 8) -> int:
    sections, _ = _relocated(code)
    assert sections[".debug_line"][:8] == LINE[:8]
    assert sections[".debug_line"][8 + size :] == LINE[8 + size :]
    return int.from_bytes(sections[".debug_line"][8 : 8 + size], "little")


def test_rela_takes_its_addend_from_the_entry_and_rel_from_the_section():
    base = linear_layout(_made([])).base_of(2)
    assert base is not None
    assert base >= FIRST_BASE
    assert _word(_made([Relocation(8, "b", R_CUDA_64, 16)])) == base + 32 + 16
    assert _word(_made([Relocation(8, "b", R_CUDA_64, 16)], rela=False)) == base + 32 + 64
    assert _word(_made([Relocation(8, "b", R_CUDA_64, -32)])) == base


def test_undefined_symbols_and_orders_to_the_linker_change_nothing():
    assert _word(_made([Relocation(8, "elsewhere", R_CUDA_64, 16)])) == 64
    assert _word(_made([Relocation(8, "b", R_CUDA_UNUSED_CLEAR64, 16)])) == 64


def test_four_byte_relocations_write_four_bytes():
    code = _made([Relocation(8, "b", R_CUDA_32, 7)])
    base = linear_layout(code).base_of(2)
    assert base is not None
    assert _word(code, 4) == (base + 32 + 7) & 0xFFFFFFFF


def test_images_of_32_bits_have_entries_and_addresses_of_32_bits():
    base = linear_layout(_made([], bits=32)).base_of(2)
    assert base is not None
    assert 1 << 28 <= base < 1 << 32
    assert _word(_made([Relocation(8, "b", R_CUDA_32, 16)], bits=32), 4) == base + 32 + 16
    assert _word(_made([Relocation(8, "b", R_CUDA_32, 16)], bits=32, rela=False), 4) == base + 32 + 64
    assert _word(_made([Relocation(8, "b", R_CUDA_32, -32)], bits=32), 4) == base
    with pytest.raises(Malformed, match="names symbol 77 of 4"):
        _relocated(_made([Relocation(8, 77, R_CUDA_32)], bits=32))


@pytest.mark.parametrize(
    ("entry", "error", "message"),
    [
        (Relocation(8, "b", 200), Unsupported, "debug_line: relocation type 200 is not read"),
        (Relocation(8, 77, R_CUDA_64), Malformed, "names symbol 77 of 4"),
        (Relocation(17, "b", R_CUDA_64), Malformed, "leaves the section of 24"),
        (Relocation((1 << 64) - 4, "b", R_CUDA_64), Malformed, "leaves the section of 24"),
    ],
)
def test_what_cannot_be_applied_is_refused(entry, error, message):
    with pytest.raises(error, match=message):
        _relocated(_made([entry]))
    if error is Malformed and "leaves" in message:
        with pytest.raises(error, match=message):
            _relocated(_made([entry], rela=False))


@pytest.mark.parametrize("name", ["linked.sm_80.lines.cubin", "saxpy.sm_100.debug.cubin"])
def test_damaged_relocations_are_applied_or_refused_within_the_tree(name):
    whole = samples.data(name)
    tables = [
        one for one in samples.code(name).sections if one.name.startswith((".rel.debug", ".rela.debug", ".symtab"))
    ]
    chance = random.Random(7)
    refused = 0
    for _ in range(150):
        sick = bytearray(whole)
        start = whole.index(chance.choice([one.data for one in tables if one.data]))
        for _ in range(3):
            sick[start + chance.randrange(16)] = chance.randrange(256)
        try:
            _relocated(samples.read_cubin(bytes(sick)))
        except SymdError:
            refused += 1
    assert 10 < refused < 150

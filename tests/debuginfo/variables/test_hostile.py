"""Damaged debug data: an answer or an error of the tree, in bounded time, and nothing else."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc

import pytest

from symd.debuginfo.dwarf.variable_constants import Op
from symd.debuginfo.variables.location_records import MAX_BYTES
from symd.debuginfo.variables.visible import MAX_VARIABLES, VariableReader
from symd.errors import SymdError
from symd.formats import containers
from symd.model.code import CodeObject, Vendor
from tests.agreement.samples import KERNELS
from tests.builders.dwarf import At, Die, Locations, Ref
from tests.builders.leb128 import uleb
from tests.debuginfo.variables.build import (
    BASE,
    SIZE,
    TEXT,
    code,
    function,
    span,
    unit,
    variable,
    visible,
    with_sections,
)
from tests.formats.containers.amd import objects
from tests.golden.cuda import samples as cuda

SECONDS = 20.0
"""For what takes much less than a second alone on a machine."""


def intel(path: str) -> CodeObject:
    found = containers.unpack((KERNELS / "bin" / path).read_bytes()).objects
    return next(one for one in found if one.debug.startswith("dwarf"))


SAMPLES = {
    "intel container": lambda: intel("tonemap/dg2-opt.dbg"),
    "intel zebin": lambda: intel("mandelbrot/igc2-dg2-opt.zebin"),
    "amd 5": lambda: objects.code("v6-gfx942-xnack.co"),
    "amd 2": lambda: objects.code("v4-gfx900-dwarf2.co"),
    "nvidia": lambda: cuda.code("raycast.sm_90.debug.cubin"),
}


def answered(found: CodeObject, section: int, offset: int) -> str:
    began = time.monotonic()
    try:
        answer = VariableReader(found).at(section, offset)
        outcome = "answered"
        assert all(one.optimized_out == (one.location is None) for one in answer.variables)
        assert all(one.type_number is None or one.type_number < len(answer.types) for one in answer.variables)
    except SymdError as error:
        outcome = type(error).__name__
    assert time.monotonic() - began < SECONDS
    return outcome


@pytest.mark.parametrize("name", SAMPLES)
def test_mutated_samples_are_answered_or_refused(name: str) -> None:
    whole = SAMPLES[name]()
    chance = random.Random(name)
    debug = [one for one in whole.sections if ".debug_" in one.name and one.data and one.name != ".debug_line"]
    debug += [one for one in whole.sections if one.name == ".nv_debug_info_reg_sass"]
    texts = [one for one in whole.sections if one.executable and one.size]
    outcomes = set()
    for _ in range(120):
        victim = chance.choice(debug)
        data = bytearray(victim.data)
        for _ in range(chance.choice((1, 3, 30))):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        cut = chance.choice((len(data), len(data), chance.randrange(len(data))))
        sections = tuple(one.changed(content=bytes(data[:cut])) if one is victim else one for one in whole.sections)
        text = chance.choice(texts)
        outcomes.add(answered(whole._replace(sections=sections), text.index, chance.randrange(text.size)))
    assert "answered" in outcomes


def test_thousands_of_nested_blocks_are_followed_so_far() -> None:
    """The block's 13 bytes (abbreviation, low_pc, high_pc) repeated, with a null entry more for each."""
    depth = 3000
    one = code(
        unit(function("f", Die("lexical_block", span(0, 8), [variable("x", At("location", "exprloc", b"\x55"))])))
    )
    info = next(section for section in one.sections if section.name == ".debug_info")
    start = info.data.rindex(b"\x03")
    assert info.data[start + 1 : start + 9] == BASE.to_bytes(8, "little")
    data = bytearray(info.data[:start] + info.data[start : start + 13] * depth + info.data[start + 13 :] + bytes(depth))
    data[:4] = (len(data) - 4).to_bytes(4, "little")
    sections = tuple(section.changed(content=bytes(data)) if section is info else section for section in one.sections)
    began = time.monotonic()
    assert [found.name for found in visible(one._replace(sections=sections), 0).variables] == ["x"]
    assert time.monotonic() - began < SECONDS


def test_functions_that_overlap_in_a_long_row_take_bounded_time() -> None:
    """Function number k has bytes 4k to 4k + 8, and a variable."""
    count = 120_000
    held = (b"\x02" + struct.pack("<QI", BASE + 4 * k, 8) + b"\x03v%d\0\0" % k for k in range(count))
    dies = b"\x01" + b"".join(held) + b"\0"
    header = struct.pack("<HIB", 4, 0, 8)
    debug = {
        ".debug_abbrev": b"\x01\x11\x01\0\0\x02\x2e\x01\x11\x01\x12\x06\0\0\x03\x34\x00\x03\x08\0\0\0",
        ".debug_info": struct.pack("<I", len(header) + len(dies)) + header + dies,
    }
    began = time.monotonic()
    reader = VariableReader(with_sections(debug))
    assert [reader.at(TEXT, offset).variables[0].name for offset in (0, 4, 99)] == ["v0", "v1", "v24"]
    assert time.monotonic() - began < SECONDS


def most_taken_by_calls(attribute: int, step: int, dies: bytes) -> int:
    """The bytes that a question takes about a function whose variable calls 200 DIEs, each ``step`` bytes after the one
    before. ``dies`` begins with the first, of abbreviation 2, which has one block of four bytes' size."""
    abbreviations = b"\x01\x11\x01\x11\x01\x12\x06\0\0\x02\x34\x00%c\x04\0\0" % attribute
    abbreviations += b"\x03\x2e\x01\x11\x01\x12\x06\0\0\x04\x34\x00\x03\x08\x02\x18\0\0\0"
    text = struct.pack("<QI", BASE, SIZE)
    first = 11 + 2 * (1 + len(text)) + 3 + 2 + 5 * 200 + 2 + 1
    calls = b"".join(struct.pack("<BI", Op.DW_OP_call4, first + step * number) for number in range(200))
    calls += bytes([Op.DW_OP_lit0 + 5, Op.DW_OP_stack_value])
    around = b"\x01" + text + b"\x03" + text + b"\x04x\0" + bytes(uleb(len(calls))) + calls + b"\0"
    header = struct.pack("<HIB", 4, 0, 8)
    assert len(header) + 4 + len(around) == first
    info = struct.pack("<I", len(header) + len(around) + len(dies) + 1) + header + around + dies + b"\0"
    reader = VariableReader(with_sections({".debug_abbrev": abbreviations, ".debug_info": info}))
    tracemalloc.start()
    try:
        assert reader.at(TEXT, 0).variables[0].name == "x"
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_dies_that_lie_in_one_another_share_their_bytes() -> None:
    """DIEs that begin five bytes apart, each with a constant of 2 MiB."""
    assert most_taken_by_calls(0x1C, 5, b"\x02\x00\x00\x20\x00" * (1 << 20)) < 16 << 20


def test_a_long_expression_is_not_called_again_and_again() -> None:
    """One DIE, whose location is a value of 2 MiB."""
    held = bytes([Op.DW_OP_implicit_value, *uleb(2 << 20)]) + bytes(2 << 20)
    assert most_taken_by_calls(0x02, 0, b"\x02" + struct.pack("<I", len(held)) + held) < 128 << 20


def test_too_many_variables_are_cut_off_with_a_note() -> None:
    shared = Die("variable", [At("name", "string", "x")])
    found = visible(code(unit(function("f", *[shared] * (MAX_VARIABLES + 5)))))
    assert len(found.variables) == MAX_VARIABLES
    assert any("left out" in note for note in found.notes)


def test_many_variables_that_share_a_costly_expression_take_bounded_time() -> None:
    """2000 variables, each a loop of thousands of operations in 64 lanes: what all of them may cost is bounded."""
    costly = b"\xed\x9f" + b"\x30\x13" * 400
    one = variable("x", At("location", "exprloc", costly))
    root = unit(function("f", *[one] * 2000), attributes=[At(0x2400, "data2", 64)])
    began = time.monotonic()
    found = visible(code(root, vendor=Vendor.INTEL))
    assert time.monotonic() - began < SECONDS
    assert found.variables[0].location == "constant 0 + 1*lane"
    assert found.variables[-1].location == "unreadable: the expression does not come to an end"


def test_many_variables_that_share_a_long_list_take_bounded_time() -> None:
    entries = tuple(("start_end", 2 * n, 2 * n + 1, b"\x55") for n in range(1000))
    shared = variable("x", At("location", "sec_offset", Locations(entries)))
    began = time.monotonic()
    found = visible(code(unit(function("f", *[shared] * 3000))), 0x100)
    assert time.monotonic() - began < SECONDS
    assert found.variables[0].location == "reg5"
    assert found.variables[-1].location == "unreadable: .debug_loc+0x0: location lists overlap without end"


def test_thousands_of_types_in_a_row_are_cut_off() -> None:
    types = [
        Die("typedef", [At("name", "string", f"t{n}"), At("type", "ref4", Ref(f"t{n + 1}"))], [], f"t{n}")
        for n in range(6000)
    ]
    found = visible(
        code(unit(function("f", variable("x", At("type", "ref4", Ref("t0")))), *types, Die("typedef", [], [], "t6000")))
    )
    assert len(found.types) == 4096
    assert found.notes == ("there are more types than are shown",)


@pytest.mark.parametrize("size", [1 << 20, 1 << 40, (1 << 63) - 1])
def test_a_constant_of_a_type_of_any_size_is_shown_by_its_first_bytes(size: int) -> None:
    huge = Die("base_type", [At("encoding", "data1", 5), At("byte_size", "udata", size)], label="huge")
    held = variable("x", At("type", "ref4", Ref("huge")), At("const_value", "sdata", -3))
    [found] = visible(code(unit(function("f", held), huge))).variables
    assert found.location is not None
    assert found.location.startswith("constant bytes fd ff ff ff")
    assert len(found.locations[0].pieces[0].data or b"") == MAX_BYTES


@pytest.mark.parametrize("bits", [65, 1 << 40, (1 << 63) - 1])
def test_any_number_of_bits_of_a_register_may_be_masked(bits: int) -> None:
    """Intel's operation takes the number from the stack."""
    first, size = [Op.DW_OP_constu, *uleb(3)], [Op.DW_OP_constu, *uleb(bits)]
    masked = [Op.DW_OP_lit0 + 31, Op.DW_OP_and, Op.DW_OP_stack_value]
    place = bytes([Op.DW_OP_reg0, *first, *size, Op.DW_OP_INTEL_push_bit_piece_stack, *masked])
    held = variable("x", At("location", "exprloc", place))
    [found] = visible(code(unit(function("f", held)), vendor=Vendor.INTEL)).variables
    assert found.location is not None
    assert "& 31" in found.location

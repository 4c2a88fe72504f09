"""Locations as structure: worked out by hand for the forms that compilers write, and equal in meaning to the prose for
every case and every sample."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest

from symd.debuginfo.variables.types import Reading
from symd.debuginfo.variables.visible import VariableReader
from symd.formats import containers
from symd.model.code import CodeObject, Vendor
from symd.model.variables import LocationPiece, LocationRegister, PieceKind, TypeInfo, VariableLocation, Visible
from tests.builders.leb128 import sleb, uleb
from tests.debuginfo.variables import test_expressions as expressions
from tests.debuginfo.variables.spoken import sentence

SAMPLES = Path(__file__).parents[3] / "samples"
Piece, Register, Location = LocationPiece, LocationRegister, VariableLocation
REGISTER, MEMORY, CONSTANT = PieceKind.REGISTER, PieceKind.MEMORY, PieceKind.CONSTANT
IMPLICIT, OPTIMIZED_OUT, EXPRESSION = PieceKind.IMPLICIT, PieceKind.OPTIMIZED_OUT, PieceKind.EXPRESSION


def whole(piece: LocationPiece) -> tuple[VariableLocation, ...]:
    return (VariableLocation((piece,)),)


STANDARD_CASES = [
    # DWARF 5, 2.6.1.1.3: the variable is in register 3, all of it
    (b"\x53", whole(Piece(REGISTER, register=Register(3, "reg3")))),
    # breg3 - 8 and fbreg 8 with the frame base bregx 33: memory at a register's content and an offset
    (b"\x73\x78", whole(Piece(MEMORY, register=Register(3, "reg3"), offset=-8))),
    (b"\x91\x08", whole(Piece(MEMORY, register=Register(33, "reg33"), offset=8))),
    (b"\x03" + (0x400).to_bytes(8, "little"), whole(Piece(MEMORY, offset=0x400))),
    # the address of the top byte of memory is no negative number
    (b"\x03" + b"\xff" * 8, whole(Piece(MEMORY, offset=(1 << 64) - 1))),
    # a base that is no register: the frame's address, what stands at an address
    (b"\x9c\x23\x10", whole(Piece(MEMORY, text="CFA", offset=16))),
    (b"\x73\x08\x06\x23\x04", whole(Piece(MEMORY, text="*(reg3 + 8)", offset=4))),
    (
        b"\x73\x00\x34\x24\x74\x00\x22\x23\x04",
        whole(Piece(MEMORY, text="(reg3 << 4) + reg4", offset=4)),
    ),
    # lit5, lit3, swap, xderef: address 5 of space 3
    (b"\x35\x33\x16\x18", whole(Piece(MEMORY, offset=5, address_space=3, address_space_name="address space 3"))),
    # 2.6.1.1.4: values
    (b"\x3f\x9f", whole(Piece(CONSTANT, value=15))),
    (b"\x11" + sleb(-2) + b"\x9f", whole(Piece(CONSTANT, value=-2))),
    (b"\x9e\x02\x34\x12", whole(Piece(IMPLICIT, data=b"\x34\x12"))),
    (b"\x73\x00\x9f", whole(Piece(REGISTER, register=Register(3, "reg3")))),
    (b"\x73\x01\x9f", whole(Piece(EXPRESSION, text="reg3 + 1"))),
    (b"\xa0\x99\x00\x00\x00\x04", whole(Piece(EXPRESSION, text="pointer to other + 4"))),
    (b"", ()),
    # 2.6.1.2: four bytes each: a register's low bits, nowhere, memory
    (
        b"\x53\x93\x04\x93\x04\x75\x10\x93\x04",
        (
            Location(
                (
                    Piece(REGISTER, 0, 32, register=Register(3, "reg3", 0, 32)),
                    Piece(OPTIMIZED_OUT, 32, 32),
                    Piece(MEMORY, 64, 32, register=Register(5, "reg5"), offset=16),
                )
            ),
        ),
    ),
    # 12 bits from bit 4 of a register, then as many of memory
    (
        b"\x53\x9d\x0c\x04\x75\x00\x9d\x0c\x04",
        (
            Location(
                (
                    Piece(REGISTER, 0, 12, register=Register(3, "reg3", 4, 12)),
                    Piece(MEMORY, 12, 12, 4, register=Register(5, "reg5"), offset=0),
                )
            ),
        ),
    ),
    # what cannot be followed is said
    (
        b"\x53\x93\x04\x01",
        (
            Location(
                (
                    Piece(REGISTER, 0, 32, register=Register(3, "reg3", 0, 32)),
                    Piece(EXPRESSION, text="unknown operation 0x01"),
                )
            ),
        ),
    ),
]


@pytest.mark.parametrize(("expression", "expected"), STANDARD_CASES, ids=lambda value: None)
def test_standard(expression: bytes, expected: tuple[VariableLocation, ...]) -> None:
    found = expressions.described(expression, frame_base=b"\x92" + uleb(33) + b"\x00")
    assert (found.locations if found else ()) == expected


INTEL_CASES = [
    # four bytes a lane from r29 (45) on, then in the next registers
    (
        expressions.FOUR_BYTES_A_LANE,
        16,
        whole(Piece(REGISTER, register=Register(45, "r29", 0, 32, None, 32), per_lane=True)),
    ),
    # 64 bits of r127, bit 128 on, + 16 + 8 * lane + 64
    (
        b"\x08\x8f\x08\x80\xfe\x40\x23\x10\xed\x38\x1e\x22\x23\x40",
        8,
        whole(
            Piece(MEMORY, register=Register(143, "r127", 128, 64), offset=80, per_lane=True, lane_stride=8),
        ),
    ),
    # lanes from 16 on lie elsewhere
    (
        expressions.HALVES,
        32,
        (
            Location((Piece(REGISTER, register=Register(21, "r5", 0, 32, None, 32), per_lane=True),), (0, 16)),
            Location((Piece(REGISTER, register=Register(26, "r10", 0, 32, None, 32), per_lane=True),), (16, 32)),
        ),
    ),
    # 16 bits of each lane's 32
    (
        b"\xed\x33\x25\x23\x11\xed\x37\x1a\x08\x20\x1e\xfe\x10\x9f",
        16,
        whole(Piece(REGISTER, register=Register(17, "r1", 0, 16, None, 32), per_lane=True)),
    ),
    # register 48 + lane, 32 bits each: a register a lane
    (
        b"\xed\x23\x30\x30\xfe\x20\x9f",
        8,
        whole(Piece(REGISTER, register=Register(48, "r32", 0, 32, None, 0, 1), per_lane=True)),
    ),
    # elements of a vector, 32 bits each: places within the variable follow from the bits
    (
        b"\xed\x33\x25\x23\x20\xed\x37\x1a\x08\x20\x1e\xfe\x20\x9f\xed\x33\x25\x23\x22\xed\x37\x1a\x08\x20\x1e\xfe\x20\x9f",
        16,
        (
            Location(
                (
                    Piece(REGISTER, 0, 32, register=Register(32, "r16", 0, 32, None, 32), per_lane=True),
                    Piece(REGISTER, 32, 32, register=Register(34, "r18", 0, 32, None, 32), per_lane=True),
                )
            ),
        ),
    ),
    # the lane's number itself, and four times it
    (b"\xed\x9f", 8, whole(Piece(CONSTANT, value=0, per_lane=True, lane_stride=1))),
    (b"\xed\x34\x1e\x23\x08", 8, whole(Piece(MEMORY, offset=8, per_lane=True, lane_stride=4))),
]


@pytest.mark.parametrize(("expression", "lanes", "expected"), INTEL_CASES, ids=lambda value: None)
def test_intel(expression: bytes, lanes: int, expected: tuple[VariableLocation, ...]) -> None:
    assert expressions.described(expression, Vendor.INTEL, lanes).locations == expected


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (Reading("signed", 4), Piece(CONSTANT, value=-1)),
        (Reading("unsigned", 4), Piece(CONSTANT, value=0xFFFFFFFF)),
        (Reading("unsigned", 8), Piece(CONSTANT, value=-1)),
        (Reading("float", 4), Piece(CONSTANT, value=0xFFFFFFFF)),
        (Reading("bytes", 4), Piece(IMPLICIT, data=b"\xff\xff\xff\xff")),
    ],
)
def test_a_constant_is_read_by_the_type_of_its_variable(reading: Reading, expected: LocationPiece) -> None:
    assert expressions.described(b"\x11\x7f\x9f", reading=reading).locations == whole(expected)


def spoken_cases() -> list[tuple[bytes, Vendor, int | None]]:
    cases: list[tuple[bytes, Vendor, int | None]] = []
    cases += [(expression, Vendor.INTEL, lanes) for expression, lanes, _ in expressions.INTEL_CASES]
    cases += [(expression, Vendor.NONE, None) for expression, _ in expressions.STANDARD_CASES]
    cases += [(expression, Vendor.AMD, None) for expression, _ in expressions.AMD_CASES]
    return cases + [(expression, Vendor.NVIDIA, None) for expression, _ in expressions.NVIDIA_CASES]


def assert_told_twice(expression: bytes, vendor: Vendor, lanes: int | None) -> None:
    found = expressions.described(expression, vendor, lanes, frame_base=b"\x9c", called={0x50: b"\x36"})
    if found is None:
        return
    assert unsigned(sentence(found.locations) or "") == unsigned(found.text)
    for location in found.locations:
        for piece in location.pieces:
            assert_fields_fit(piece)


def unsigned(text: str) -> str:
    """Constants that grow from lane to lane are written unsigned in the prose and are signed in the structure."""
    return re.sub(
        r"constant (-?\w+)(?= [+-] \d+\*lane)", lambda found: f"constant {int(found[1], 0) % (1 << 64)}", text
    )


def assert_fields_fit(piece: LocationPiece) -> None:
    """The fields that a kind has, and no others."""
    fields = {
        "register": piece.register is not None,
        "offset": piece.offset is not None,
        "value": piece.value is not None,
        "data": piece.data is not None,
        "text": piece.text is not None,
    }
    stated = {name for name, here in fields.items() if here}
    allowed = {
        REGISTER: [{"register"}],
        MEMORY: [{"offset"}, {"offset", "register"}, {"offset", "text"}],
        CONSTANT: [{"value"}],
        IMPLICIT: [{"data"}],
        OPTIMIZED_OUT: [set()],
        EXPRESSION: [{"text"}],
    }
    assert stated in allowed[piece.kind], piece
    if piece.kind is MEMORY and piece.register is None and piece.text is None:
        assert 0 <= (piece.offset or 0) < 1 << 64
    elif piece.offset is not None:
        assert -(1 << 63) <= piece.offset < 1 << 63
    assert piece.value is None or -(1 << 63) <= piece.value < 1 << 63


@pytest.mark.parametrize(("expression", "vendor", "lanes"), spoken_cases(), ids=lambda value: None)
def test_prose_and_structure_say_the_same(expression: bytes, vendor: Vendor, lanes: int | None) -> None:
    assert_told_twice(expression, vendor, lanes)


def test_prose_and_structure_of_mutated_expressions_say_the_same() -> None:
    chance = random.Random(11)
    cases = [case for case in spoken_cases() if case[0]]
    for _ in range(3000):
        expression, vendor, lanes = chance.choice(cases)
        mutated = bytearray(expression)
        for _ in range(chance.randint(1, 3)):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        assert_told_twice(bytes(mutated), vendor, lanes)


@cache
def objects(path: str) -> tuple[CodeObject, ...]:
    return containers.unpack((SAMPLES / path).read_bytes()).objects


def behind_aliases(types: tuple[TypeInfo, ...], number: int | None) -> int | None:
    while number is not None and types[number].kind in ("typedef", "const", "volatile", "restrict", "atomic"):
        number = types[number].target
    return number


def reading(types: tuple[TypeInfo, ...], number: int | None) -> tuple[str, int | None]:
    """How a constant of the type is written: its encoding and size. An enumeration has the encoding of the type under
    it."""
    number = behind_aliases(types, number)
    if number is None:
        return "", None
    info = types[number]
    if info.kind == "enumeration" and (under := behind_aliases(types, info.target)) is not None:
        return (types[under].encoding or "") if types[under].kind == "base" else "", info.size
    if info.kind == "base":
        return info.encoding or "", info.size
    if info.kind in ("pointer", "reference", "rvalue_reference"):
        return "address", info.size
    return ("" if info.kind == "enumeration" else "bytes"), info.size


def assert_all_told_twice(visible: Visible) -> set[PieceKind]:
    kinds = set()
    for variable in visible.variables:
        said = sentence(variable.locations, *reading(visible.types, variable.type_number))
        assert said == variable.location, variable
        assert variable.optimized_out == (not variable.locations)
        for location in variable.locations:
            for piece in location.pieces:
                assert_fields_fit(piece)
                kinds.add(piece.kind)
    return kinds


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("kernels/bin/vadd/dg2-opt.dbg", {REGISTER}),
        ("kernels/bin/raycast/dg2-O0.zebin", {MEMORY}),
        ("kernels/bin/tonemap/igc2-dg2-opt.zebin", {REGISTER}),
        ("amdgpu/bin/v4-gfx900.co", {REGISTER, CONSTANT}),
        ("amdgpu/bin/split-14-dwarf4-whole.o", {MEMORY, EXPRESSION}),
        ("amdgpu/bin/v5-gfx90a.co", {REGISTER}),
        ("cuda/bin/tonemap.sm_80.debug.cubin", {REGISTER}),
        ("cuda/bin/raycast.sm_90.debug.cubin", {REGISTER}),
    ],
)
def test_prose_and_structure_of_every_variable_of_a_sample_say_the_same(path: str, kinds: set[PieceKind]) -> None:
    met: set[PieceKind] = set()
    for code in objects(path):
        reader = VariableReader(code)
        for section in code.sections:
            if section.executable:
                step = max(8, section.size // 50 & ~7)
                for offset in range(0, section.size, step):
                    met |= assert_all_told_twice(reader.at(section.index, offset))
    assert met >= kinds

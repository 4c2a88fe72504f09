"""Values of variables from registers: by the variable's type, lane by lane; none where anything is missing."""

from __future__ import annotations

import struct

import pytest

from symd.cores import WaveRegisters
from symd.cores.values import MAX_BYTES, values_of
from symd.debuginfo.variables.visible import VariableReader
from symd.formats import containers
from symd.model.variables import (
    LocationPiece,
    LocationRegister,
    PieceKind,
    TypeInfo,
    Variable,
    VariableLocation,
    Visible,
)
from tests.cores.dumps import ROOT

WAVE = WaveRegisters(
    (3, 5),
    (struct.pack("<8I", *range(100, 108)), struct.pack("<8I", *range(200, 208))),
    (struct.pack("<2I", 1, 0), struct.pack("<2I", 1, 1)),
    struct.pack("<4I", 7, 8, 9, 0xFFFF_FFFE),
)


def base(text: str, size: int, encoding: str) -> TypeInfo:
    return TypeInfo(text, "base", size, encoding)


def register(*names: str, first_bit: int = 0, bits: int | None = None) -> LocationPiece:
    machine = names if names[0][0] in "RP" else None
    found = LocationRegister(1, names[0], first_bit, bits, machine)
    return LocationPiece(PieceKind.REGISTER, register=found)


def constant(value: int) -> LocationPiece:
    return LocationPiece(PieceKind.CONSTANT, value=value)


def values(*pieces: LocationPiece, types: tuple[TypeInfo, ...]) -> tuple[str, ...] | None:
    """What is said of a variable of the first type, in lanes 3 and 5; None: nothing."""
    variable = Variable("x", "T", "local", "f", False, False, "here", (), 0, (VariableLocation(pieces),))
    found = values_of(Visible((variable,), types), WAVE)
    return found[0].values if found else None


INT, UNSIGNED, FLOAT = base("int", 4, "signed"), base("unsigned int", 4, "unsigned"), base("float", 4, "float")


@pytest.mark.parametrize("stated", [-2, 0xFFFF_FFFE], ids=["with a sign", "without"])
def test_an_enumerator_below_0_is_named_however_its_value_is_written(stated: int):
    kind = TypeInfo("E", "enumeration", 4, enumerators=(("ONE", 1), ("LAST", stated)))
    assert values(constant(0xFFFF_FFFE), types=(kind,)) == ("LAST",)


@pytest.mark.parametrize("size", [40, 1 << 43])
def test_of_a_piece_that_is_larger_than_its_variable_the_lowest_bits_count(size: int):
    """Debug data states sizes as it likes."""
    large = LocationPiece(PieceKind.IMPLICIT, bit_size=size, data=bytes(range(1, 9)))
    assert values(large, types=(UNSIGNED,)) == (str(0x04030201),)
    assert values(large, large, types=(UNSIGNED,)) == (str(0x04030201),)


@pytest.mark.parametrize(
    ("pieces", "kind", "said"),
    [
        ((register("R1"),), INT, ("101", "201")),
        ((register("v2"),), UNSIGNED, ("102", "202")),
        ((register("s1"),), INT, ("8",)),
        ((register("UR3"),), INT, ("-2",)),
        ((register("UR3"),), UNSIGNED, ("4294967294",)),
        ((register("P1"),), base("bool", 1, "boolean"), ("false", "true")),
        ((register("P0"),), base("bool", 1, "boolean"), ("true",)),
        ((constant(0x3FC0_0000),), FLOAT, ("1.5",)),
        ((constant(0x3E00),), base("half", 2, "float"), ("1.5",)),
        ((constant(0x3FF8_0000_0000_0000),), base("double", 8, "float"), ("1.5",)),
        ((constant(-1),), base("char", 1, "signed_char"), ("-1",)),
        ((constant(-1),), base("unsigned char", 1, "unsigned_char"), ("255",)),
        ((constant(2),), base("bool", 1, "boolean"), ("2",)),
        ((register("R0", "R1"),), TypeInfo("T *", "pointer", 8, target=0), ("0x6500000064", "0xc9000000c8")),
        ((constant(1),), TypeInfo("enum E", "enumeration", 4, enumerators=(("A", 0), ("B", 1))), ("B",)),
        ((constant(9),), TypeInfo("enum E", "enumeration", 4, enumerators=(("A", 0), ("B", 1))), ("9",)),
        (
            (register("R0", "R1"),),
            TypeInfo("S", "structure", 8),
            ("bytes 64 00 00 00 65 00 00 00", "bytes c8 00 00 00 c9 00 00 00"),
        ),
        ((LocationPiece(PieceKind.IMPLICIT, data=b"\x05\0\0\0"),), INT, ("5",)),
        ((register("R1", first_bit=8, bits=8),), base("char", 1, "unsigned_char"), ("0",)),
    ],
)
def test_values_by_type(pieces: tuple[LocationPiece, ...], kind: TypeInfo, said: tuple[str, ...]) -> None:
    assert values(*pieces, types=(kind,)) == said


def test_pieces_from_the_lowest_bits_on() -> None:
    low = LocationPiece(PieceKind.REGISTER, 0, 16, register=LocationRegister(1, "v1"))
    high = LocationPiece(PieceKind.CONSTANT, 16, 16, value=1)
    assert values(low, high, types=(UNSIGNED,)) == (str(1 << 16 | 101), str(1 << 16 | 201))


def test_names_of_types_are_followed() -> None:
    types = (TypeInfo("T", "typedef", target=1), TypeInfo("const int", "const", 4, target=2), INT)
    assert values(register("R1"), types=types) == ("101", "201")
    assert values(register("R1"), types=(TypeInfo("T", "typedef", target=0),)) is None


@pytest.mark.parametrize(
    "piece",
    [
        register("R8"),
        register("s4"),
        register("R1", "R8"),
        register("a0"),
        register("reg9999"),
        register("R1", first_bit=16, bits=32),
        LocationPiece(PieceKind.MEMORY, offset=16),
        LocationPiece(PieceKind.OPTIMIZED_OUT),
        LocationPiece(PieceKind.EXPRESSION, text="R1 + 4"),
        LocationPiece(PieceKind.CONSTANT, 0, 16, value=1),
        LocationPiece(PieceKind.CONSTANT, value=1, per_lane=True),
        LocationPiece(PieceKind.REGISTER, register=LocationRegister(1, "%f1", machine_registers=())),
    ],
)
def test_what_is_not_in_registers_has_no_value(piece: LocationPiece) -> None:
    assert values(piece, types=(INT,)) is None


def test_what_is_too_large_or_has_no_size_is_left_out() -> None:
    for size in (MAX_BYTES + 1, 0, -1, None):
        assert values(constant(0), types=(TypeInfo("S", "structure", size),)) is None
    assert values_of(Visible((Variable("x", "T", "local", "f", False, False, None),)), WAVE) == ()


def test_registers_of_amds_waves() -> None:
    """A variable in a vector register has a value for each lane."""
    (code,) = containers.unpack((ROOT / "samples" / "amdgpu" / "bin" / "v5-gfx1100.co").read_bytes()).objects
    text = next(each for each in code.sections if each.executable)
    lanes = tuple(struct.pack("<8f", *(register + lane / 4 for register in range(8))) for lane in range(2))
    found = values_of(VariableReader(code).at(text.index, 112), WaveRegisters((0, 1), lanes))
    said = {value.name: (value.location, value.values) for value in found}
    assert said["a"] == ("v0", ("0", "0.25"))
    assert said["half_way"] == ("v1", ("1", "1.25"))

"""Expressions of call frame information: places, values, and what makes no sense."""

from __future__ import annotations

import pytest

from symd.cores.frame_expressions import (
    MAX_STEPS,
    Composite,
    FrameMemory,
    NotInDump,
    RegisterLocation,
    contents,
    evaluate,
)
from symd.errors import Malformed

CFA = FrameMemory(6, 0x100)


class Wave:
    """Registers of 8 bytes, and memory whose bytes are the low ones of their addresses."""

    def register(self, number: int) -> bytes:
        if number == 99:
            raise NotInDump("register 99")
        return bytes(number + at for at in range(8))

    def entry_register(self, number: int) -> bytes:
        return bytes((0b101, 0, 0, 0, 0, 0, 0, number))

    def memory(self, location: FrameMemory, size: int) -> bytes:
        return bytes(location.address + at & 0xFF for at in range(size))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("53", RegisterLocation(3)),
        ("9003", RegisterLocation(3)),
        ("903e", RegisterLocation(62)),
        ("35", 5),
        ("0aff7f", 0x7FFF),
        ("0bffff", (1 << 64) - 1),
        ("117f", (1 << 64) - 1),
        ("3632 24", 6 << 2),
        ("3432 1c", 2),
        ("3432 22 2305", 11),
        ("3436e902", FrameMemory(6, 4)),
        ("3436e1", FrameMemory(6, 4)),
        ("9003 9404 36 24 36 e902", FrameMemory(6, 0x06050403 << 6)),
        ("9003 e9050c", RegisterLocation(3, 12)),
        ("9003 e40c", RegisterLocation(3, 12)),
        ("e90520", FrameMemory(6, 0x120)),
        ("38 e904", FrameMemory(6, 0x108)),
        ("117c e904", FrameMemory(6, 0xFC)),
        ("7308", 0x0A09080706050403 + 8),
        ("319f 9404", 1),
        ("12 13", CFA),
        ("e90711", int.from_bytes(bytes((5, 0, 0, 0, 0, 0, 0, 17)), "little")),
    ],
)
def test_what_is_computed(expression: str, expected: object) -> None:
    assert evaluate(bytes.fromhex(expression), Wave(), CFA) == expected


@pytest.mark.parametrize(
    ("expression", "size", "expected"),
    [
        ("903e9304903f9304", 8, "3e3f40413f404142"),
        ("9003 9d2000 9003 9d2020", 8, "030405060708090a"),
        ("9003 16 e90510 e90711 9408 e90c0810", 2, "1004"),
        ("9003 16 e410 e611 9408 ec0810", 2, "1004"),
    ],
)
def test_what_pieces_hold(expression: str, size: int, expected: str) -> None:
    """The last two: of each byte memory at CFA + 16 where the mask (0b101) has its bit, else register 3."""
    found = evaluate(bytes.fromhex(expression), Wave(), CFA)
    assert isinstance(found, Composite)
    assert contents(found, size, Wave()).hex() == expected


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("ff", "not known"),
        ("e97f", "not known"),
        ("22", "too few operands"),
        ("0c00", "needed"),
        ("9003 9304 e90a 9304", "has pieces itself"),
        ("9003 9304" * 300, "too many pieces"),
        ("31" * (MAX_STEPS + 1), "come to an end"),
        ("9003 9003 30 e90c08 8008", "too many pieces"),
    ],
)
def test_what_makes_no_sense(expression: str, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        evaluate(bytes.fromhex(expression), Wave(), CFA)


def test_what_is_not_there() -> None:
    with pytest.raises(NotInDump, match="register 99"):
        evaluate(bytes.fromhex("90639404"), Wave())
    with pytest.raises(NotInDump, match="undefined"):
        evaluate(b"", Wave())
    for place in (RegisterLocation(3, 6), Composite(())):
        with pytest.raises(NotInDump, match="byte"):
            contents(place, 4, Wave())

"""Small code objects decoded many at a time are what each is by itself: real ones of all samples, and damaged ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from symd import containers
from symd.config import Limits
from symd.dwarf.small_objects import LARGEST
from symd.errors import SymdError
from symd.model.code import CodeObject
from tests.debuginfo import both_ways
from tests.debuginfo.both_ways import alone, plain, together

SAMPLES = Path(__file__).parents[2] / "samples"
LIMITS = Limits()


def check(codes: Sequence[CodeObject]) -> list[CodeObject]:
    """Asserts that both ways say the same; returns the objects that had to be read by themselves."""
    found, apart = together(codes)
    for (code, debug), (expected_code, expected) in zip(found, alone(codes), strict=True):
        assert plain(debug) == plain(expected), code.path
        assert [kernel.name for kernel in code.kernels] == [kernel.name for kernel in expected_code.kernels]
    return apart


@lru_cache(maxsize=1)
def small_objects() -> tuple[CodeObject, ...]:
    """Those of all samples."""
    found: list[CodeObject] = []
    for path in sorted(SAMPLES.rglob("bin/**/*")):
        if not path.is_file():
            continue
        try:
            found += containers.unpack(path.read_bytes(), LIMITS).objects
        except SymdError:
            continue
    return tuple(code for code in found if code.debug.has_units and debug_bytes(code) <= LARGEST)


def debug_bytes(code: CodeObject) -> int:
    return sum(section.size for section in code.sections if section.name.startswith(".debug_"))


def test_objects_of_all_compilers_are_the_same_together_and_alone():
    codes = small_objects()
    formats = {code.format for code in codes}
    apart = check(codes)
    assert len(formats) > 4
    assert len(apart) < len(codes) / 2, "most of them are decoded together"


def test_thousands_of_copies_are_decoded_together():
    codes = [code for code in small_objects() if code.format == "igc-elf"][:20]
    assert len(codes) == 20
    assert not check([codes[number % 20] for number in range(400)])


def test_files_are_counted_object_by_object(monkeypatch: pytest.MonkeyPatch):
    """Fifty copies list more directories and files together than one object may."""
    codes = small_objects()[:1] * 50
    monkeypatch.setattr(both_ways, "LIMITS", Limits(line_files=10))
    assert check(codes) == []


def test_two_damaged_objects_keep_few_others_from_being_decoded_together():
    codes = [code for code in small_objects() if code.format == "igc-elf"][:20] * 10
    for number in (33, 120):
        codes[number] = without_end(codes[number])
    apart = check(codes)
    assert {id(codes[33]), id(codes[120])} <= {id(code) for code in apart}
    assert len(apart) < 20


def without_end(code: CodeObject) -> CodeObject:
    """Its line program ends inside an instruction."""
    number = next(n for n, section in enumerate(code.sections) if section.name == ".debug_line")
    section = code.sections[number]
    content = section.data[:-3] + b"\x00\x05\x01"
    return replace(
        code, sections=(*code.sections[:number], replace(section, content=content), *code.sections[number + 1 :])
    )


def test_many_damaged_objects_are_read_one_by_one():
    codes = [without_end(code) for code in small_objects() if code.format == "igc-elf"][:20] * 4
    assert check(codes) == codes


def test_a_few_objects_are_read_one_by_one():
    codes = small_objects()[:3]
    assert together(codes)[1] == list(codes)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_objects_are_the_same_together_and_alone(seed: int):
    """Of eight objects a few are damaged, each in a byte or in a length."""
    chance = random.Random(seed)
    codes = [chance.choice(small_objects()) for _ in range(8)]
    for number in chance.sample(range(8), chance.randint(1, 3)):
        codes[number] = damaged(codes[number], chance)
    check(codes)


def damaged(code: CodeObject, chance: random.Random) -> CodeObject:
    """One of its debug sections changed in a byte, cut off or lengthened."""
    number = chance.choice([n for n, s in enumerate(code.sections) if s.name.startswith(".debug_") and s.data])
    section = code.sections[number]
    data = bytearray(section.data)
    match chance.randrange(5):
        case 0:
            del data[chance.randrange(len(data)) :]
        case 1:
            data += chance.randbytes(chance.randrange(1, 40))
        case _:
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    changed = replace(section, content=bytes(data), size=len(data))
    return replace(code, sections=(*code.sections[:number], changed, *code.sections[number + 1 :]))

"""Small relocation tables are applied entry by entry: the same as by NumPy, on real objects and on changed tables."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from symd.debuginfo.layout import assign
from symd.debuginfo.relocation import amdgpu, igc, relocated
from symd.elf.constants import SHT_RELA
from symd.errors import SymdError
from symd.model.code import CodeObject, RelocationScheme
from tests.debuginfo.test_small_objects import small_objects

SCHEMES = (RelocationScheme.AMDGPU, RelocationScheme.IGC, RelocationScheme.IGC_DUMP)


def objects() -> list[CodeObject]:
    return [code for code in small_objects() if code.relocation in SCHEMES]


def outcome(code: CodeObject) -> list[bytes] | str:
    try:
        sections = relocated(code, assign(code))
    except SymdError as error:
        return str(error)
    return [section.data for section in sections.every()]


@pytest.fixture
def by_numpy(monkeypatch: pytest.MonkeyPatch) -> Callable[[CodeObject], list[bytes] | str]:
    def relocate(code: CodeObject) -> list[bytes] | str:
        with monkeypatch.context() as changed:
            changed.setattr(amdgpu, "_FEW_ENTRIES", -1)
            changed.setattr(igc, "_few_applied", lambda *_: False)
            return outcome(code)

    return relocate


def test_real_objects_are_the_same_both_ways(by_numpy: Callable[[CodeObject], list[bytes] | str]):
    codes = objects()
    assert {code.relocation for code in codes} == set(SCHEMES)
    for code in codes:
        assert outcome(code) == by_numpy(code), code.path


def test_small_objects_are_applied_entry_by_entry(monkeypatch: pytest.MonkeyPatch):
    def unexpected(*_: object) -> None:
        raise AssertionError("a table was applied by NumPy")

    monkeypatch.setattr(amdgpu, "_relocated", unexpected)
    small = [code for code in objects() if code.relocation is RelocationScheme.AMDGPU and entries(code) < 100]
    assert small
    for code in small:
        assert isinstance(outcome(code), list)


def entries(code: CodeObject) -> int:
    return sum(len(section.data) // 24 for section in code.sections if section.type == SHT_RELA)


def test_changed_tables_are_the_same_both_ways(by_numpy: Callable[[CodeObject], list[bytes] | str]):
    chance = random.Random(11)
    codes, refused = objects(), 0
    for _ in range(400):
        code = changed(chance.choice(codes), chance)
        found = outcome(code)
        refused += isinstance(found, str)
        assert found == by_numpy(code), code.path
    assert refused > 20


def changed(code: CodeObject, chance: random.Random) -> CodeObject:
    """One byte or one entry of one of its relocation tables is another, or the table is cut off."""
    tables = [number for number, section in enumerate(code.sections) if section.type == SHT_RELA and section.data]
    if not tables:
        return code
    number = chance.choice(tables)
    data = bytearray(code.sections[number].data)
    at = chance.randrange(len(data) // 24) * 24
    match chance.randrange(4):
        case 0:
            data[at : at + 8] = chance.randrange(1 << chance.choice((8, 16, 64))).to_bytes(8, "little")
        case 1:
            data[at + 8 : at + 16] = (chance.randrange(40) << 32 | chance.randrange(12)).to_bytes(8, "little")
        case 2:
            data[at : at + 8] = data[0:8]
        case _:
            del data[chance.randrange(len(data)) :]
    section = replace(code.sections[number], content=bytes(data), size=len(data))
    return replace(code, sections=(*code.sections[:number], section, *code.sections[number + 1 :]))

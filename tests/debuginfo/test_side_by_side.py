"""Small code objects are decoded together, into columns that they share: of each the same comes out as of itself alone, whatever is beside it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from symd.config import Limits
from symd.debuginfo import reading
from symd.errors import SymdError
from symd.formats.containers import unpack
from symd.model.code import CodeObject
from symd.model.debug_info import DebugInfo
from tests.core.plain_values import plain

SAMPLES = Path(__file__).parents[2] / "samples"
SMALL = 1 << 16
TOGETHER = 32


def _small_objects() -> list[CodeObject]:
    """Two small objects of each file that has some: every vendor, version of DWARF and way to relocate."""
    found = []
    for path in sorted(SAMPLES.glob("*/bin/**/*")):
        if path.is_file():
            try:
                objects = unpack(path.read_bytes()).objects
            except SymdError:
                continue
            found += [code for code in objects if len(code.data) <= SMALL][:2]
    return found


OBJECTS = _small_objects()


def _damaged(code: CodeObject, dice: random.Random) -> CodeObject:
    """The object with other bytes in a debug section."""
    at = dice.choice([number for number, each in enumerate(code.sections) if each.name.startswith(".debug_")])
    section, data = code.sections[at], bytearray(code.sections[at].data)
    for _ in range(dice.randint(1, 8)):
        if data:
            data[dice.randrange(len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
    return code._replace(sections=(*code.sections[:at], section.changed(content=bytes(data)), *code.sections[at + 1 :]))


def _found(objects: Sequence[CodeObject]) -> list[object]:
    return [(code.kernels, plain(debug)) for code, debug in reading.read_each(objects, Limits())]


def _alone(objects: Sequence[CodeObject]) -> list[object]:
    return [found for code in objects for found in _found([code])]


@pytest.mark.parametrize("seed", range(4))
def test_objects_of_any_kind_side_by_side_are_what_each_is_alone(seed: int) -> None:
    chosen = random.Random(seed).sample(OBJECTS, 3 * TOGETHER)
    assert _found(chosen) == _alone(chosen)


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_object_changes_nothing_of_those_beside_it(seed: int) -> None:
    dice = random.Random(seed)
    chosen = dice.sample([code for code in OBJECTS if code.debug.has_units], TOGETHER)
    for number in dice.sample(range(TOGETHER), dice.choice((1, 2, TOGETHER))):
        chosen[number] = _damaged(chosen[number], dice)
    assert _found(chosen) == _alone(chosen)


def test_these_objects_share_columns_and_are_of_every_kind() -> None:
    assert len({(code.format, code.debug, code.relocation) for code in OBJECTS}) > 12
    chosen = [code for code in OBJECTS if code.debug.has_units][:TOGETHER]
    every = [debug for _, debug in reading.read_each(chosen, Limits()) if isinstance(debug, DebugInfo)]
    assert len(every) == TOGETHER
    assert len({id(debug.rows.line.base) for debug in every}) == 1

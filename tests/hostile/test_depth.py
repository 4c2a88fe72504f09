"""Scopes inside each other beyond measure: a frame for each, at one address, in a file of a few kilobytes."""

from __future__ import annotations

import struct
import zlib
from functools import partial

import numpy as np
import pytest

from symd.config import DEFAULT_LIMITS
from symd.debuginfo.reading import deeper_than
from symd.formats import budget, containers
from symd.index import Index
from symd.index.module import build_index
from symd.index.partial import FileIndex
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.debug_info import NO_PARENT, Scopes
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary
from symd.query.symbolize import symbolize
from tests.builders.elf import AX, COMPRESSED, Section, Symbol, build_elf
from tests.builders.leb128 import uleb
from tests.query.asked import variables, visible_in

EM_AMDGPU, ELFOSABI_AMDGPU_HSA, ET_DYN = 224, 64, 3
TEXT = 0x1000
UNIT, FUNCTION, INLINED = b"\x01", b"\x02", b"\x03"
ABBREVIATIONS = (
    uleb(1) + b"\x11\x01\0\0"  # DW_TAG_compile_unit, with children
    + uleb(2) + b"\x2e\x01\x03\x08\x11\x01\x12\x06\0\0"  # DW_TAG_subprogram: name, low_pc, high_pc
    + uleb(3) + b"\x1d\x01\x31\x13\x11\x01\x12\x06\x59\x0b\0\0"  # DW_TAG_inlined_subroutine: origin, low_pc, high_pc, call_line
    + b"\0"
)  # fmt: skip


def nested(calls: int) -> bytes:
    """A code object whose one function has so many inlined calls inside each other, all at its first bytes."""
    span = struct.pack("<QI", TEXT, 64)
    function = FUNCTION + b"deep\0" + span
    origin = 11 + 1  # the function itself: its offset in the unit
    tree = UNIT + function + (INLINED + struct.pack("<I", origin) + span + b"\x07") * calls + b"\0" * (calls + 2)
    unit = b"\x04\0" + bytes(4) + b"\x08" + tree
    info = struct.pack("<I", len(unit)) + unit
    header = struct.pack("<IIQQ", 1, 0, len(info), 1)  # Elf64_Chdr: ELFCOMPRESS_ZLIB
    sections = [
        Section(".text", flags=AX, address=TEXT, data=bytes(64)),
        Section(".debug_info", flags=COMPRESSED, data=header + zlib.compress(info, 9)),
        Section(".debug_abbrev", data=ABBREVIATIONS),
    ]
    symbols = [Symbol("deep", value=TEXT, size=64, section=".text")]
    return build_elf(machine=EM_AMDGPU, osabi=ELFOSABI_AMDGPU_HSA, type=ET_DYN, sections=sections, symbols=symbols)


def frames(index: Index) -> int:
    [answer] = symbolize(index, [ByAddress(ObjectAddress(TEXT + 4))])
    return len(answer.frames)


@pytest.fixture(autouse=True)
def _no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "EXPANSION_RATIO", 10_000)


@pytest.mark.parametrize("calls", [0, 1, 998, 999])
def test_as_many_frames_as_are_allowed_are_given(calls: int) -> None:
    assert frames(Index(build_index(nested(calls), DEFAULT_LIMITS))) == calls + 1


@pytest.mark.parametrize(("calls", "said"), [(1000, "more than 1000 functions"), (500_000, "work_ratio = 12")])
def test_more_are_not_read_and_the_note_says_how_many_are(calls: int, said: str) -> None:
    data = nested(calls)
    assert len(data) < 60_000
    index = Index(build_index(data, DEFAULT_LIMITS))
    assert index.size < 20_000
    [note] = index.summary.objects[0].notes
    assert said in note
    assert frames(index) <= 1


def test_one_question_about_one_file_meets_the_same_bound() -> None:
    unpacked = containers.unpack(nested(5000))
    index = FileIndex(unpacked.objects, ModuleSummary(Digest(""), 0, ""), DEFAULT_LIMITS)
    assert frames(index.for_queries([ByAddress(ObjectAddress(TEXT + 4))])) <= 1


def test_its_variables_are_answered_in_bounded_depth() -> None:
    data = nested(500_000)
    index = Index(build_index(data, DEFAULT_LIMITS))
    found = variables(index, ByAddress(ObjectAddress(TEXT + 4)), partial(visible_in, containers.unpack(data).objects))
    assert found.visible.variables == ()


def chain(parents: list[int]) -> Scopes:
    empty = Scopes.empty()
    names = np.zeros(len(parents), np.uint32)
    return Scopes(
        np.array(parents, np.uint32), names, names, names.astype(np.uint8), names, names, names,
        empty.range_scope, empty.range_section, empty.range_offset, empty.range_end,
    )  # fmt: skip


def test_depth_is_what_counting_says() -> None:
    chance = np.random.default_rng(5)
    for _ in range(200):
        parents = [
            NO_PARENT if chance.random() < 0.1 or not number else int(chance.integers(max(number - 4, 0), number))
            for number in range(int(chance.integers(2, 60)))
        ]
        depths: list[int] = []
        for parent in parents:
            depths.append(0 if parent == NO_PARENT else depths[parent] + 1)
        for limit in range(1, 40):
            assert deeper_than(chain(parents).parent, limit) == (max(depths) >= limit)

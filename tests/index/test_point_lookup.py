"""One address has the answer that it has in a column, on every kind of sample."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.config import Limits
from symd.index import Index
from symd.index.format import decode, encode
from symd.index.module import build_index
from symd.index.point_lookup import (
    ANSWER_PAGE_SHIFT,
    ENTRIES,
    KEPT_ANSWERS,
    LEAST_KEPT_TEXT,
    SHARED_NAME_LENGTH,
    SHARED_NAMES,
    PointLookup,
    shared_name,
)
from symd.index.schema import SCHEMA, Columns
from symd.index.starts import encode_starts
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress
from symd.model.answers import Frame, Reason
from symd.query.symbolize import symbolize, symbolize_column, symbolize_one

numbers = st.integers(0, 2**45)
starts = st.one_of(st.sets(st.integers(0, 3000), min_size=1), st.sets(numbers, min_size=1)).map(sorted)


class Lines:
    """Ranges of one frame, each with its own number as its line."""

    ranges = property(lambda self: self)

    def one(self, number: int) -> tuple[int, int, int, int]:
        return 0, number, 0, Reason.EXACT


def point_lookup(positions: list[int]) -> PointLookup:
    """Of ranges that start there, of a function without a name in the file "f"."""
    columns = {name: np.zeros(1, np.uint8) for name in SCHEMA} | {
        "frame_file": np.array([1], np.uint8),
        "string_ends": np.array([0, 1], np.uint8),
        "string_data": np.frombuffer(b"f", np.uint8),
        **encode_starts([np.array(positions, np.uint64)]),
    }
    return PointLookup(Columns(decode(encode(columns))), Lines())  # type: ignore[arg-type] # what is asked of it


@given(starts, st.lists(numbers, max_size=30))
def test_a_position_is_found_as_a_search_would(positions: list[int], asked: list[int]) -> None:
    found = point_lookup(positions)
    for position in [*positions, *(start + 1 for start in positions), *asked]:
        expected = max(bisect_right(positions, position) - 1, 0)
        assert found.at(position) == (Reason.EXACT, None, (Frame(None, None, "f", expected, 0, False),))


def name(length: int, number: int = 0) -> str:
    """Made anew each time."""
    return f"{number:x}".rjust(length, "k")


def test_a_name_is_one_object_for_all_modules_until_many_others_came() -> None:
    first = shared_name(name(SHARED_NAME_LENGTH))
    assert shared_name(name(SHARED_NAME_LENGTH)) is first
    for number in range(1, SHARED_NAMES + 1):
        shared_name(name(SHARED_NAME_LENGTH, number))
    assert shared_name(name(SHARED_NAME_LENGTH)) is not first


def test_a_long_name_is_kept_by_nobody() -> None:
    length = SHARED_NAME_LENGTH + 1
    assert shared_name(name(length)) is not shared_name(name(length))
    assert (shared_name(""), shared_name(None)) == ("", None)


def test_a_bounded_number_of_answers_is_kept() -> None:
    found = point_lookup(list(range(0, 40_000, 4)))
    assert [found.at(at)[2][0].line for at in range(0, 40_000, 2)] == [at // 2 for at in range(20_000)]
    assert found.at(8)[2] is found.at(11)[2]
    kept = [answer for page in found.pages.values() for answer in page[ENTRIES + 2 :: ENTRIES]]
    assert 0 < len(set(map(id, kept))) <= KEPT_ANSWERS


def test_a_range_of_many_pages_has_one_answer_and_few_pages_are_kept() -> None:
    found = point_lookup([0, 4, 10_000_000])
    assert found.at(8)[2] is found.at(2_000)[2]
    for position in range(8, 10_000_000, 4_000):
        found.at(position)
        assert len(found.pages) <= KEPT_ANSWERS


@given(starts, st.integers(0, 3200))
def test_all_of_a_range_that_lies_in_a_page_has_its_answer_at_once(positions: list[int], other: int) -> None:
    for position in (max(other, positions[0]), positions[-1], positions[0] + 1):
        found = point_lookup(positions)
        answer = found.at(position)
        ((page, kept_page),) = found.pages.items()
        assert kept_page[:2] == (None, page)
        answers = [kept_page[entry * ENTRIES + 2] if entry else None for entry in kept_page[2]]
        firsts = [(page << ANSWER_PAGE_SHIFT) + slot << found.shift for slot in range(1 << ANSWER_PAGE_SHIFT)]
        alike = [max(bisect_right(positions, first) - 1, 0) == answer[2][0].line for first in firsts]
        assert all(kept is answer[2] for kept in answers if kept)
        assert [kept is not None for first, kept in zip(firsts, answers, strict=True) if first >= positions[0]] == [
            same for first, same in zip(firsts, alike, strict=True) if first >= positions[0]
        ]


SAMPLES = Path(__file__).parents[2] / "samples"


ENDINGS = {".co", ".cubin", ".dbg", ".fatbin", ".spv", ".zebin"}


def _files(kind: str) -> list[Path]:
    return sorted(path for path in (SAMPLES / kind / "bin").rglob("*") if path.suffix in ENDINGS)


SOME = sorted(
    path for kind in ("amdgpu", "cuda", "spirv", "kernels") for path in _files(kind)[:12]
    if path.is_file()
)  # fmt: skip


def test_there_are_samples_of_every_kind() -> None:
    assert {path.relative_to(SAMPLES).parts[0] for path in SOME} == {"amdgpu", "cuda", "spirv", "kernels"}


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_one_by_one_few_and_many_agree(path: Path) -> None:
    index = Index(build_index(path.read_bytes(), Limits()))
    for name, entries in list(index.kernels.items())[:4]:
        offsets = np.arange(0, entries[0].size + 8, 4, dtype=np.uint64)
        many = list(symbolize_column(index, np.tile(offsets, 8), kernel=name))[: len(offsets)]
        queries = [ByKernel(name, KernelOffset(int(offset))) for offset in offsets]
        assert [symbolize_one(index, query) for query in queries] == many
        assert [symbolize(index, [query])[0] for query in queries[:16]] == many[:16]
    for place in index.sections[:4]:
        address = ByAddress(ObjectAddress(place.address + 4))
        assert symbolize_one(index, address) == symbolize(index, [address])[0]


@pytest.mark.parametrize(("text", "most"), [(100, 158), (LEAST_KEPT_TEXT // 2, 1), (LEAST_KEPT_TEXT, 0)])
def test_answers_of_long_texts_are_not_all_kept(monkeypatch: pytest.MonkeyPatch, text: int, most: int) -> None:
    """Whoever made the module says how long a name is, and every range in the code of a function has it."""

    def answer(_lookup: PointLookup, number: int) -> tuple[Reason, None, tuple[Frame, ...]]:
        return Reason.EXACT, None, (Frame(f"{number:0{text}}", None, "f", number, 0, False),)

    monkeypatch.setattr(PointLookup, "_answer", answer)
    found = point_lookup(list(range(0, 4_000, 4)))
    for number in range(1000):
        assert found.at(4 * number)[2][0].line == number
        kept = {part for page in found.pages.values() for part in page[ENTRIES + 2 :: ENTRIES]}
        assert bool(most) <= len(kept) <= most

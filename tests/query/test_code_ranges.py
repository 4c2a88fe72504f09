"""How far answers hold: rows are those of llvm-dwarfdump's line table, cut by hand, and the bytes and the declarations of functions and of inlined
calls those of its DIE tree; asked again as parts of the code, ranges are the same instructions and rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from symd.engine.engine import Engine
from symd.errors import InvalidInput, LimitExceeded
from symd.model.addresses import ByAddress, BySection, ObjectAddress, SectionOffset, SectionRange
from symd.model.answers import Answer, CodeRanges, Reason
from symd.query.code_spans import RANGED_ANSWERS
from symd.rpc.wire.queries import from_request
from symd.store import Store
from symd.v1.query_pb2 import PackedQueries, Query
from symd.v1.symbol_service_pb2 import ANSWER_FORM_PACKED, ANSWER_FORM_ROWS, SymbolizeRequest
from tests.agreement.dwarfdump_dies import Die, Tree
from tests.agreement.llvm import Row, line_tables
from tests.query.disasm.objects import SAMPLES

FILES = {
    "amd": SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co",
    "amd inlined": SAMPLES / "amdgpu" / "bin" / "nested-14.co",
    "amd O0": SAMPLES / "amdgpu" / "bin" / "nested-14-O0.co",
    "intel": SAMPLES / "kernels" / "bin" / "raycast" / "driver-ocl-igc2-dg2-opt.debug-zebin",  # relocated by the driver
}
FUNCTIONS = ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(Store(tmp_path_factory.mktemp("ranges") / "store")) as made:
        yield made


class Span(NamedTuple):
    """Addresses of a row, or of a function."""

    start: int
    end: int


def row_at(tables: list[list[Row]], tree: Tree, address: int) -> Span | None:
    """Of the rows that cover an address the last, without what lies outside the function at the address."""
    found = None
    for table in tables:
        for row, behind in pairwise(table):
            if "end_sequence" not in row.flags and row.address <= address < behind.address:
                found = Span(row.address, behind.address)
    of_functions = joined([each for die in tree.functions() for each in die.ranges()])
    inside = [each for each in of_functions if each.start <= address < each.end]
    return Span(max(found.start, inside[0].start), min(found.end, inside[0].end)) if found and inside else None


@cache
def tree_of(path: Path) -> Tree:
    return Tree(path)


def functions_at(tree: Tree, address: int) -> list[Die]:
    """Functions and inlined calls around an address, innermost first."""
    holding = [
        die
        for die in tree.dies.values()
        if die.tag in FUNCTIONS and any(low <= address < high for low, high in die.ranges())
    ]
    return sorted(holding, key=depth, reverse=True)


def depth(die: Die) -> int:
    return 0 if die.parent is None else 1 + depth(die.parent)


def joined(ranges: list[tuple[int, int]]) -> list[Span]:
    """Ranges in order, those that touch each other as one."""
    found: list[Span] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(end, found[-1].end))
        else:
            found.append(Span(start, end))
    return found


def declaration(tree: Tree, die: Die) -> tuple[str | None, int | None]:
    for each in tree.origins(die):
        if "DW_AT_decl_line" in each.attributes:
            return each.quoted("DW_AT_decl_file"), int(each.attributes["DW_AT_decl_line"].rstrip(")"))
    return None, None


def spans(answer: Answer, ranges: tuple[SectionRange, ...]) -> list[Span]:
    """As object addresses."""
    base = (answer.address or 0) - (answer.section_offset or 0)
    assert all(each.section == answer.section_index for each in ranges)
    return [Span(base + each.start, base + each.end) for each in ranges]


def everywhere(engine: Engine, digest: str, path: Path) -> Iterator[Answer]:
    """The answers at addresses of each function, its first and its last byte among them."""
    starts = {
        low + at
        for die in tree_of(path).functions()
        for low, high in die.ranges()
        for at in (*range(0, high - low, 20), high - low - 1)
    }
    addresses = sorted(starts)
    for first in range(0, len(addresses), RANGED_ANSWERS):
        asked = [ByAddress(ObjectAddress(each)) for each in addresses[first : first + RANGED_ANSWERS]]
        yield from engine.symbolize(digest, asked, with_ranges=True)


@pytest.mark.parametrize("name", FILES)
def test_the_row_of_an_answer_is_the_one_that_dwarfdump_prints(engine: Engine, tmp_path: Path, name: str) -> None:
    path = FILES[name]
    digest, tables = engine.add(path.read_bytes()).sha256, line_tables(path.read_bytes(), tmp_path)
    tree, seen = tree_of(path), set()
    for answer in everywhere(engine, digest, path):
        assert answer.ranges
        found = spans(answer, (answer.ranges.row,)) if answer.ranges.row else [None]
        assert found == [row_at(tables, tree, answer.address)], answer
        seen.update(found)
    assert len(seen) > 10


def test_a_row_ends_with_the_bytes_of_its_function_and_padding_has_none(engine: Engine) -> None:
    """v4-gfx900.co has one sequence: the last rows of march and of shade reach over the padding behind their 76 and
    180 bytes, to the first instruction of the next function."""
    digest = engine.add(FILES["amd"].read_bytes()).sha256
    asked = [ByAddress(ObjectAddress(each)) for each in (0x1848, 0x18F0, 0x19B0, 0x19B4, 0x1A04)]
    march, padding, shade, behind, clear = engine.symbolize(digest, asked, with_ranges=True)
    assert spans(march, (march.ranges.row,)) == [Span(0x1848, 0x1800 + 76)]
    assert spans(shade, (shade.ranges.row,)) == [Span(0x19B0, 0x1900 + 180)]
    assert [(each.reason, each.ranges.row) for each in (padding, behind)] == [(Reason.GAP, None)] * 2
    assert clear.reason is Reason.NO_LINE  # its row has line 0, and no earlier one of the function has another
    assert spans(clear, (clear.ranges.row,)) == [Span(0x1A00, 0x1A08)]


@pytest.mark.parametrize("name", FILES)
def test_the_code_of_each_frame_is_that_of_its_function_in_the_debug_data(engine: Engine, name: str) -> None:
    path = FILES[name]
    digest, tree = engine.add(path.read_bytes()).sha256, tree_of(path)
    depths = set()
    for answer in everywhere(engine, digest, path):
        assert answer.ranges
        if answer.reason in (Reason.INFERRED, Reason.CONTRADICTORY):
            continue
        around = functions_at(tree, answer.address)
        assert len(answer.ranges.frames) == len(answer.frames) == len(around), (answer, around)
        for frame, code, die in zip(answer.frames, answer.ranges.frames, around, strict=True):
            assert frame.inlined == (die.tag == "DW_TAG_inlined_subroutine")
            assert spans(answer, code.code) == joined(die.ranges())
            file, line = declaration(tree, die)
            assert (code.declared_file, frame.start_line or None) == (file, line)
        depths.add(len(around))
    assert depths >= ({1, 2} if name != "amd O0" else {1})


def test_what_is_no_place_in_text_has_no_ranges(engine: Engine) -> None:
    digest = engine.add(FILES["amd"].read_bytes()).sha256
    asked = [ByAddress(ObjectAddress(0)), BySection(".nothing", SectionOffset(0))]
    found = [
        *engine.symbolize(digest, asked, with_ranges=True),
        engine.symbolize_one(digest, "nobody", with_ranges=True),
    ]
    assert [each.ranges for each in found] == [None] * 3


def test_without_the_wish_no_answer_has_ranges(engine: Engine) -> None:
    digest = engine.add(FILES["amd"].read_bytes()).sha256
    assert engine.symbolize_one(digest, "shade+0x98").ranges is None
    assert engine.symbolize(digest, ["shade+0x98"] * 9)[3].ranges is None
    assert engine.symbolize_one(digest, "shade+0x98", with_ranges=True).ranges


def test_code_without_a_line_table_has_its_functions_alone(engine: Engine) -> None:
    """saxpy.sm_90.none.cubin has symbols and no debug data."""
    path = SAMPLES / "cuda" / "bin" / "saxpy.sm_90.none.cubin"
    module = engine.add(path.read_bytes())
    answer = engine.symbolize_one(module.sha256, f"{module.objects[0].kernels[0].name}+0x10", with_ranges=True)
    assert answer.reason is Reason.NO_DEBUG_INFO
    assert answer.ranges == CodeRanges(None, answer.ranges.frames)


def test_a_part_of_a_larger_batch_is_told_with_ranges_only_up_to_a_limit(engine: Engine) -> None:
    digest = engine.add(FILES["amd"].read_bytes()).sha256
    with pytest.raises(LimitExceeded, match="4097 addresses"):
        engine.symbolize(digest, range(RANGED_ANSWERS + 1), with_ranges=True)


def test_columns_have_no_ranges() -> None:
    name = "modules/" + "0" * 64
    for request in (
        SymbolizeRequest(module=name, packed_queries=PackedQueries(count=1), with_ranges=True),
        SymbolizeRequest(module=name, queries=[Query(address=1)], form=ANSWER_FORM_PACKED, with_ranges=True),
    ):
        with pytest.raises(InvalidInput, match="packed answers say no ranges"):
            from_request(request, 10)
    rows = SymbolizeRequest(module=name, packed_queries=PackedQueries(count=1), form=ANSWER_FORM_ROWS, with_ranges=True)
    assert from_request(rows, 10).with_ranges

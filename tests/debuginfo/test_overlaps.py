"""Functions and inlined calls whose ranges overlap in every way: an index says whose an address is as llvm-symbolizer does,
and so do the scopes of variables wherever it is anybody's."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import pytest

from symd.config import Limits
from symd.debuginfo.text_ranges import _MAX_MOVED, disjoint_pieces
from symd.debuginfo.variables.visible import VariableReader
from symd.formats import containers
from symd.index import Index
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ObjectAddress
from symd.query.symbolize import symbolize
from tests import tools
from tests.builders.amdgpu_bundle import text_alone
from tests.builders.dwarf import At, Die, Ranges, Ref, Unit, build_dwarf

BASE, SIZE = 0x1000, 24
SYMBOLIZERS = ("llvm-symbolizer-14", "llvm-symbolizer-19", "llvm-symbolizer-22")


class Tree:
    """A generated unit: each function and inlined call has a name of its own, and a variable of that name."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.count = 0
        self.origins: list[Die] = []
        functions = [self.scope(0) for _ in range(dice.randint(1, 4))]
        self.root = Die("compile_unit", [At("name", "string", "k.c"), *span(0, SIZE)], [*self.origins, *functions])

    def scope(self, depth: int) -> Die:
        name = f"f{self.count}"
        self.count += 1
        children = [
            variable(name),
            *(self.scope(depth + 1) for _ in range(self.dice.choice((0, 0, 1, 2)) if depth < 3 else 0)),
        ]
        if depth == 0:
            return Die("subprogram", [At("name", "string", name), *self.where()], children)
        self.origins.append(Die("subprogram", [At("name", "string", name), At("inline", "data1", 1)], label=name))
        return Die("inlined_subroutine", [At("abstract_origin", "ref4", Ref(name)), *self.where()], children)

    def where(self) -> list[At]:
        """One range, sometimes an empty one, or two."""
        first, second = (sorted(self.dice.choices(range(SIZE + 1), k=2)) for _ in range(2))
        if self.dice.random() < 0.75 or first[0] == first[1] or second[0] == second[1]:
            return span(*first)
        entries = [("start_end", BASE + start, BASE + end) for start, end in (first, second)]
        return [At("ranges", "sec_offset", Ranges(tuple(entries)))]


def span(first: int, after: int) -> list[At]:
    return [At("low_pc", "addr", BASE + first), At("high_pc", "data4", after - first)]


def variable(name: str) -> Die:
    return Die("variable", [At("name", "string", name), At("location", "exprloc", b"\x55")])


def image(root: Die) -> bytes:
    """An AMD code object with that unit."""
    debug = build_dwarf([Unit(root, version=4)]).sections
    return text_alone(BASE, SIZE, debug)


def said_by_llvm(tool: str, path: Path) -> list[list[str]]:
    """For each byte of text the functions, innermost first."""
    asked = [f"{BASE + at:#x}" for at in range(SIZE)]
    found = json.loads(tools.output(tool, f"--obj={path}", "--inlines", "--no-demangle", "--output-style=JSON", *asked))
    return [[frame["FunctionName"] for frame in each["Symbol"] if frame["FunctionName"]] for each in found]


def said_by_index(data: bytes) -> list[list[str | None]]:
    queries = [ByAddress(ObjectAddress(BASE + at)) for at in range(SIZE)]
    answers = symbolize(Index(build_index(data, Limits())), queries)
    return [[frame.function for frame in answer.frames] for answer in answers]


def said_by_variables(data: bytes) -> list[list[str]]:
    [code] = containers.unpack(data, Limits()).objects
    text = next(section.index for section in code.sections if section.name == ".text")
    return [[each.name for each in VariableReader(code).at(text, at).variables] for at in range(SIZE)]


@cache
def generated(seed: int) -> tuple[bytes, list[list[str | None]], list[list[str]]]:
    """(a code object, whose its bytes are by its index, and by its variables)."""
    data = image(Tree(random.Random(seed)).root)
    return data, said_by_index(data), said_by_variables(data)


@pytest.mark.parametrize("name", SYMBOLIZERS)
def test_generated_overlaps_are_decided_as_llvm_symbolizer_decides(name: str, tmp_path: Path) -> None:
    tool, path = tools.require(name), tmp_path / "overlaps.co"
    contradictions = 0
    for seed in range(60):
        data, by_index, by_variables = generated(seed)
        path.write_bytes(data)
        expected = said_by_llvm(tool, path)
        assert by_index == expected, f"seed {seed}"
        whose = [at for at, names in enumerate(expected) if names]
        assert [by_variables[at] for at in whose] == [expected[at] for at in whose], f"seed {seed}"
        contradictions += any(not each for each in expected)
    assert contradictions > 10, "the generated ranges leave nothing to decide"


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(5, 6, "A"), (0, 10, "B")], "BBBBBA...."),
        ([(0, 10, "B"), (5, 6, "A")], "BBBBBABBBB"),
        ([(0, 10, "A"), (5, 8, "B"), (7, 9, "C")], "AAAAABBCAA"),
        ([(0, 4, "A"), (0, 10, "B")], "BBBBBBBBBB"),
        ([(0, 10, "A"), (0, 4, "B")], "BBBBAAAAAA"),
        ([(2, 6, "A"), (2, 6, "B")], "..BBBB...."),
    ],
)  # fmt: skip
def test_the_rule_by_example(ranges: list[tuple[int, int, str]], expected: str) -> None:
    found = ["."] * 10
    for start, end, owner in disjoint_pieces((start, end, ord(owner)) for start, end, owner in ranges):
        found[start:end] = chr(owner) * (end - start)
    assert "".join(found) == expected


def test_many_pieces_are_found_as_few_are() -> None:
    """Their beginnings stand in several lists."""
    count = 3 * _MAX_MOVED
    ranges = [(start, 2 * count - start, start) for start in range(count)]
    pieces = [*disjoint_pieces(ranges)]
    assert pieces[:count] == [(start, start + 1, start) for start in range(count - 1)] + [
        (count - 1, count + 1, count - 1)
    ]
    assert pieces[count:] == [(start, start + 1, 2 * count - start - 1) for start in range(count + 1, 2 * count)]

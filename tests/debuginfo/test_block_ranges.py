"""Code of blocks and variables outside their functions, against what the trees were made with; the core compiled and as its source stands."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import BlocksOf, outside_of_functions, read_units
from symd.debuginfo.variables.location_lists import listed_ranges
from symd.errors import Malformed
from tests.builders.dwarf import At, Base, Die, Locations, Ranges, Unit, build_dwarf
from tests.core.uncompiled import without_compiled_core

BASE = 0x10000
"""DW_AT_low_pc of the unit, from which entries of lists count."""
Span = tuple[int, int]


@pytest.fixture(autouse=True, params=["compiled", "uncompiled"])
def way(request):
    """The core, compiled or not."""
    with without_compiled_core() if request.param == "uncompiled" else nullcontext():
        yield


class _Maker:
    """A random unit, and the addresses that lie outside of its functions."""

    def __init__(self, seed: int) -> None:
        self.chance, self.version = random.Random(seed), (3, 4, 4, 5)[seed % 4]
        self.expected: list[Span] = []

    def unit(self) -> Unit:
        bases = [At("loclists_base", "sec_offset", Base("loclists"))] if self.version >= 5 else []
        functions = [self.function() for _ in range(3)]
        return Unit(Die("compile_unit", [At("low_pc", "addr", BASE), *bases], functions), self.version)

    def spans(self, most: int) -> list[Span]:
        starts = [self.chance.randrange(1, 64) for _ in range(self.chance.randint(0, most))]
        return [(start, start + self.chance.choice((0, 1, 8, 30))) for start in starts]

    def code(self) -> tuple[list[At], list[Span]]:
        spans = [(BASE + first, BASE + last) for first, last in self.spans(3)]
        if len(spans) == 1 and self.version >= 4:
            (first, last), *_ = spans
            return [At("low_pc", "addr", first), At("high_pc", "data4", last - first)], spans
        listed = tuple(("start_end", *self.as_stated(span)) for span in spans)
        return [At("ranges", "sec_offset" if self.version >= 4 else "data4", Ranges(listed))], spans

    def as_stated(self, span: Span) -> Span:
        """Lists before DWARF 5 count from the unit's base."""
        return span if self.version >= 5 else (span[0] - BASE, span[1] - BASE)

    def function(self) -> Die:
        attributes, spans = self.code()
        spans = [span for span in spans if span[0] < span[1]]
        own = (min(first for first, _ in spans), max(last for _, last in spans)) if spans else (0, 0)
        return Die("subprogram", attributes, [*self.inside(own, 2)])

    def inside(self, own: Span | None, depth: int) -> Iterator[Die]:
        """What stands in a function, or in something else that nobody asks about."""
        for _ in range(self.chance.randint(0, 4)):
            if depth and self.chance.random() < 0.5:
                attributes, spans = self.code()
                is_block = self.chance.random() < 0.7
                self.tell(own if is_block else None, spans)
                tag = "lexical_block" if is_block else "inlined_subroutine"
                yield Die(tag, attributes, [*self.inside(own if is_block else None, depth - 1)])
            else:
                yield self.variable(own)

    def variable(self, own: Span | None) -> Die:
        tag = self.chance.choice(("variable", "formal_parameter", "label"))
        if self.chance.random() < 0.2:
            return Die(tag, [At("location", "exprloc" if self.version >= 4 else "block1", b"\x91\x70")])
        spans = [(BASE + first, BASE + last) for first, last in self.spans(4)]
        form = (
            "data4"
            if self.version < 4
            else self.chance.choice(("sec_offset", "loclistx"))
            if self.version >= 5
            else "sec_offset"
        )
        self.tell(own if tag != "label" else None, spans)
        entries = tuple(("start_end", *self.as_stated(span), b"\x50" * self.chance.randint(0, 3)) for span in spans)
        return Die(tag, [At("location", form, Locations(entries))])

    def tell(self, own: Span | None, spans: list[Span]) -> None:
        for first, last in spans:
            if own is not None and first < last:
                outside = (first, min(last, own[0])), (max(first, own[1]), last)
                self.expected += [span for span in outside if span[0] < span[1]]


def outside(*objects):
    units = [read_units(sections) for sections in objects]
    blocks = [
        BlocksOf(sections, own.units, listed_ranges(sections, own))
        for sections, own in zip(objects, units, strict=True)
    ]
    return outside_of_functions(blocks)


@pytest.mark.parametrize("seed", range(120))
def test_what_lies_outside_is_what_was_put_there(seed):
    maker = _Maker(seed)
    sections = DebugSections.of(build_dwarf([maker.unit()]).sections)
    assert outside(sections) == [sorted(maker.expected)]


@pytest.mark.parametrize("first", range(0, 120, 12))
def test_of_several_objects_each_has_its_own(first):
    makers = [_Maker(seed) for seed in range(first, first + 12)]
    objects = [DebugSections.of(build_dwarf([maker.unit()]).sections) for maker in makers]
    assert outside(*objects) == [sorted(maker.expected) for maker in makers]


def test_some_of_it_lies_outside():
    makers = [_Maker(seed) for seed in range(120)]
    assert all(maker.unit() for maker in makers)
    assert sum(len(maker.expected) for maker in makers) > 500


def test_a_location_list_without_an_end_is_refused():
    variable = Die("variable", [At("location", "sec_offset", Locations((("start_end", 1, 2, b""),)))])
    function = Die("subprogram", [At("low_pc", "addr", BASE), At("high_pc", "data4", 8)], [variable])
    contents = build_dwarf([Unit(Die("compile_unit", [At("low_pc", "addr", BASE)], [function]), 4)]).sections
    sections = DebugSections.of({**contents, ".debug_loc": contents[".debug_loc"][:-1]})
    with pytest.raises(Malformed):
        outside(sections)

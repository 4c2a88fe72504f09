"""Made-up and damaged DIE trees: scopes against pyelftools, and the compiled core against the same file uncompiled."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest
from elftools.common.exceptions import DWARFError, ELFError

from symd.debuginfo.dwarf.columns import LineColumns, ScopeColumns
from symd.debuginfo.dwarf.units import Units
from symd.debuginfo.verify import comparison, second_opinion
from symd.debuginfo.verify.comparison import VerifiedScope
from symd.errors import LimitExceeded, Malformed
from symd.model.debug_info import NO_PARENT
from tests.builders.dwarf import At, Base, Die, Ranges, Ref, Unit, build_dwarf
from tests.builders.hostile import flips, truncations
from tests.builders.leb128 import uleb
from tests.builders.line_program import File, Row, Shape, build_line_program
from tests.core.uncompiled import without_compiled_core
from tests.debuginfo.dwarf.compare import assert_same_scopes
from tests.debuginfo.dwarf.decode import read_lines, read_scopes, read_units

NOISE: tuple[tuple[str, Any], ...] = (
    ("data1", 3), ("data2", 4), ("data4", 5), ("data8", 6), ("data16", bytes(16)), ("udata", 300), ("sdata", -300),
    ("string", "noise"), ("strp", "text"), ("block1", b"abc"), ("block2", b"\0" * 9), ("block4", b"z" * 70),
    ("exprloc", b"\x91\x70"), ("exprloc", b"q" * 90), ("block", b""), ("flag", 1), ("flag_present", None),
    ("sec_offset", 0), ("ref_sig8", 7), ("implicit_const", -5), ("indirect", ("data2", 9)),
    ("indirect", ("exprloc", b"123")), ("ref_udata", 11), ("line_strp", "line"),
)  # fmt: skip
VENDOR = (0x2400, 0x3B01, 0x2136)


class _Maker:
    """A random tree: functions, inlined calls, blocks and noise, with references to what was declared before."""

    def __init__(self, chance: random.Random, version: int) -> None:
        self.chance, self.version = chance, version
        self.declared: list[str] = []

    def unit(self, number: int) -> Unit:
        bases = [At("low_pc", "addr", 0x1000 * number)]
        if self.version >= 5:
            bases += [At(f"{pool}_base", "sec_offset", Base(pool)) for pool in ("addr", "str_offsets", "rnglists")]
        children = [self.declaration(number, n) for n in range(3)] + [self.function(2) for _ in range(6)]
        self.chance.shuffle(children)
        root = Die("compile_unit", [At("name", "string", f"unit{number}.c"), *bases, *self.noise()], children)
        return Unit(root, version=self.version, dwarf64=self.version > 2 and self.chance.random() < 0.3)

    def noise(self) -> list[At]:
        picked = self.chance.choices(NOISE, k=self.chance.choice((0, 0, 1, 2)))
        return [At(self.chance.choice(VENDOR) + n, form, value) for n, (form, value) in enumerate(picked)]

    def text(self, value: str) -> tuple[str, str]:
        forms = ["string", "strp"] + (["strx", "strx1", "strx2", "line_strp"] if self.version >= 5 else [])
        return self.chance.choice(forms), value

    def declaration(self, unit: int, number: int) -> Die:
        label = f"d{unit}.{number}"
        attributes = [At("name", *self.text(label)), *self.noise()]
        if self.chance.random() < 0.5:
            attributes.append(At(self.chance.choice(("linkage_name", 0x2007)), *self.text(f"_Z{label}")))
        if self.declared and self.chance.random() < 0.4:
            attributes = [At("specification", "ref_addr", Ref(self.chance.choice(self.declared)))]
        self.declared.append(label)
        return Die("subprogram", attributes, [], label)

    def origin(self) -> list[At]:
        if self.chance.random() < 0.15 or not self.declared:
            return [At("name", *self.text("own"))] if self.chance.random() < 0.5 else []
        return [
            At(
                self.chance.choice(("abstract_origin", "specification")),
                "ref_addr",
                Ref(self.chance.choice(self.declared)),
            )
        ]

    def code(self) -> list[At]:
        low = self.chance.randrange(0, 4000, 4)
        size = self.chance.choice((0, 4, 400, 70000))
        kind = self.chance.randrange(5)
        if kind == 0:
            return []
        if kind == 1:
            entries = self.entries()
            forms = (
                ["sec_offset", "rnglistx"] if self.version >= 5 else ["sec_offset" if self.version == 4 else "data4"]
            )
            form = self.chance.choice(forms)
            return [At("ranges", form if form != "data4" else "sec_offset", Ranges(entries))]
        start = At("low_pc", self.chance.choice(("addrx", "addrx1", "addr")) if self.version >= 5 else "addr", low)
        end = (
            At("high_pc", "addr", low + size)
            if kind == 2
            else At("high_pc", self.chance.choice(("data4", "udata")), size)
        )
        return self.chance.sample([start, end], 2)

    def entries(self) -> tuple[tuple[Any, ...], ...]:
        def pair() -> tuple[int, int]:
            low = self.chance.randrange(4, 4000)
            return low, low + self.chance.choice((0, 8, 300))

        if self.version < 5:
            kinds = [("start_end", *pair()), ("start_end", *pair()), ("base_address", 0x9000)]
        else:
            low, high = pair()
            kinds = [
                ("offset_pair", *pair()),
                ("start_end", *pair()),
                ("base_address", 0x9000),
                ("start_length", low, high),
            ]
        picked = self.chance.choices(kinds, k=self.chance.randint(0, 4))
        return tuple(picked)

    def function(self, depth: int) -> Die:
        return Die("subprogram", [*self.noise(), *self.origin(), *self.code(), *self.noise()], self.inside(depth))

    def inside(self, depth: int) -> list[Die]:
        kinds = [self.inlined, self.block, self.variable, self.function] if depth else [self.variable]
        return [self.chance.choice(kinds)(depth - 1) for _ in range(self.chance.randint(0, 4))]

    def variable(self, _: int) -> Die:
        return Die(
            self.chance.choice(("variable", "formal_parameter", 0x4109)), [At("name", "string", "v"), *self.noise()]
        )

    def block(self, depth: int) -> Die:
        return Die("lexical_block", self.code(), self.inside(depth))

    def inlined(self, depth: int) -> Die:
        call = [
            At("call_file", "data1", 1),
            At("call_line", self.chance.choice(("data2", "udata", "implicit_const")), 70),
        ]
        call += [At("call_column", "sdata", 9)] if self.chance.random() < 0.5 else []
        return Die("inlined_subroutine", [*self.origin(), *self.code(), *self.noise(), *call], self.inside(depth))


def made(seed: int) -> dict[str, bytes]:
    """The sections of two units whose functions refer to each other."""
    maker = _Maker(random.Random(seed), (2, 3, 4, 5)[seed % 4])
    return build_dwarf([maker.unit(number) for number in range(2)]).sections


@pytest.fixture(params=["compiled", "uncompiled"])
def way(request):
    """The core, compiled or not."""
    with without_compiled_core() if request.param == "uncompiled" else nullcontext():
        yield


@pytest.mark.parametrize("seed", range(60))
def test_scopes_of_made_up_trees_are_those_pyelftools_finds(seed, way):
    sections = made(seed)
    expected = second_opinion.read_scopes(sections)
    assert_same_scopes(sections, expected)
    assert read_scopes(sections, LineColumns.empty()).warnings == ()


def test_made_up_trees_have_everything_that_matters():
    found = [scope for seed in range(60) for scope in second_opinion.read_scopes(made(seed))]
    assert sum(scope.inlined and bool(scope.ranges) for scope in found) > 100
    assert sum(len(scope.ranges) > 1 for scope in found) > 50
    assert sum(bool(scope.linkage_name) for scope in found) > 50


def _scopes(root: Die, **unit: Any) -> ScopeColumns:
    return read_scopes(build_dwarf([Unit(root, **unit)]).sections, LineColumns.empty())


def _code(low: int, size: int) -> list[At]:
    return [At("low_pc", "addr", low), At("high_pc", "data4", size)]


def test_references_in_a_circle_give_no_name():
    a = Die("subprogram", [At("specification", "ref4", Ref("b")), *_code(0, 4)], [], "a")
    b = Die("subprogram", [At("abstract_origin", "ref4", Ref("a")), *_code(4, 4)], [], "b")
    scopes = _scopes(Die("compile_unit", [], [a, b]))
    assert scopes.name.tolist() == [0, 0]


def test_an_inlined_call_in_a_function_without_ranges_still_has_its_parent():
    call = Die("inlined_subroutine", [At("name", "string", "inner"), *_code(0, 8)])
    root = Die(
        "compile_unit", [], [Die("subprogram", [At("name", "string", "outer")], [Die("lexical_block", [], [call])])]
    )
    scopes = _scopes(root)
    assert [scopes.names[number] for number in scopes.name] == ["outer", "inner"]
    assert scopes.parent.tolist() == [NO_PARENT, 0]
    assert scopes.range_scope.tolist() == [1]


def test_inlined_calls_that_do_not_say_where_their_code_is_stand_in_their_functions():
    """Not those of functions without code."""
    deep = Die("inlined_subroutine", [At("name", "string", "deep")])
    calls = [
        Die("inlined_subroutine", [At("name", "string", "lost"), At("call_line", "data1", 7)], [deep]),
        Die("inlined_subroutine", [At("name", "string", "inner"), *_code(2, 2)], [deep]),
    ]
    functions = [
        Die("subprogram", [At("name", "string", "abstract")], [calls[0]]),
        Die("subprogram", [At("name", "string", "outer"), *_code(0, 8)], [Die("lexical_block", [], calls)]),
    ]
    scopes = _scopes(Die("compile_unit", [], functions))
    assert [scopes.names[number] for number in scopes.name] == ["outer", "lost", "deep", "inner", "deep"]
    assert scopes.parent.tolist() == [NO_PARENT, 0, 1, 0, 3]
    assert scopes.range_scope.tolist() == [0, 3]
    assert scopes.call_line.tolist() == [0, 7, 0, 0, 0]


def test_a_subprogram_inside_another_is_a_function_of_its_own():
    inner = Die("subprogram", [At("name", "string", "inner"), *_code(4, 4)])
    scopes = _scopes(
        Die("compile_unit", [], [Die("subprogram", [At("name", "string", "outer"), *_code(0, 8)], [inner])])
    )
    assert scopes.parent.tolist() == [NO_PARENT, NO_PARENT]


def test_addresses_of_four_bytes():
    function = Die(
        "subprogram",
        [At("ranges", "sec_offset", Ranges((("start_end", 8, 16), ("base_address", 0x100), ("start_end", 0, 4))))],
    )
    scopes = _scopes(Die("compile_unit", [At("low_pc", "addr", 0x40)], [function]), address_size=4)
    assert list(zip(scopes.range_start.tolist(), scopes.range_end.tolist(), strict=True)) == [
        (0x48, 0x50),
        (0x100, 0x104),
    ]


def test_every_kind_of_range_entry_of_dwarf_5():
    entries = (
        ("offset_pair", 1, 2), ("base_addressx", 1), ("offset_pair", 3, 4), ("base_address", 0x500), ("offset_pair", 5, 6),
        ("startx_endx", 0, 1), ("startx_length", 1, 7), ("start_end", 0x700, 0x708), ("start_length", 0x800, 8),
    )  # fmt: skip
    addresses = [Die("variable", [At("low_pc", "addrx", 0x10)]), Die("variable", [At("low_pc", "addrx", 0x200)])]
    function = Die("subprogram", [At("ranges", "rnglistx", Ranges(entries))])
    bases = [At(f"{pool}_base", "sec_offset", Base(pool)) for pool in ("addr", "rnglists")]
    root = Die("compile_unit", [At("low_pc", "addr", 0x40), *bases], [*addresses, function])
    for dwarf64 in (False, True):
        scopes = _scopes(root, version=5, dwarf64=dwarf64)
        assert list(zip(scopes.range_start.tolist(), scopes.range_end.tolist(), strict=True)) == [
            (0x41, 0x42), (0x203, 0x204), (0x505, 0x506), (0x10, 0x200), (0x200, 0x207), (0x700, 0x708), (0x800, 0x808),
        ]  # fmt: skip


def test_call_files_are_looked_up_in_the_unit_s_own_table():
    tables = [build_line_program([[Row(0), Row(4, end_sequence=True)]], files=[File(f"a{n}.c"), File(f"b{n}.c")],
                                 directories=[f"/c{n}"] * (version // 5), shape=Shape(version=version)) for n, version in ((0, 4), (1, 5))]  # fmt: skip
    units = []
    for number, version in ((1, 5), (0, 4)):
        call = Die("inlined_subroutine", [At("name", "string", "i"), *_code(0, 4), At("call_file", "data1", 1)])
        wild = Die("inlined_subroutine", [At("name", "string", "i"), *_code(0, 4), At("call_file", "data1", 9)])
        attributes = [
            At("stmt_list", "sec_offset", len(tables[0].data) * number),
            At("comp_dir", "string", f"/c{number}"),
        ]
        units.append(
            Unit(Die("compile_unit", attributes, [Die("subprogram", _code(0, 8), [call, wild])]), version=version)
        )
    sections = build_dwarf(units).sections | {".debug_line": tables[0].data + tables[1].data}
    lines = read_lines(sections)
    scopes = read_scopes(sections, lines)
    assert [lines.files[number] for number in scopes.call_file] == ["", "/c1/b1.c", "", "", "/c0/a0.c", ""]


@pytest.mark.parametrize("core", ["compiled", "uncompiled"])
def test_a_line_or_a_file_that_a_definition_does_not_state_is_that_of_its_declaration(core):
    """DWARF 5, 2.13.2: clang leaves the file out where a member function is defined in the file of its class."""
    table = build_line_program([[Row(0), Row(4, end_sequence=True)]], files=[File("s.h"), File("s.cpp")])
    declared = Die("subprogram", [*_declared(1, 4), At("declaration", "flag_present")], [], "declared")
    stated = (_declared(line=20), _declared(file=2), _declared(2, 30), [])
    definitions = [
        Die("subprogram", [At("specification", "ref4", Ref("declared")), *own, *_code(8 * number, 8)])
        for number, own in enumerate(stated)
    ]
    root = Die("compile_unit", [At("stmt_list", "sec_offset", 0)], [Die("class_type", [], [declared]), *definitions])
    sections = build_dwarf([Unit(root)]).sections | {".debug_line": table.data}
    with without_compiled_core() if core == "uncompiled" else nullcontext():
        lines = read_lines(sections)
        functions = read_scopes(sections, lines).functions
    found = [(lines.files[file], line) for file, line in zip(functions.file, functions.line.tolist(), strict=True)]
    assert found == [("s.h", 20), ("s.cpp", 4), ("s.cpp", 30), ("s.h", 4)]


def _declared(file: int = 0, line: int = 0) -> list[At]:
    return [At(f"decl_{what}", "data1", value) for what, value in (("file", file), ("line", line)) if value]


def test_a_very_deep_tree_is_followed():
    abbreviations = (
        b"\x01\x11\x01\0\0" + b"\x02\x0b\x01\0\0" + b"\x03\x1d\x00\x11\x01\x12\x0b\0\0" + b"\x04\x2e\x01\0\0" + b"\0"
    )
    depth = 200_000
    body = b"\x01\x04" + b"\x02" * depth + b"\x03" + bytes(8) + b"\x04" + bytes(depth + 2)
    unit = b"\x04\0" + bytes(4) + b"\x08" + body
    sections = {".debug_info": len(unit).to_bytes(4, "little") + unit, ".debug_abbrev": abbreviations}
    scopes = read_scopes(sections, LineColumns.empty())
    assert scopes.parent.tolist() == [NO_PARENT, 0]


def test_range_lists_that_overlap_without_end_are_refused():
    count = 3000
    lists = (b"\x01" + bytes(15)) * count + bytes(16)
    die = b"\x02"
    body = b"\x01" + b"".join(die + (16 * n).to_bytes(4, "little") for n in range(count)) + b"\0"
    unit = b"\x04\0" + bytes(4) + b"\x08" + body
    abbreviations = b"\x01\x11\x01\0\0" + b"\x02\x2e\x00\x55\x17\0\0" + b"\0"
    sections = {
        ".debug_info": len(unit).to_bytes(4, "little") + unit,
        ".debug_abbrev": abbreviations,
        ".debug_ranges": lists,
    }
    with pytest.raises(LimitExceeded, match="overlap"):
        read_scopes(sections, LineColumns.empty())


def _attempt(sections: Mapping[str, bytes]) -> tuple[list[VerifiedScope], tuple[str, ...]] | str:
    try:
        scopes = read_scopes(sections, LineColumns.empty())
    except (Malformed, LimitExceeded) as error:
        return type(error).__name__
    assert scopes.name.max(initial=0) < len(scopes.names)
    return comparison.scopes(LineColumns.empty(), scopes), scopes.warnings


READING_FAILS = (DWARFError, ELFError, KeyError, AssertionError, TypeError, AttributeError, IndexError, ValueError)


def _compare_damaged(sections: Mapping[str, bytes]) -> bool | None:
    """Whether scopes equal pyelftools'; None where one of the two refuses something."""
    walked = _attempt(sections)
    with without_compiled_core():
        assert _attempt(sections) == walked
    if isinstance(walked, str) or walked[1]:
        return None
    try:
        expected = second_opinion.read_scopes(sections)
    except READING_FAILS:
        return None
    return [scope._replace(call_file=None) for scope in walked[0]] == [
        scope._replace(call_file=None) for scope in expected
    ]


@pytest.mark.parametrize("name", [".debug_info", ".debug_abbrev"])
@pytest.mark.parametrize("seed", range(4))
def test_damaged_trees_are_read_alike_compiled_and_not_and_as_pyelftools_where_it_reads_them(seed, name):
    sections = made(seed)
    damaged = [*flips(sections[name], seed, 25, 3), *truncations(sections[name], 151)]
    answers = [_compare_damaged(sections | {name: data}) for data in damaged]
    # pyelftools takes the last of two equal attributes, any form for any attribute, and numbers beyond 64 bits.
    assert answers.count(False) <= 2
    assert answers.count(True) >= 1


def _subprograms(body: bytes) -> dict[str, bytes]:
    """A unit of DWARF 4 with a root (1) around functions (2: low_pc, high_pc of 4 bytes) that stand in ``body``."""
    unit = b"\x04\0" + bytes(4) + b"\x08" + b"\x01" + body + b"\0"
    table = b"\x01\x11\x01\0\0" + b"\x02\x2e\0\x11\x01\x12\x06\0\0" + b"\0"
    return {".debug_info": len(unit).to_bytes(4, "little") + unit, ".debug_abbrev": table}


def test_units_far_apart_and_unit_numbers_with_gaps_are_read():
    one = _subprograms(b"\x02" + (16).to_bytes(8, "little") + (4).to_bytes(4, "little"))
    sections = one | {".debug_info": one[".debug_info"] * 3}
    units = read_units(sections)
    some = Units((units.units[0], units.units[2]))
    scopes = read_scopes(sections, LineColumns.empty(), some)
    assert scopes.unit.tolist() == [0, 2]


def _listed(lists: bytes, offsets: list[int]) -> dict[str, bytes]:
    """A unit of DWARF 5 whose functions have these offsets as DW_AT_ranges."""
    body = b"\x01" + b"".join(b"\x02" + offset.to_bytes(4, "little") for offset in offsets) + b"\0"
    unit = b"\x05\0\x01\x08" + bytes(4) + body
    table = b"\x01\x11\x01\0\0" + b"\x02\x2e\0\x55\x17\0\0" + b"\0"
    return {
        ".debug_info": len(unit).to_bytes(4, "little") + unit,
        ".debug_abbrev": table,
        ".debug_rnglists": lists,
    }


@pytest.mark.parametrize("seed", range(6))
def test_range_lists_of_any_length_and_order_are_those_that_were_written(seed, way):
    chance = random.Random(seed)
    data, offsets, expected = bytearray(chance.randbytes(7)), [], []
    for number in range(60):
        offsets.append(len(data))
        base = 0
        for _ in range(chance.choice((0, 1, 2, 3, 40))):
            start, size = chance.getrandbits(30) + 1, chance.randint(1, 300)
            kind = chance.choice((4, 5, 6, 7))
            if kind == 5:
                base = start
                data += b"\x05" + base.to_bytes(8, "little")
                continue
            if kind == 4:
                data += b"\x04" + uleb(start) + uleb(start + size)
                start += base
            elif kind == 6:
                data += b"\x06" + start.to_bytes(8, "little") + (start + size).to_bytes(8, "little")
            else:
                data += b"\x07" + start.to_bytes(8, "little") + uleb(size)
            expected.append((number, start, start + size))
        data += b"\0"
    order = list(range(60))
    chance.shuffle(order)
    scopes = read_scopes(_listed(bytes(data), [offsets[number] for number in order]), LineColumns.empty())
    found = zip(scopes.range_scope.tolist(), scopes.range_start.tolist(), scopes.range_end.tolist(), strict=True)
    assert sorted((order[scope], start, end) for scope, start, end in found) == sorted(expected)

"""Of functions that the linker folded, the one whose debug data says where it is has its lines, whichever line table, or sequence of one, says
them last. Where nothing says whose they are, no line is told."""

from __future__ import annotations

import subprocess
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from symd.config import Limits
from symd.debuginfo.dwarf.columns import DieRanges, FunctionColumns, LineColumns, ScopeColumns
from symd.debuginfo.dwarf.forms import Widths
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Unit, Units
from symd.debuginfo.folded_sequences import find_folded, function_lines
from symd.debuginfo.relocation import LinearLayout
from symd.formats import containers
from symd.index import Index
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.answers import Answer
from symd.model.debug_info import NO_FUNCTION, NO_PARENT
from symd.query.symbolize import symbolize
from tests.debuginfo.scope_rows import with_line_ends
from tests.tools import require

TWO_HELPERS = """
__attribute__((noinline)) static int helper_1(int x) { return x * 7 + 3; }
int function_1(int x) { return helper_1(x) * 2 + 1; }

__attribute__((noinline)) static int helper_2(int x) {
  return x * 7 + 3;
}
int function_2(int x) { return helper_2(x) * 2 + 2; }
"""
LATER_HELPER_STAYS = """
__attribute__((noinline)) static int helper_2(int x) { return x * 7 + 3; }

__attribute__((noinline)) static int helper_1(int x) {
  return x * 7 + 3;
}
int function_1(int x) { return helper_1(x) * 2 + 1; }
int function_2(int x) { return helper_2(x) * 2 + 2; }
"""
LAMBDAS = """
int function(int x) {
  auto first = [](int y) __attribute__((noinline)) {
    return y * 5 + 2;
  };
  auto second = [](int y) __attribute__((noinline)) {
    return y * 5 + 2;
  };
  return first(x) * 3 + second(x + 1);
}
"""
METHODS = """
struct A { int a; int get(int) const; };
struct B { int b; int get(int) const; };
int A::get(int x) const { return a * 7 + x; }

int B::get(int x) const {
  return b * 7 + x;
}
"""
WRAPPERS = """
int inner(int x) {
  return x * 7 + 3;
}

int outer(int x) {
  return inner(x);
}
"""
INSTANCES = """
template <class T> __attribute__((noinline)) T helper(T x) {
  return x * 7 + 3;
}
int function_1(int x) { return helper<int>(x) + 1; }
unsigned function_2(unsigned x) { return helper<unsigned>(x) + 2; }
"""
CONSTRUCTORS = """
struct A {
  int a;
  __attribute__((noinline)) A(int x)
    : a([](int y) { return y * 3; }(x))
  {
  }
};
struct B {
  int b;
  __attribute__((noinline)) B(int x)
    : b([](int y) { return y * 3; }(x))
  {
  }
};
int function(int x) { return A(x).a + B(x + 1).b; }
"""
CALLERS = """
static inline int inner(int x) { return x * 7; }
__attribute__((noinline)) static int helper_1(int x) { return inner(x) + 3; }
int function_1(int x) { return helper_1(x) * 2 + 1; }
__attribute__((noinline)) static int helper_2(int x) { return inner(x) + 3; }
int function_2(int x) { return helper_2(x) * 2 + 2; }
"""
SAME_HELPER = """
__attribute__((noinline)) static int helper(int x) { return x * 7 + 3; }
"""


NO_RANGES = DieRanges(np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.uint64))


def linked(folder: Path, sources: Mapping[str, str], flags: Sequence[str], debug: Mapping[str, str]) -> bytes:
    """A code object of these files, in this order; ``debug`` has the option of those that are not compiled with -g."""
    objects = []
    for name, text in sources.items():
        (folder / name).write_text(text)
        objects.append(f"{name}.o")
        common = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx900", "-nogpulib", "-ffunction-sections"]
        command = [require("clang"), *common, *flags, debug.get(name, "-g"), "-c", name, "-o", objects[-1]]
        subprocess.run(command, cwd=folder, check=True)
    subprocess.run([require("ld.lld"), "-shared", "--icf=all", *objects, "-o", "m.co"], cwd=folder, check=True)
    return (folder / "m.co").read_bytes()


def answers_of(data: bytes, symbol: str) -> list[Answer]:
    """Those at the instructions of the first function whose symbol has this in its name."""
    (code,) = containers.unpack(data, Limits()).objects
    function = next(each for each in code.functions if symbol in each.name)
    address = next(each.address for each in code.sections if each.index == function.section_index) + function.offset
    queries = [ByAddress(ObjectAddress(address + offset)) for offset in range(0, function.size, 4)]
    return list(symbolize(Index(build_index(data, Limits())), queries))


def said(answers: Sequence[Answer]) -> set[tuple[str, str | None, str, int | None]]:
    """Reason, function, file and line of all answers, which have a frame each."""
    found = set()
    for answer in answers:
        (frame,) = answer.frames
        found.add((answer.reason.name, frame.function, Path(frame.file or "").name, frame.line))
    return found


@pytest.fixture(params=["-O0", "-O2"])
def optimised(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["-gdwarf-4", "-gdwarf-5"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("first", [1, 2])
def test_of_two_units_the_helper_that_stays_has_its_lines(
    first: int, optimised: str, version: str, tmp_path: Path
) -> None:
    """The helper of the unit that is linked first stays."""
    source = "\n" * 10 * first + "__attribute__((noinline)) static int helper_{0}(int x) {{ return x * 7 + 3; }}\n"
    source += "int function_{0}(int x) {{ return helper_{0}(x) * 2 + {0}; }}\n"
    names = {f"m{number}.c": source.format(number) for number in (first, 3 - first)}
    data = linked(tmp_path, names, [optimised], dict.fromkeys(names, version))
    assert said(answers_of(data, "helper")) == {("EXACT", f"helper_{first}", f"m{first}.c", 10 * first + 1)}


@pytest.mark.parametrize(
    ("name", "source", "symbol", "function", "lines"),
    [
        ("two.c", TWO_HELPERS, "helper", "helper_1", {2}),
        ("two.c", LATER_HELPER_STAYS, "helper", "helper_1", {4, 5}),
        ("lambdas.cpp", LAMBDAS, "_ZZ", "operator()", {3, 4}),
        ("methods.cpp", METHODS, "get", "get", {4}),
        ("instances.cpp", INSTANCES, "helper", "helper<int>", {2, 3}),
    ],
    ids=["first", "second", "lambdas", "methods", "instances"],
)
def test_of_one_unit_the_function_that_stays_has_its_lines(
    name: str, source: str, symbol: str, function: str, lines: set[int], optimised: str, version: str, tmp_path: Path
) -> None:
    """All sequences stand in one line table."""
    data = linked(tmp_path, {name: source}, [optimised], {name: version})
    found = said(answers_of(data, symbol))
    assert found == {("EXACT", function, name, line) for line in lines}


def test_a_function_into_which_its_likeness_was_inlined_has_its_own_lines(tmp_path: Path) -> None:
    """``inner`` stays, and the lines of ``outer`` are those of ``inner`` in part."""
    data = linked(tmp_path, {"wrappers.c": WRAPPERS}, ["-O2"], {})
    assert said(answers_of(data, "inner")) == {("EXACT", "inner", "wrappers.c", line) for line in (2, 3)}


def test_what_is_declared_inside_a_function_does_not_end_its_lines(tmp_path: Path) -> None:
    """The code of a constructor begins with the line of its body, behind a lambda among its initializers."""
    data = linked(tmp_path, {"constructors.cpp": CONSTRUCTORS}, ["-O2"], {})
    answers = answers_of(data, "_ZN1AC2Ei")
    assert {answer.reason.name for answer in answers} == {"EXACT"}
    assert {(answer.frames[-1].function, answer.frames[-1].line) for answer in answers} == {
        ("A", line) for line in (5, 6, 7)
    }


def test_where_declarations_are_not_said_the_function_is_told_and_no_line(tmp_path: Path) -> None:
    """With lines alone clang names functions into which something was inlined, and not where they are declared."""
    data = linked(tmp_path, {"callers.c": CALLERS}, ["-O2"], {"callers.c": "-g1"})
    found = {
        (answer.reason.name, tuple((frame.function, frame.line) for frame in answer.frames[-1:]))
        for answer in answers_of(data, "helper")
    }
    assert found == {("CONTRADICTORY", (("helper_1", 3),)), ("CONTRADICTORY", (("helper_1", 0),))}


def test_lines_alone_do_not_say_which_function_of_a_unit_stays(optimised: str, tmp_path: Path) -> None:
    data = linked(tmp_path, {"two.c": TWO_HELPERS}, [optimised], {"two.c": "-g1"})
    answers = answers_of(data, "helper")
    assert {(answer.reason.name, answer.frames) for answer in answers} == {("CONTRADICTORY", ())}
    assert {answer.reason.name for answer in answers_of(data, "function_1")} == {"EXACT"}


def test_with_lines_alone_the_unit_that_has_code_there_has_its_lines(optimised: str, tmp_path: Path) -> None:
    names = {"a.c": "\n\n" + SAME_HELPER + "int a(int x) { return helper(x) + 1; }\n", "b.c": TWO_HELPERS}
    data = linked(tmp_path, names, [optimised], dict.fromkeys(names, "-g1"))
    assert said(answers_of(data, "helper")) == {("EXACT", "helper", "a.c", 4)}


@pytest.mark.parametrize("more", ["", "\n"])
def test_lines_of_a_function_that_no_debug_data_has_stay_where_they_are_the_same(more: str, tmp_path: Path) -> None:
    """The one that stays was compiled without debug data, those of two other units were not."""
    (tmp_path / "helper.h").write_text(SAME_HELPER)
    names = {
        f"{unit}.c": f'#include "helper.h"\nint {unit}(int x) {{ return helper(x) * {ord(unit)}; }}' for unit in "abc"
    }
    names["c.c"] = names["c.c"].replace('#include "helper.h"', more + SAME_HELPER) if more else names["c.c"]
    answers = answers_of(linked(tmp_path, names, ["-O2"], {"a.c": "-g0"}), "helper")
    if more:
        assert {(answer.reason.name, answer.frames) for answer in answers} == {("CONTRADICTORY", ())}
    else:
        assert said(answers) == {("EXACT", "helper", "helper.h", 2)}


TEXT = LinearLayout(array("I", [3]), array("Q", [0x20000]), array("Q", [0x100]))
Row = tuple[int, int]
"""An offset in the text, and a line of file 1."""


def sequences(*found: tuple[int, Sequence[Row]]) -> LineColumns:
    """Sequences of tables by their numbers; the last row ends one."""
    rows = [row for _, own in found for row in own]
    zero = np.zeros(len(rows), np.uint32)
    return LineColumns(
        address=np.array([0x20000 + offset for offset, _ in rows], np.uint64),
        file=zero + 1,
        line=np.array([line for _, line in rows], np.uint32),
        column=zero,
        flags=zero.astype(np.uint8),
        ends=np.cumsum([len(own) for _, own in found]),
        table=np.array([table for table, _ in found], np.uint32),
        tables=tuple(range(max(table for table, _ in found) + 1)),
    )


def scopes_of_caller(unit: int, declared: Sequence[int]) -> ScopeColumns:
    """A function of a unit with code up to 0x10, in whose first half a call was inlined; functions are ``declared`` on these lines, first this one,
    then what was inlined."""
    u32 = np.zeros(2, np.uint32)
    number = np.arange(2, dtype=np.uint32) if declared else u32 + NO_FUNCTION
    line = np.array(declared, np.uint32)
    none = np.zeros(len(declared), np.uint32)
    return replace(
        ScopeColumns.empty(),
        parent=np.array([NO_PARENT, 0], np.uint32),
        name=u32,
        linkage_name=u32,
        inlined=np.array([0, 1], np.uint8),
        call_file=u32,
        call_line=u32,
        call_column=u32,
        unit=u32 + unit,
        range_scope=np.arange(2, dtype=np.uint32),
        range_start=np.array([0x20000, 0x20000], np.uint64),
        range_end=np.array([0x20010, 0x20008], np.uint64),
        function=number,
        functions=FunctionColumns(none, none, none + 1, line, none + unit),
    )


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> Units:
    """Two, with a line table each, that do not say where their code is."""
    monkeypatch.setattr("symd.debuginfo.folded_sequences.unit_ranges", lambda *_: NO_RANGES)
    unit = Unit(0, 0, 0, 0, 5, Widths(8, 4, 5), 0, stmt_list=0)
    return Units((unit, unit.changed(number=1, stmt_list=1)))


def judged(lines: LineColumns, scopes: ScopeColumns, units: Units) -> tuple[list[bool], list[int]]:
    """(of each sequence whether it is another function's, where what is doubted begins and ends)."""
    functions = function_lines(with_line_ends(scopes))
    found = find_folded(DebugSections.of({}), lines, scopes, units, functions, TEXT)
    of_others = [False] * len(lines.ends) if found.of_others is None else found.of_others.tolist()
    return of_others, np.concatenate(found.doubted[1:]).tolist()


@pytest.mark.parametrize("own", [0, 1])
def test_the_table_of_the_unit_that_has_a_function_there_has_its_sequence(own: int, units: Units) -> None:
    """Also where nothing is known of declarations and of the unit's code."""
    lines = sequences((0, [(0, 5), (16, 5)]), (1, [(0, 30), (16, 30)]))
    assert judged(lines, scopes_of_caller(own, ()), units) == ([own == 1, own == 0], [])


@pytest.mark.parametrize("order", [1, -1])
def test_a_line_of_what_was_inlined_says_nothing_of_the_caller(order: int, units: Units) -> None:
    """Both sequences begin with it."""
    mine, others = (0, [(0, 2), (8, 11), (16, 11)]), (0, [(0, 2), (8, 31), (16, 31)])
    lines = sequences(*(mine, others)[::order])
    assert judged(lines, scopes_of_caller(0, (10, 1, 30)), units) == ([False, True][::order], [])


def test_a_line_behind_the_function_says_nothing_of_it(units: Units) -> None:
    """It has none of its own."""
    lines = sequences((0, [(0, 0), (16, 31), (32, 31)]), (0, [(0, 0), (16, 12), (32, 12)]))
    assert judged(lines, scopes_of_caller(0, (10, 1, 30)), units) == ([False, False], [0, 32])


def test_sequences_that_are_nobodys_stay(units: Units) -> None:
    same, other = [(0x40, 5), (0x50, 5)], [(0x40, 6), (0x50, 6)]
    scopes = scopes_of_caller(0, (10, 1))
    assert judged(sequences((0, same), (1, same)), scopes, units) == ([False, False], [])
    assert judged(sequences((0, same), (1, other)), scopes, units) == ([False, False], [0x40, 0x50])
    assert judged(sequences((0, same), (1, same[:1] + other[1:])), scopes, units) == ([False, False], [0x40, 0x50])
    assert judged(sequences((0, same), (1, [*same, (0x54, 5)])), scopes, units) == ([False, False], [0x40, 0x54])


def test_sequences_without_code_and_outside_of_text_contradict_nobody(units: Units) -> None:
    lines = sequences(
        (0, [(0x40, 5), (0x40, 5)]), (0, [(0x40, 6), (0x50, 6)]), *[(0, [(-0x20000, n), (0, n)]) for n in (1, 2)]
    )
    assert judged(lines, scopes_of_caller(0, ()), units) == ([False] * 4, [])

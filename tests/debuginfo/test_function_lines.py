"""Which lines a function can have: up to the next declaration, and what stands inside it does not end it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from symd.debuginfo import reading
from symd.debuginfo.dwarf.columns import FunctionColumns, ScopeColumns
from symd.debuginfo.folded_sequences import function_lines
from symd.model.debug_info import NO_PARENT
from tests import tools
from tests.debuginfo.scope_rows import with_line_ends
from tests.formats.containers.amd import objects

NAMES = ("", "outer", "next", "operator()", "made", "__omp_outlined__", "_ZZ5outeriENK5Local4callEv", "method")
NO_END = 0xFFFFFFFF


def u32(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def lines(functions: list[tuple[str, str, int, int, int]], calls: list[tuple[int, int, int]] = ()) -> list[int]:
    """The end of each function (name, linkage name, file, line, unit); ``calls`` are (caller, file, line) of what is inlined."""
    columns = zip(*functions, strict=True)
    name, linkage, file, line, unit = columns
    declared = FunctionColumns(
        u32(*map(NAMES.index, name)), u32(*map(NAMES.index, linkage)), u32(*file), u32(*line), u32(*unit)
    )
    count = len(functions)
    caller = [call[0] for call in calls]
    zero = u32(*[0] * (count + len(calls)))
    scopes = replace(
        ScopeColumns.empty(),
        name=zero,
        linkage_name=zero,
        call_column=zero,
        parent=u32(*[NO_PARENT] * count, *caller),
        inlined=np.array([0] * count + [1] * len(calls), np.uint8),
        call_file=u32(*[0] * count, *[call[1] for call in calls]),
        call_line=u32(*[0] * count, *[call[2] for call in calls]),
        unit=u32(*unit, *[unit[number] for number in caller]),
        function=u32(*range(count), *[0] * len(calls)),
        functions=declared,
        names=NAMES,
    )
    found = function_lines(with_line_ends(scopes))
    assert (found.first.tolist(), found.file.tolist(), found.unit.tolist()) == (list(line), list(file), list(unit))
    return found.end.tolist()


def test_a_function_ends_where_the_next_one_of_its_file_and_unit_begins() -> None:
    assert lines([("next", "", 1, 20, 0), ("outer", "", 1, 10, 0)]) == [NO_END, 20]
    assert lines([("outer", "", 1, 10, 0), ("next", "", 2, 20, 0)]) == [NO_END, NO_END]
    assert lines([("outer", "", 1, 10, 0), ("next", "", 1, 20, 1)]) == [NO_END, NO_END]
    assert lines([("outer", "", 1, 10, 0), ("made", "", 1, 10, 0), ("next", "", 1, 11, 0)]) == [11, 11, NO_END]


@pytest.mark.parametrize(
    "inside", [("operator()", ""), ("__omp_outlined__", ""), ("method", "_ZZ5outeriENK5Local4callEv")]
)
def test_what_stands_inside_by_its_name_ends_nothing(inside: tuple[str, str]) -> None:
    assert lines([("outer", "", 1, 10, 0), (*inside, 1, 12, 0), ("next", "", 1, 20, 0)]) == [20, 20, NO_END]


def test_what_is_declared_before_a_call_of_the_function_stands_inside() -> None:
    functions = [("outer", "", 1, 10, 0), ("method", "", 1, 12, 0), ("next", "", 1, 20, 0)]
    assert lines(functions, [(0, 1, 15)]) == [20, 20, NO_END]
    assert lines(functions, [(0, 2, 15)]) == [12, 20, NO_END]


def test_a_file_whose_lines_are_moved_says_nothing() -> None:
    functions = [("outer", "", 1, 10, 0), ("next", "", 1, 20, 0), ("made", "", 2, 1, 0)]
    assert lines(functions, [(1, 1, 5)]) == [0, 0, NO_END]


@pytest.mark.parametrize("name", ["v4-gfx900.co", "v4-gfx900-dwarf4.co", "v6-gfx1201.co", "v5-gfx90a.co"])
def test_functions_are_declared_where_dwarfdump_says(name: str) -> None:
    """Definitions are subprograms with code or with DW_AT_inline, and no mere declarations."""
    command = [tools.require("llvm-dwarfdump-22"), "--debug-info", str(objects.path(name))]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = []
    for die in text.split("\n\n"):
        line = re.search(r"DW_AT_decl_line\s+\((\d+)\)", die)
        defines = re.search("DW_AT_low_pc|DW_AT_inline", die) and "DW_AT_abstract_origin" not in die
        if re.search(r"DW_TAG_subprogram\n", die) and line and defines:
            expected.append(int(line[1]))
    found = reading.read(objects.code(name)).functions
    assert len(found.first) > 2
    assert sorted(found.first.tolist()) == sorted(expected)

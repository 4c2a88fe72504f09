"""Inlined calls that the debug data says are the function around them: a kernel's have no name, and a recursive function keeps its own."""

from __future__ import annotations

import pytest

from symd.index import Index
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.breakpoints import SourceLine
from symd.query.breakpoints import locate
from symd.query.symbolize import symbolize
from tests.query.small import E, Object, S, Scope, index

KERNEL = [("k", 0, 0x80)]


def said(found: Index, offset: int, kernel: str = "k") -> tuple[str, list[tuple[str | None, int]]]:
    query = ByKernel(kernel, KernelOffset(offset))
    given = symbolize(found, [query])[0]
    assert found.answer(query) in (given, None)
    return given.reason.name, [(frame.function, frame.line) for frame in given.frames]


def written(found: Index, offset: int) -> tuple[str, list[tuple[str | None, int]]]:
    return said(found.view(as_written=True), offset)


ROWS = [(0, 17, S), (0x20, 9, S), (0x28, 5, S), (0x30, 9, S), (0x40, 18, S), (0x80, 0, E)]


def test_a_kernel_is_not_inlined_into_itself() -> None:
    scopes = [
        Scope("k", 0, 0x80),
        Scope("k", 0x20, 0x40, parent=0, call_line=17),
        Scope("k", 0x28, 0x30, parent=1, call_line=9),
    ]
    found = index(Object(rows=ROWS, scopes=scopes, kernels=KERNEL))
    assert said(found, 0) == ("EXACT", [("k", 17)])
    assert said(found, 0x20) == ("CONTRADICTORY", [(None, 9), ("k", 17)])
    assert said(found, 0x28) == ("CONTRADICTORY", [(None, 5), (None, 9), ("k", 17)])
    assert said(found, 0x40) == ("EXACT", [("k", 18)])
    assert written(found, 0x28) == ("EXACT", [("k", 5), ("k", 9), ("k", 17)])
    assert written(found, 0x20) == ("EXACT", [("k", 9), ("k", 17)])


def test_what_is_inlined_there_under_a_name_of_its_own_keeps_it() -> None:
    scopes = [
        Scope("k", 0, 0x80),
        Scope("k", 0x20, 0x40, parent=0, call_line=17),
        Scope("other", 0x28, 0x30, parent=1, call_line=9),
    ]
    found = index(Object(rows=ROWS, scopes=scopes, kernels=KERNEL))
    assert said(found, 0x28) == ("CONTRADICTORY", [("other", 5), (None, 9), ("k", 17)])
    assert written(found, 0x28) == ("EXACT", [("other", 5), ("k", 9), ("k", 17)])


def test_a_function_of_another_linkage_name_is_another_function() -> None:
    """clang 22 inlines ``__clang_ocl_kern_imp_k``, which debug data calls k as well, into the kernel k."""
    scopes = [
        Scope("k", 0, 0x80),
        Scope("k", 0x20, 0x40, parent=0, call_line=17, linkage_name="__clang_ocl_kern_imp_k"),
    ]
    found = index(Object(rows=ROWS, scopes=scopes, kernels=KERNEL))
    assert said(found, 0x20) == ("EXACT", [("k", 9), ("k", 17)])


@pytest.mark.parametrize(("file", "reason", "name"), [("/a.cpp", "EXACT", "fact"), ("/a.py", "CONTRADICTORY", None)])
def test_a_recursive_function_keeps_its_name_but_in_python(file: str, reason: str, name: str | None) -> None:
    """No compiler of Python is known to inline a function into itself, and Triton gives a function that is not inlined the names of its helpers."""
    scopes = [Scope("fact", 0, 0x80), Scope("fact", 0x20, 0x40, parent=0, call_line=17)]
    found = index(Object(rows=ROWS, scopes=scopes, kernels=[("fact_user", 0x80, 0x80)], symbols=[("fact", 0, 0x80)],
                         files=("", file)))  # fmt: skip
    assert said(found, 0x20, "fact") == (reason, [(name, 9), ("fact", 17)])


def test_the_nearest_line_of_a_call_without_a_name_stands_for_none() -> None:
    rows = [(0, 17, S), (0x20, 9, S), (0x28, 0, S), (0x40, 18, S), (0x80, 0, E)]
    scopes = [Scope("k", 0, 0x80), Scope("k", 0x20, 0x40, parent=0, call_line=17)]
    found = index(Object(rows=rows, scopes=scopes, kernels=KERNEL))
    assert said(found, 0x28) == ("APPROXIMATE", [(None, 9), ("k", 17)])
    assert written(found, 0x28) == ("APPROXIMATE", [("k", 9), ("k", 17)])
    lineless = index(Object(rows=[(0, 0, S), (0x80, 0, E)], scopes=scopes, kernels=KERNEL))
    assert said(lineless, 0x28) == ("NO_LINE", [(None, 0), ("k", 17)])
    assert written(lineless, 0x28) == ("NO_LINE", [("k", 0), ("k", 17)])


def test_a_breakpoint_stands_on_the_line_of_a_call_without_a_name() -> None:
    scopes = [Scope("k", 0, 0x80), Scope("k", 0x20, 0x40, parent=0, call_line=17)]
    found = index(Object(rows=ROWS, scopes=scopes, kernels=KERNEL))
    places = locate(found, SourceLine("a.cl", 9)).locations
    assert [(place.section_offset, place.function, place.line) for place in places] == [(0x20, None, 9)]


@pytest.mark.parametrize(
    ("row", "reason", "line"),
    [
        ((0x40, 9, S), "CONTRADICTORY", 0),  # stands before the kernel
        ((0x40, 40, S, 2), "CONTRADICTORY", 0),  # in another file
        ((0x40, 18, S), "EXACT", 18),
        ((0x40, 8, S), "EXACT", 8),  # no call has it
        ((0x40, 9, S, 2), "EXACT", 9),
    ],
)
def test_a_line_of_such_a_call_is_not_the_kernels(row: tuple[int, ...], reason: str, line: int) -> None:
    """Intel's compiler lost a piece of what Triton inlined: its row lies in the kernel, which is declared at line 16."""
    rows = [(0, 17, S), (0x20, 9, S), (0x28, 40, S, 2), (0x30, 17, S), row, (0x80, 0, E)]
    scopes = [
        Scope("k", 0, 0x80, lines=(16, 30)),
        Scope("k", 0x20, 0x30, parent=0, call_line=17, lines=(16, 30)),
    ]
    found = index(Object(rows=rows, scopes=scopes, kernels=KERNEL, files=("", "/src/a.py", "/src/b.py")))
    assert said(found, 0x40) == (reason, [("k", line)])
    assert written(found, 0x40) == ("EXACT", [("k", row[1])])
    assert said(found, 0x20) == ("CONTRADICTORY", [(None, 9), ("k", 17)])


def test_a_named_call_may_have_the_line_of_one_without_a_name() -> None:
    rows = [(0, 17, S), (0x20, 9, S), (0x30, 17, S), (0x40, 9, S), (0x50, 18, S), (0x80, 0, E)]
    scopes = [
        Scope("k", 0, 0x80, lines=(16, 30)),
        Scope("k", 0x20, 0x30, parent=0, call_line=17, lines=(16, 30)),
        Scope("helper", 0x40, 0x50, parent=0, call_line=18, lines=(3, 12)),
    ]
    found = index(Object(rows=rows, scopes=scopes, kernels=KERNEL, files=("", "/src/a.py")))
    assert said(found, 0x40) == ("EXACT", [("helper", 9), ("k", 18)])
    assert said(found, 0x20) == ("CONTRADICTORY", [(None, 9), ("k", 17)])

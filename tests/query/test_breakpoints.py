"""Breakpoints in modules small enough to know every answer by hand."""

from __future__ import annotations

import pytest

from symd.config import Limits
from symd.errors import BadQuery, ObjectNotFound
from symd.index import Index
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, SectionOffset
from symd.model.breakpoints import (
    FunctionName,
    KernelName,
    Located,
    LocationSpec,
    Refusal,
    SourceLine,
    parse_place,
    parse_source_line,
)
from symd.model.sources import PathRule
from symd.query.breakpoints import locate
from tests.formats.containers.amd import objects
from tests.query.small import E, Object, P, S, Scope, index

TWICE_ON_ONE_LINE = Object(
    rows=[(0, 1, S), (0x10, 3, P), (0x20, 8, S), (0x30, 8, S), (0x40, 3, S), (0x50, 4, 0), (0x60, 0, E)],
    scopes=[Scope("k", 0, 0x60), Scope("f", 0x20, 0x30, 0, 3), Scope("f", 0x30, 0x40, 0, 3)],
)


def locations(answer: Located) -> list[tuple[int, str | None, int]]:
    """Offset, function and line of each."""
    return [(int(location.section_offset), location.function, location.line) for location in answer.locations]


def ask(*objects: Object, line: int, file: str = "a.cl", every: bool = False, path: str | None = None) -> Located:
    return locate(index(*objects), SourceLine(file, line), path, every_address=every)


def test_two_copies_inlined_by_one_line_are_two_places() -> None:
    answer = ask(TWICE_ON_ONE_LINE, line=8)
    assert locations(answer) == [(0x20, "f", 8), (0x30, "f", 8)]
    assert all(location.inlined and not location.slid and location.kernel == "k" for location in answer.locations)
    assert [location.address for location in answer.locations] == [0x1020, 0x1030]


def test_a_functions_own_line_is_behind_its_prologue() -> None:
    assert locations(ask(TWICE_ON_ONE_LINE, line=1)) == [(0x10, "k", 3)]
    assert locations(ask(TWICE_ON_ONE_LINE, line=1, every=True)) == [(0, "k", 1)]


@pytest.mark.parametrize("size", [1 << 63, (1 << 64) - 0x101])
def test_text_positions_take_all_64_bits(size: int) -> None:
    """In an index that an earlier version made; a module with so much text is malformed."""
    behind = Object("b", rows=[(0, 3, S), (8, 4, P), (16, 5, S), (32, 5, E)], scopes=[Scope("f", 0, 32)])
    assert locations(ask(Object("a", size=size), behind, line=3, path="b")) == [(8, "f", 4)]


def test_of_a_function_the_lowest_statement_address_counts() -> None:
    assert locations(ask(TWICE_ON_ONE_LINE, line=3)) == [(0x10, "k", 3)]
    assert locations(ask(TWICE_ON_ONE_LINE, line=3, every=True)) == [(0x10, "k", 3), (0x40, "k", 3)]


def test_a_line_without_a_statement_slides_and_says_so() -> None:
    answer = ask(TWICE_ON_ONE_LINE, line=4)
    assert locations(answer) == [(0x20, "f", 8), (0x30, "f", 8)]
    assert all(location.slid for location in answer.locations)


def test_a_column_without_code_is_never_left_for_another_line() -> None:
    """Found in a kernel whose line 6 has code at columns 13 and 22: column 99 went to another function's line 12."""
    rows = [(0, 5, S), (0x10, 6, S, 1, 13), (0x20, 6, S, 1, 22), (0x30, 12, S), (0x40, 0, E)]
    found = index(Object(rows=rows, scopes=[Scope("k", 0, 0x40)]))

    def at(column: int) -> list[tuple[int, int, bool]]:
        answer = locate(found, SourceLine("a.cl", 6, column))
        return [(int(each.section_offset), each.column, each.slid) for each in answer.locations]

    assert at(22) == [(0x20, 22, False)]
    assert at(14) == [(0x20, 22, True)]
    assert at(99) == [(0x10, 13, True)]
    assert locate(found, SourceLine("a.cl", 6, 99), every_address=True).refusal is Refusal.NO_CODE_AT_LINE


def test_refusals_have_names() -> None:
    for line, every, refusal in (
        (4, True, Refusal.NO_CODE_AT_LINE),
        (9, True, Refusal.PAST_END),
        (9, False, Refusal.PAST_END),
    ):
        answer = ask(TWICE_ON_ONE_LINE, line=line, every=every)
        assert (answer.locations, answer.refusal, answer.candidates) == ((), refusal, ("/src/a.cl",))
        assert answer.last_line == 8


def test_a_file_nobody_knows_is_refused_with_files_of_that_name() -> None:
    answer = ask(TWICE_ON_ONE_LINE, line=1, file="/elsewhere/A.cl")
    assert (answer.refusal, answer.candidates) == (Refusal.NO_SUCH_FILE, ("/src/a.cl",))
    assert ask(TWICE_ON_ONE_LINE, line=1, file="b.cl").candidates == ()


def test_a_file_without_any_code_is_known() -> None:
    header = Object(rows=TWICE_ON_ONE_LINE.rows, files=("", "/src/a.cl", "/src/a.h"))
    answer = ask(header, line=1, file="a.h")
    assert (answer.refusal, answer.last_line) == (Refusal.NO_CODE_AT_LINE, None)


def test_several_files_are_ambiguous_until_one_is_named() -> None:
    other = Object("second", [(0, 5, S), (0x10, 0, E)], files=("", "/lib/a.cl"))
    answer = ask(TWICE_ON_ONE_LINE, other, line=5)
    assert (answer.refusal, answer.candidates) == (Refusal.AMBIGUOUS_FILE, ("/lib/a.cl", "/src/a.cl"))
    assert locations(ask(TWICE_ON_ONE_LINE, other, line=5, file="lib/a.cl")) == [(0, None, 5)]
    assert locations(ask(TWICE_ON_ONE_LINE, other, line=5, path="second")) == [(0, None, 5)]


def test_two_functions_of_one_name_are_two() -> None:
    """As a static function of a header is, that two units leave out of line."""
    twins = Object(
        rows=[(0, 4, S), (0x10, 0, E), (0x20, 4, S), (0x30, 0, E)],
        scopes=[Scope("f", 0, 0x10), Scope("f", 0x20, 0x30)],
        kernels=[],
    )
    answer = ask(twins, line=4)
    assert locations(answer) == [(0, "f", 4), (0x20, "f", 4)]
    assert {location.kernel for location in answer.locations} == {None}


def test_places_come_by_kernel_then_by_address() -> None:
    several = Object(
        rows=[(0, 4, S), (0x10, 4, S), (0x20, 4, S), (0x30, 0, E)],
        scopes=[Scope("z", 0, 0x10), Scope("a", 0x10, 0x20), Scope("f", 0x20, 0x30)],
        kernels=[("z", 0, 0x10), ("a", 0x10, 0x20)],
    )
    assert [(location.kernel, int(location.section_offset)) for location in ask(several, line=4).locations] == [
        ("a", 0x10),
        ("a", 0x20),
        ("z", 0),
    ]


def test_without_functions_a_kernel_counts_as_one() -> None:
    bare = Object(
        rows=[(0, 4, S), (0x10, 4, S), (0x20, 4, S), (0x30, 0, E)], kernels=[("z", 0, 0x20), ("a", 0x20, 0x20)]
    )
    assert locations(ask(bare, line=4)) == [(0x20, None, 4), (0, None, 4)]


def test_a_symbol_says_where_a_function_begins_as_well_as_a_scope() -> None:
    lines_only = Object(rows=[(0, 1, S), (8, 2, P), (0x10, 0, E)], symbols=[("g", 0, 0x10)])
    assert locations(ask(lines_only, line=1)) == [(8, "g", 2)]


def test_a_row_that_the_next_one_covers_up_is_still_a_place() -> None:
    """The call of what is inlined at the very first byte belongs to the caller."""
    covered = Object(rows=[(0, 3, S), (0, 8, S), (0x10, 0, E)], scopes=[Scope("k", 0, 0x20), Scope("f", 0, 0x10, 0, 3)])
    assert locations(ask(covered, line=3)) == [(0, "k", 3)]
    assert locations(ask(covered, line=8)) == [(0, "f", 8)]


def test_rules_name_the_files_of_the_answer() -> None:
    found = index(TWICE_ON_ONE_LINE)
    for file in ("/home/me/a.cl", "/src/a.cl", "a.cl"):
        answer = locate(found, SourceLine(file, 8), rules=(PathRule("/src", "/home/me"),))
        assert {location.file for location in answer.locations} == {"/home/me/a.cl"}


def test_an_object_that_is_none_is_refused() -> None:
    with pytest.raises(ObjectNotFound):
        ask(TWICE_ON_ONE_LINE, line=1, path="nowhere")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a.cl:8", SourceLine("a.cl", 8)),
        ("C:\\x\\a.cl:12", SourceLine("C:\\x\\a.cl", 12)),
        (" a:1 ", SourceLine("a", 1)),
        ("a.cl:8:15", SourceLine("a.cl", 8, 15)),
        ("C:\\x\\a.cl:12:0", SourceLine("C:\\x\\a.cl", 12)),
    ],
)
def test_a_source_line_is_written_with_a_colon(text: str, wanted: SourceLine) -> None:
    assert parse_source_line(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "a.cl", ":3", "a.cl:", "a.cl:x", "a.cl:0", "a.cl:-1", "a.cl:4294967296", "a:\u0663", "a.cl:0:3"],
)
def test_what_is_no_source_line_is_refused(text: str) -> None:
    with pytest.raises(BadQuery):
        parse_source_line(text)


def test_locations_share_their_texts() -> None:
    """There may be as many as rows, and a name as long as whoever made the module liked."""
    rows = [(at, 8, S) for at in range(0, 0x60, 4)]
    for scopes in ([Scope("f" * 1000, 0, 0x60)], [Scope("k", 0, 0x60), Scope("f" * 1000, 0, 0x60, 0, 3)]):
        found = ask(Object(rows=[*rows, (0x60, 0, E)], scopes=scopes), line=8, every=True).locations
        assert len(found) == len(rows)
        for text in ("function", "file", "kernel"):
            assert len({id(getattr(each, text)) for each in found}) == 1


INSTANCES = """#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
template <typename T> struct is_wide { static constexpr bool value = false; };
template <> struct is_wide<double> { static constexpr bool value = true; };
__device__ int seen;

template <typename T> __device__ void store(T value) {
  int scaled;
  if constexpr (is_wide<T>::value)
    scaled = 100 + (int)value;
  else
    scaled = 200 + (int)value;
  seen = scaled;
}

extern "C" __global__ void both(int i, double d) {
  store(i);
  store(d);
}
"""


def test_a_line_without_code_slides_in_each_instance_of_a_template_by_itself(tmp_path):
    """`if constexpr` leaves each the lines of its own branch. A line that one of them has is not looked for in others."""
    built = objects.compiled(tmp_path, "instances.hip", INSTANCES, "-O0")
    index = Index(build_index(built.read_bytes(), Limits()))

    def found(line: int) -> list[tuple[str, int, bool]]:
        located = locate(index, SourceLine("instances.hip", line))
        return sorted((one.function, one.line, one.slid) for one in located.locations)

    assert found(9) == [("store<double>", 10, True), ("store<int>", 12, True)]
    assert found(10) == [("store<double>", 10, False)]
    assert found(12) == [("store<int>", 12, False)]
    assert found(15) == [("both", 17, True)]


INLINED = Object(
    rows=[(0, 1, S), (0x10, 3, P), (0x20, 8, S), (0x40, 4, S), (0x60, 0, E)],
    scopes=[Scope("k", 0, 0x60), Scope("g", 0x20, 0x40, 0, 3), Scope("f", 0x20, 0x30, 1, 8)],
    symbols=[("lone", 0x80, 0x20)],
)


def test_a_function_is_its_own_beginning_and_that_of_each_inlined_copy() -> None:
    """Of ``g`` the first byte is that of ``f``, which is inlined there."""
    found = index(INLINED)
    for name, expected in (
        ("k", [(0x10, "k", 3)]),
        ("g", [(0x20, "g", 8)]),
        ("f", [(0x20, "f", 8)]),
        ("lone", [(0x80, "lone", 0)]),
    ):
        assert locations(locate(found, FunctionName(name))) == expected
    assert locations(locate(index(TWICE_ON_ONE_LINE), FunctionName("f"))) == [(0x20, "f", 8), (0x30, "f", 8)]
    refused = locate(found, FunctionName("lonely"))
    assert (refused.refusal, refused.candidates) == (Refusal.NO_SUCH_FUNCTION, ("lone",))


def test_a_kernel_is_no_other_function() -> None:
    assert locations(locate(index(INLINED), KernelName("k"))) == [(0x10, "k", 3)]
    refused = locate(index(INLINED), KernelName("lone"))
    assert (refused.refusal, refused.candidates) == (Refusal.NO_SUCH_FUNCTION, ("k",))


def test_a_query_is_each_byte_that_it_means() -> None:
    two = index(Object("a", rows=INLINED.rows), Object("b", rows=INLINED.rows))
    for text, offset in (("0x1024", 0x24), ("k+0x24", 0x24), ("(.text)+0x24", 0x24), ("(#1)+36", 0x24)):
        answer = locate(two, parse_place(text))
        assert [(each.path, each.section_offset, each.line) for each in answer.locations] == [
            ("a", offset, 8),
            ("b", offset, 8),
        ]
    for text, refusal, candidates in (
        ("0x10", Refusal.OUTSIDE_TEXT, ()),
        ("(.text)+0x100", Refusal.OUTSIDE_TEXT, ()),
        ("(.data)+0x1", Refusal.NO_SUCH_SECTION, (".text",)),
        ("k+0x100", Refusal.PAST_END, ()),
        ("none+0x1", Refusal.NO_SUCH_FUNCTION, ()),
    ):
        answer = locate(two, parse_place(text))
        assert (answer.locations, answer.refusal, answer.candidates) == ((), refusal, candidates)


def test_only_code_objects_for_a_target_are_meant() -> None:
    fat = Index(build_index(objects.sample("odd.bundle"), Limits()))
    everywhere = locate(fat, KernelName("shade"))
    targets = dict(zip(fat.objects, fat.targets, strict=True))
    there = {targets[each.path] for each in everywhere.locations}
    assert len(there) > 1
    for target in there:
        assert target is not None
        one = locate(fat, KernelName("shade"), targets=[target.partition(":")[0]])
        assert {targets[each.path] for each in one.locations} == {target}
    refused = locate(fat, KernelName("shade"), targets=["sm_80"])
    assert refused.refusal is Refusal.OTHER_TARGET
    assert set(refused.candidates) >= there


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a.cl:8:15", SourceLine("a.cl", 8, 15)),
        ("ns::scale(float, int)", FunctionName("ns::scale(float, int)")),
        ("operator+", FunctionName("operator+")),
        ("kernel:vadd", KernelName("vadd")),
        ("vadd+0x10", ByKernel("vadd", KernelOffset(16))),
        ("(.text)+4", BySection(".text", SectionOffset(4))),
        ("4", ByAddress(ObjectAddress(4))),
    ],
)
def test_a_place_is_written_as_one_line(text: str, wanted: LocationSpec) -> None:
    assert parse_place(text) == wanted


@pytest.mark.parametrize("text", ["", "kernel:", "a.cl", "a.cl:x", "a.cl:0", ":3", "src/a.cl:"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(BadQuery):
        parse_place(text)

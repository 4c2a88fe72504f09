"""NVIDIA's inlined calls, in tables that are written here byte by byte as ptxas writes them: which row a call stands in, and whose name a row has."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from symd.core import inlined_calls, line_program, name_families
from symd.debuginfo.dwarf import lines as lines_module
from symd.debuginfo.dwarf.columns import LineColumns
from symd.model.debug_info import Doubt, RowFlag
from tests.core.uncompiled import uncompiled
from tests.debuginfo.dwarf.decode import read_lines

BASE, LINE_BASE, LINE_RANGE = 10, -5, 14
COPY, END = b"\x01", b"\x00\x01\x01"


def uleb(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def sleb(value: int) -> bytes:
    out = bytearray()
    while not -64 <= value < 64:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value & 0x7F])


def call(context: int, name: int) -> bytes:
    operands = b"\x90" + uleb(context) + uleb(name)
    return b"\x00" + uleb(len(operands)) + operands


def line(delta: int) -> bytes:
    return b"\x03" + sleb(delta)


def pc(delta: int) -> bytes:
    return b"\x02" + uleb(delta)


def special(address: int, delta: int) -> bytes:
    return bytes([address * LINE_RANGE + delta - LINE_BASE + BASE])


def start(address: int = 0) -> bytes:
    return b"\x00\x09\x02" + struct.pack("<Q", address)


def table(*program: bytes, names_base: int = 0) -> bytes:
    """A table of DWARF 2 with one file and four bytes behind it that say where names count from."""
    head = bytes([1, 1, LINE_BASE & 0xFF, LINE_RANGE, BASE, 0, 1, 1, 1, 1, 0, 0, 0, 1]) + b"\0a.cu\0\0\0\0\0"
    head += struct.pack("<I", names_base)
    body = struct.pack("<HI", 2, len(head)) + head + b"".join(program)
    return struct.pack("<I", len(body)) + body


COMPILED = line_program, inlined_calls, name_families
UNCOMPILED = tuple(uncompiled(name) for name in ("line_program", "inlined_calls", "name_families"))


@pytest.fixture(params=[COMPILED, UNCOMPILED], ids=["compiled", "uncompiled"], autouse=True)
def core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, calls, _ = request.param
    monkeypatch.setattr(lines_module, "LineProgramRows", rows.LineProgramRows)
    monkeypatch.setattr(lines_module, "StringReader", calls.StringReader)
    monkeypatch.setattr(lines_module, "inlined_calls", calls)


def read(*tables: bytes, strings: Sequence[str] = ("f", "g")) -> LineColumns:
    found = read_lines(
        {".debug_line": b"".join(tables), ".debug_str": b"".join(one.encode() + b"\0" for one in strings)}
    )
    assert found.warnings == ()
    assert found.calls is not None
    return found


def said(lines: LineColumns, *, as_written: bool = False) -> list[tuple[int, int, int, str]]:
    """(address, line, line of the call or 0, name) of each row but those that end a sequence."""
    calls = lines.calls
    assert calls is not None
    sites = calls.written_site if as_written else calls.site
    names = calls.written_name if as_written else calls.name
    return [
        (
            int(lines.address[at]),
            int(lines.line[at]),
            int(lines.line[sites[at] - 1]) if sites[at] else 0,
            lines.names[names[at]],
        )
        for at in range(len(lines))
        if not lines.flags[at] & RowFlag.END_SEQUENCE
    ]


def test_a_row_that_was_left_out_first_in_a_sequence_has_no_call_of_the_one_before() -> None:
    first = (start(), line(9), COPY, pc(1), call(1, 0), line(5), COPY, pc(1), END)
    second = (start(64), call(1, 0), pc(1), line(5), COPY, pc(1), END)
    lines = read(table(*first, *second))
    assert lines.calls is not None
    implied = [at for at in range(len(lines)) if lines.flags[at] & RowFlag.IMPLIED]
    assert [(int(lines.address[at]), int(lines.calls.written_site[at])) for at in implied] == [(65, 0)]


def test_what_is_left_out_leaves_no_calls() -> None:
    sound = table(start(), line(9), COPY, pc(16), END)
    cut = table(start(), call(1, 0), COPY, b"\x02")
    endless = table(start(), call(1, 0), COPY)
    for left_out in (cut, endless):
        found = read_lines({".debug_line": sound + left_out, ".debug_str": b"f\0"})
        assert (len(found.warnings), found.calls) == (1, None)


def test_rows_that_are_written_twice_are_not_counted() -> None:
    """As from sm_90 on: the first row of the second function stands twice."""
    program = (
        start(), line(9), COPY, pc(16), COPY, line(0), COPY,
        line(10), pc(16), COPY, call(3, 0), line(-15), COPY, pc(16), call(0, 0), line(20), COPY, pc(16), END,
    )  # fmt: skip
    lines = read(table(*program))
    assert said(lines)[-2:] == [(32, 5, 20, "f"), (48, 25, 0, "")]
    assert said(lines, as_written=True)[-2] == (32, 5, 10, "f")
    assert not lines.calls.doubt.any()


def test_where_the_two_rules_differ_nobody_knows_the_caller() -> None:
    """The row before the first use is not the one that is counted."""
    lines = read(table(start(), line(9), COPY, pc(16), line(1), COPY, call(1, 0), line(-8), COPY, pc(16), END))
    assert [bool(doubt & Doubt.CALLER) for doubt in lines.calls.doubt[:3].tolist()] == [False, False, True]
    assert said(lines)[2] == (16, 3, 0, "")
    assert said(lines, as_written=True)[2] == (16, 3, 10, "f")


@pytest.mark.parametrize(
    ("then", "after"),
    [
        ((special(0, 2),), (32, 7, 10, "f")),
        ((line(2), pc(16), COPY), (48, 7, 10, "f")),
        ((call(3, 0), line(2), pc(16), COPY), (48, 7, 20, "f")),
    ],
    ids=["a special opcode", "a line", "another call"],
)
def test_a_row_that_is_left_out_is_one_all_the_same(then: tuple[bytes, ...], after: tuple[int, int, int, str]) -> None:
    """Below sm_90: a row of which the call alone is another ends with the advance of the address."""
    program = (
        start(), line(9), COPY, call(1, 0), line(-5), COPY, call(0, 0), line(15), pc(16), COPY, call(3, 0), line(-15), COPY,
        call(1, 0), pc(16), *then, pc(16), END,
    )  # fmt: skip
    lines = read(table(*program))
    assert said(lines)[4:6] == [(32, 5, 10, "f"), after]
    implied = [bool(flags & RowFlag.IMPLIED) for flags in lines.flags.tolist()]
    assert implied == [False, False, False, False, True, False, False]
    assert said(lines, as_written=True)[4] == (32, 5, 20, "f")


def test_an_advance_without_a_call_before_it_is_none() -> None:
    lines = read(
        table(
            start(),
            line(9),
            COPY,
            call(1, 0),
            line(-5),
            COPY,
            pc(16),
            line(3),
            COPY,
            pc(16),
            special(0, 2),
            pc(16),
            END,
        )
    )
    assert not (lines.flags & RowFlag.IMPLIED).any()


def named_rows(*rows: tuple[int, int | None]) -> bytes:
    """A table of rows that are inlined at line 10: each with its line and the name that is written for it, None where none is."""
    program, at = [start(), line(9), COPY], 10
    for number, (where, name) in enumerate(rows):
        program += [] if name is None else [call(1, name)]
        program += [line(where - at), *((pc(16),) if number else ()), COPY]
        at = where
    return table(*program, pc(16), END)


def test_a_name_that_alone_changes_is_that_of_the_lines() -> None:
    lines = read(named_rows((2, 0), (7, 2), (2, None), (7, None), (8, None)))
    assert [name for *_, name in said(lines)[1:]] == ["f", "g", "f", "g", "g"]
    assert [name for *_, name in said(lines, as_written=True)[1:]] == ["f", "g", "g", "g", "g"]
    doubts = [bool(doubt & Doubt.NAME) for doubt in lines.calls.doubt.tolist()]
    assert doubts == [False, False, False, True, False, False, False]


def test_two_functions_on_one_line_have_their_names() -> None:
    """A macro may make both. A row without a name of its own may be of either."""
    lines = read(named_rows((2, 0), (2, 2), (2, None)))
    assert [name for *_, name in said(lines)[1:]] == ["f", "g", ""]


def test_the_name_of_the_row_before_is_not_believed_for_a_line_of_another_function() -> None:
    """The assembler writes the name of the row before again now and then, which is line 7 of g here."""
    lines = read(named_rows((2, 0), (7, 2), (2, 2)))
    assert [name for *_, name in said(lines)[1:]] == ["f", "g", ""]
    elsewhere = read(named_rows((2, 0), (7, 2), (2, 2), (3, 0), (2, 2)))
    assert [name for *_, name in said(elsewhere)[1:]] == ["f", "g", "g", "f", "g"]


def test_of_names_that_all_are_those_of_the_rows_before_that_of_most_calls_is_believed() -> None:
    """Line 2 has f twice and g once, each time behind a row of the function that has the name."""
    written = [(5, "f"), (2, "f"), (5, "f"), (2, "f"), (7, "g"), (2, "g")]
    program = [start(), line(9)]
    for number, (where, name) in enumerate(written):
        of_call = call(2 * number + 1, "f g".index(name))
        program += [call(0, 0), COPY, of_call, line(where - 10), COPY, line(10 - where), pc(16)]
    found = said(read(table(*program, END)))
    assert [(at, name) for _, at, site, name in found if site] == [*written[:-1], (2, "")]


def test_a_lambda_may_stand_in_one_line_with_its_function() -> None:
    names = ("_Z1ff", "_ZZ1ffENKUlfE_clEf")
    lines = read(named_rows((2, 0), (2, len(names[0]) + 1)), strings=names)
    assert [name for *_, name in said(lines)[1:]] == list(names)


def test_a_constructor_is_one_function_whichever_kind_of_it() -> None:
    names = ("_ZN1aC1Ef", "_ZN1aC2Ef")
    lines = read(named_rows((2, 0), (2, len(names[0]) + 1)), strings=names)
    assert [name for *_, name in said(lines)[1:]] == list(names)


TEMPLATES = ("_Z1fILi1EEff", "_Z1fILi2EEff", "_Z1gf")
SECOND, OTHER = len(TEMPLATES[0]) + 1, len(TEMPLATES[0]) + len(TEMPLATES[1]) + 2


def test_an_instance_of_a_template_is_not_taken_for_another() -> None:
    """The second instance's first line is another one than that which the first has too."""
    lines = read(named_rows((2, 0), (3, None), (7, OTHER), (8, SECOND), (2, None)), strings=TEMPLATES)
    names = [name for *_, name in said(lines)[1:]]
    assert names == [TEMPLATES[0], TEMPLATES[0], TEMPLATES[2], TEMPLATES[1], ""]


def test_names_of_images_that_were_linked_for_hopper_lie_behind_those_of_the_table_before() -> None:
    inlined, later = ((line(9), COPY, call(1, 0), line(lines), COPY, pc(16), END) for lines in (-5, -4))
    strings = ("first", "second", "third")
    two = [table(start(1 << 20), *inlined), table(start(2 << 20), *later)]
    assert [name for *_, name in said(read(*two, strings=strings)) if name] == ["first", "second"]
    assert [name for *_, name in said(read(*two, strings=strings), as_written=True) if name] == ["first", "first"]
    apart = [two[0], table(start(2 << 20), *later, names_base=13)]
    assert [name for *_, name in said(read(*apart, strings=strings)) if name] == ["first", "third"]


def test_a_name_that_would_begin_inside_a_string_is_none() -> None:
    wrong = table(start(), line(9), COPY, call(1, 2), line(-5), COPY, pc(16), END)
    assert [name for *_, name in said(read(wrong, strings=("first",)))] == ["", ""]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("_Z1fILi3EEff", "_Z1f"),
        ("_Z1ff", "_Z1f"),
        ("_ZN1a1bIfLj4EE1cEv", "_ZN1a1b1cE"),
        ("_ZN1a1bINS_1dIiEELb1EE1cEv", "_ZN1a1b1cE"),
        ("_ZN1a1bIL_Z1gvEE1cEv", "_ZN1a1b1cE"),
        ("_ZZ1fILi1EEffENKUlfE_clEf", "_ZZ1fffENKUlfE_clE"),
        ("_ZN1aIN1bIiE1cELi3EE1dIfEEvT_", "_ZN1a1dE"),
        ("_Z1fIJifEEvDpT_", "_Z1f"),
        ("_ZN1aILN2ns4ModeE0EE1fEv", "_ZN1a1fE"),  # a<(ns::Mode)0>::f()
        ("_ZN1aILN2ns4ModeE1EiE1fEv", "_ZN1a1fE"),
        ("_ZN2ns1fILNS_4ModeE1EEEvf", "_ZN2ns1fE"),
        ("_ZN1aIA4_fE1fEv", "_ZN1a1fE"),  # a<float [4]>::f()
        ("_ZN1aIDv4_fE1gEv", "_ZN1a1gE"),
        ("_Z1fILDn0EEvv", "_Z1f"),
        ("saxpy", "saxpy"),
        ("_Z", "_Z"),
        ("_Z99999999999999999999f", "_Z99999999999999999999f"),
    ],
)
def test_instances_of_one_template_are_a_family(name: str, family: str) -> None:
    for core in (COMPILED, UNCOMPILED):
        assert core[-1].without_template_arguments(name) == family


def test_its_numbers_are_those_of_rows_and_doubts() -> None:
    known = inlined_calls._NAME, inlined_calls._CALLER, UNCOMPILED[1]._IMPLIED
    assert known == (Doubt.NAME, Doubt.CALLER, RowFlag.IMPLIED)

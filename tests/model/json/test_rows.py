"""Rows that are put together from pieces of text are the JSON that the standard library writes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.model.answers import Frame, TextSection
from symd.model.debug_info import RowFlag
from symd.model.json import answers, to_ascii_json, to_json
from symd.model.json.answers import frames_text, row_lines
from symd.model.json.modules import kernel_json
from symd.model.line_tables import LineTable
from symd.model.summaries import KernelSummary

STRINGS = ("", "vadd", 'quote " and \\', "größe", "tab\tnewline\n", "\x1b[31m")
SECTIONS = (
    TextSection("a/b", ".text", 1, 0x1000),
    TextSection("a/b", None, 2, 0),
    TextSection("a/b", STRINGS[2], 3, 7),
)

string = st.integers(0, len(STRINGS) - 1)
row = st.tuples(
    st.integers(0, len(SECTIONS) - 1), st.integers(0, (1 << 64) - 1), string, string, string,
    st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1), st.integers(0, 31), string,
)  # fmt: skip
KINDS = (np.uint32, np.uint64, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint8, np.uint32)


def plain(table: LineTable, values: tuple[int, ...], *, with_text: bool) -> dict[str, object]:
    """A row as the contract has it, member by member."""
    section, offset, kernel, function, file, line, column, flags, text = values
    place = table.text_sections[section]
    return {
        "object": "a/b",
        "target": "dg2",
        "section": place.section,
        "section_index": None if place.section is None else place.section_index,
        "section_offset": offset,
        "address": place.address + offset,
        "kernel": STRINGS[kernel] or None,
        "function": STRINGS[function] or None,
        "file": STRINGS[file] or None,
        "line": line,
        "column": column,
        "is_stmt": bool(flags & RowFlag.IS_STMT),
        "end_sequence": bool(flags & RowFlag.END_SEQUENCE),
        **({"prologue_end": True} if flags & RowFlag.PROLOGUE_END else {}),
        **({"text": STRINGS[text] or None} if with_text else {}),
    }


@pytest.mark.parametrize("with_text", [False, True])
@given(rows=st.lists(row, min_size=1, max_size=9), at_a_time=st.integers(1, 4))
def test_every_row_is_what_the_standard_library_writes(rows, at_a_time, with_text):
    columns = [np.array(column, kind) for column, kind in zip(zip(*rows, strict=True), KINDS, strict=True)]
    table = LineTable("a/b", "dg2", *columns[:8], SECTIONS, STRINGS, columns[8] if with_text else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "ROWS_PER_TEXT", at_a_time)
        texts = list(row_lines(table))
    assert len(texts) == -(-len(rows) // at_a_time)
    expected = [json.dumps(plain(table, each, with_text=with_text), ensure_ascii=False) for each in rows]
    assert "".join(texts).splitlines(keepends=True) == [f"{line}\n" for line in expected]


def test_frames_are_pure_ascii_and_say_what_they_said():
    frames = [Frame("größe", None, "/src/ü.cl", 3, 0, inlined=True), Frame("f\n", "_Z1f", None, 0, 0, False, 7)]
    text = frames_text(frames)
    assert (text.isascii(), "\n" in text) == (True, False)
    without_start = {name: value for name, value in frames[0]._asdict().items() if name != "start_line"}
    assert json.loads(text) == [without_start, frames[1]._asdict()]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda value: st.lists(value) | st.dictionaries(st.text(), value),
    )
)
def test_both_encodings_are_the_standard_librarys(value):
    assert to_json(value) == json.dumps(value, ensure_ascii=False)
    assert to_ascii_json(value) == json.dumps(value)


def test_a_fact_never_hides_where_a_kernel_is():
    facts = {"size": 1, "name": "other", "section": "x", "section_index": 9, "offset": 8, "simd_width": 16}
    described = kernel_json(KernelSummary("vadd", ".text.vadd", 1, 0, 640, facts))
    assert list(described.items()) == [
        ("name", "vadd"), ("section", ".text.vadd"), ("section_index", 1), ("offset", 0), ("size", 640), ("simd_width", 16)
    ]  # fmt: skip

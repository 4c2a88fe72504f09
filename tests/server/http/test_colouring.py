"""Colours of source text: every character of every line has one, and what GPU languages add to C is coloured."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.server.http import colouring
from symd.server.http.colouring import MAX_LINE, Colour, ColouredApart, coloured

SAMPLES = sorted((Path(__file__).parents[3] / "samples").glob("*/*.c[lu]*"))


def words(file, text):
    """(colour, characters) of each run of the only line."""
    (row,) = coloured(file, text)
    found, at = [], 0
    for colour, size in zip(row[::2], row[1::2], strict=True):
        found.append((Colour(colour), text[at : at + size]))
        at += size
    return found


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("a.cl", "kernel void f(global float4 *a)", [(Colour.KEYWORD, "kernel"), (Colour.KEYWORD, "global"), (Colour.TYPE, "float4")]),
        ("a.cu", "__global__ void f(int n) { // x", [(Colour.KEYWORD, "__global__"), (Colour.TYPE, "int"), (Colour.COMMENT, "// x")]),
        ("a.py", "def f(x): return 'a' + 1", [(Colour.KEYWORD, "def"), (Colour.FUNCTION, "f"), (Colour.NUMBER, "1")]),
        ("a.cl", "#define A 0x1f", [(Colour.PREPROCESSOR, "#")]),
    ],
)  # fmt: skip
def test_words_have_their_colours(file, text, expected):
    found = words(file, text)
    for colour, word in expected:
        assert any(each == colour and word in part for each, part in found), (colour, word, found)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_each_line_of_a_sample_has_a_row_no_longer_than_itself(sample):
    text = "\n".join(sample.read_text().splitlines())
    rows = coloured(sample.name, text)
    assert len(rows) == len(text.split("\n"))
    for line, row in zip(text.split("\n"), rows, strict=True):
        assert sum(row[1::2]) <= len(line)
        assert all(row[1::2])
    assert any(row for row in rows)


@given(
    st.text(alphabet="a/*\"'\\\n {}#0é\u2028x", max_size=60),
    st.sampled_from(["a.cl", "a.py", "a.rs", "a.f90", "a.jl", "a"]),
)
def test_any_text_has_as_many_rows_as_lines(text, file):
    rows = coloured(file, text)
    lines = text.split("\n")
    assert len(rows) == len(lines)
    assert all(sum(row[1::2]) <= len(line) for row, line in zip(rows, lines, strict=True))


def test_what_machines_wrote_stays_plain():
    assert coloured("a.cl", "int " * MAX_LINE) == [[]]


ENDLESS = "a b()" + "//\\\n" * 60 + '"'
"""A C++ lexer's expression takes 2^60 steps for it: each line is a comment of its own, or the same one going on."""


def test_a_text_for_which_a_lexer_takes_for_ever_stays_plain_and_holds_up_nobody(monkeypatch):
    limits = replace(colouring.PROCESS_LIMITS, seconds=2.0)
    with closing(ColouredApart()) as colour:
        lines = "kernel void f(global float4 *a)\n/* x\ny */"
        assert colour("a.cl", lines) == coloured("a.cl", lines)
        monkeypatch.setattr(colouring, "PROCESS_LIMITS", limits)
        steps, over = 0, threading.Event()
        with ThreadPoolExecutor(1) as pool:
            waited = pool.submit(colour, "a.cl", ENDLESS)
            waited.add_done_callback(lambda _: over.set())
            while not over.wait(0.01):
                steps += 1
            assert waited.result() == [[] for _ in ENDLESS.split("\n")]
        assert steps > 20  # this process went on meanwhile
        begun = time.monotonic()
        assert colour("a.cl", ENDLESS) == waited.result()
        assert time.monotonic() - begun < limits.seconds / 2  # it is remembered
        monkeypatch.undo()
        assert colour("a.cl", lines) == coloured("a.cl", lines)

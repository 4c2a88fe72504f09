"""symd lines."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.fake import FakeSymbolizer, line_table

CONTRACT = (
    '{"object": "", "target": "dg2", "section": ".text.vadd", "section_index": 1, "section_offset": 272, "address": 272, '
    '"kernel": "vadd", "function": "vadd", "file": "/src/vadd.cl", "line": 8, "column": 15, "is_stmt": true, "end_sequence": false}'
)
"""The row that the contract shows."""


def test_json_is_the_contracts_row_to_the_letter(run: Run, fake: FakeSymbolizer, module: Path):
    outcome = run("lines", "--json", module)
    first, last = outcome.out.splitlines()
    assert first == CONTRACT
    assert json.loads(last) == {
        **json.loads(CONTRACT),
        "section_offset": 288,
        "address": 288,
        "kernel": None,
        "function": None,
        "file": None,
        "line": 0,
        "column": 0,
        "is_stmt": False,
        "end_sequence": True,
    }


def test_a_row_without_a_section_has_nulls(run: Run, fake: FakeSymbolizer, module: Path):
    fake.tables = (line_table(section=None),)
    first = run("lines", "--json", module).json[0]
    assert (first["section"], first["section_index"], first["address"]) == (None, None, 272)


@pytest.mark.parametrize("name", ['quote " and \\', "größe", "tab\tnewline\n", "lone \udc80 surrogate", "\x1b[31m"])
def test_any_name_survives_json_and_none_reaches_the_terminal_raw(
    run: Run, fake: FakeSymbolizer, module: Path, name: str
):
    fake.tables = (replace(line_table(path=name), strings=("", name, name)),)
    row = run("lines", "--json", module).json[0]
    assert {row["object"], row["kernel"], row["file"]} == {name}
    text = run("lines", module).out
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_text_is_a_table_with_headings(run: Run, fake: FakeSymbolizer, module: Path):
    lines = run("lines", module).out.splitlines()
    assert lines[0] == "dg2  .text.vadd  kernel vadd"
    assert lines[1].split() == ["address", "line:col", "flags", "file"]
    assert lines[2].split() == ["0x0000000110", "8:15", "is_stmt", "/src/vadd.cl"]
    assert lines[-1].split() == ["0x0000000120", "0", "end_sequence"]


def test_more_rows_than_a_chunk_come_whole_and_in_order(run: Run, fake: FakeSymbolizer, module: Path, monkeypatch):
    monkeypatch.setattr("symd.cli.lines.CHUNK", 1)
    fake.tables = (line_table(), line_table("other"))
    rows = run("lines", "--json", module).json
    assert [(row["object"], row["address"]) for row in rows] == [("", 272), ("", 288), ("other", 272), ("other", 288)]


def test_no_line_table_is_a_no_that_says_what_there_is(run: Run, fake: FakeSymbolizer, module: Path):
    fake.tables = ()
    outcome = run("lines", module)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"symd: {module}: no line table (debug data: dwarf-4)")


def test_a_real_module(symd: Run, sample: Path):
    outcome = symd("lines", "--json", sample)
    assert outcome.code == 0
    assert {row["kernel"] for row in outcome.json} == {"vadd"}
    assert outcome.json[-1]["end_sequence"]

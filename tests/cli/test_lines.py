"""symd lines."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from symd.engine.reading.questions import InProcessReader
from symd.index.module import decoded_objects
from tests import tools
from tests.cli.conftest import ROOT, Run
from tests.cli.fake import FakeSymbolizer, line_table

CUDA = ROOT / "samples" / "cuda" / "bin"

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
    assert all(character.isprintable() or character == "\n" for character in text)


def test_text_is_a_table_with_headings(run: Run, fake: FakeSymbolizer, module: Path):
    lines = run("lines", module).out.splitlines()
    assert lines[0] == "dg2  dwarf-4  .text.vadd  kernel vadd"
    assert lines[1].split() == ["address", "line:col", "flags", "file"]
    assert lines[2].split() == ["0x0000000110", "8:15", "is_stmt", "/src/vadd.cl"]
    assert lines[-1].split() == ["0x0000000120", "0", "end_sequence"]


def test_more_rows_than_a_chunk_come_whole_and_in_order(run: Run, fake: FakeSymbolizer, module: Path, monkeypatch):
    monkeypatch.setattr("symd.model.json.answers.ROWS_PER_TEXT", 1)
    fake.tables = (line_table(), line_table("other"))
    rows = run("lines", "--json", module).json
    assert [(row["object"], row["address"]) for row in rows] == [("", 272), ("", 288), ("other", 272), ("other", 288)]


def without_rows(fake: FakeSymbolizer, *kinds: str) -> None:
    """The module has code objects with debug data of these kinds, and no table a row."""
    fake.tables = ()
    (item,) = fake.summary.objects
    fake.summary = fake.summary._replace(objects=tuple(item._replace(debug=kind) for kind in kinds))


@pytest.mark.parametrize("kinds", [("none",), ("dwarf-5", "none")])
def test_no_line_table_is_a_no_that_says_what_there_is(
    run: Run, fake: FakeSymbolizer, module: Path, kinds: tuple[str, ...]
):
    without_rows(fake, *kinds)
    outcome = run("lines", module)
    assert (outcome.code, outcome.out) == (1, "")
    said = f"no line table (debug data: {', '.join(kinds)}) (compile with -g "
    assert outcome.err.startswith(f"symd: {module}: {said}")
    assert outcome.err.endswith("; symd info shows why)\n")


def test_debug_data_without_a_row_is_not_told_to_be_made(run: Run, fake: FakeSymbolizer, module: Path):
    """A unit of declarations alone, as libraries without kernels have them: -g was there."""
    without_rows(fake, "dwarf-5", "dwarf-4")
    outcome = run("lines", module)
    assert (outcome.code, outcome.out) == (1, "")
    said = (
        "no row of a line table is about its code (debug data: dwarf-4, dwarf-5) (symd info shows what code there is)"
    )
    assert outcome.err == f"symd: {module}: {said}\n"


def test_a_real_module(symd: Run, sample: Path):
    outcome = symd("lines", "--json", sample)
    assert outcome.code == 0
    assert {row["kernel"] for row in outcome.json} == {"vadd"}
    assert outcome.json[-1]["end_sequence"]


PTX_ROW = {
    "object": "",
    "target": "sm_75",
    "section": ".text.scale",
    "section_offset": 0x60,
    "kernel": "scale",
    "function": "scale",
    "file": ".nv_debug_ptx_txt",
    "column": 0,
    "end_sequence": False,
    "text": "st.global.f32 \t[%rd4], %f3;",
}
"""The row of the store in saxpy.sm_75.lines.cubin, as nvdisasm -gp and cuobjdump -ptx show it."""


def test_the_ptx_level_has_the_text_of_each_line(run: Run):
    outcome = run("lines", "--level", "ptx", "--json", CUDA / "saxpy.sm_75.lines.cubin")
    assert (outcome.code, outcome.err) == (0, "")
    [row] = [row for row in outcome.json if row["kernel"] == "scale" and row["section_offset"] == 0x60]
    assert PTX_ROW.items() <= row.items()
    assert list(row)[-1] == "text"
    assert all(row["text"] for row in outcome.json if not row["end_sequence"])
    assert all(row["text"] is None for row in outcome.json if row["end_sequence"])


def test_the_ptx_level_in_text_shows_the_line_beside_its_number(run: Run):
    lines = run("lines", "--level", "ptx", CUDA / "saxpy.sm_75.lines.cubin").out.splitlines()
    assert lines[1].split() == ["address", "line:col", "flags", "file", "text"]
    assert any(line.startswith("0x") and line.endswith("st.global.f32  [%rd4], %f3;") for line in lines)


def test_rows_of_the_source_level_have_no_text(run: Run):
    assert "text" not in run("lines", "--json", CUDA / "saxpy.sm_75.lines.cubin").json[0]


def test_the_ptx_level_of_a_host_program_names_the_cubins_that_have_it(run: Run):
    rows = run("lines", "--level", "ptx", "--json", CUDA / "program").json
    assert {row["object"] for row in rows} == {".nv_fatbin/sm_80#2"}
    only = run("lines", "--level", "ptx", "--json", "--object", ".nv_fatbin/sm_80#2", CUDA / "program").json
    assert only == rows


def test_linked_images_say_which_units_ptx_a_line_is_of(run: Run):
    rows = run("lines", "--level", "ptx", "--json", CUDA / "linked.sm_80.lines.cubin").json
    assert {row["file"].rpartition(".")[0] for row in rows} == {".nv_debug_ptx_txt"}
    assert len({row["file"] for row in rows}) == 2


@pytest.mark.parametrize(
    "file",
    [
        CUDA / "saxpy.sm_90.none.cubin",
        CUDA / "saxpy.ptx.fatbin",  # a module without any code object
        ROOT / "samples/kernels/bin/vadd/dg2-opt.dbg",
    ],
)
def test_what_has_no_ptx_lines_says_so(run: Run, file: Path):
    outcome = run("lines", "--level", "ptx", file)
    assert (outcome.code, outcome.out) == (1, "")
    assert "no PTX lines" in outcome.err
    assert "-lineinfo" in outcome.err


def test_an_object_that_is_not_there_is_a_no_at_every_level(run: Run):
    for level in ("source", "ptx"):
        assert run("lines", "--level", level, "--object", "nowhere", CUDA / "program").code == 1


def test_a_daemon_answers_the_ptx_level_with_the_same_words(symd: Run, server: str):
    for form in ([], ["--json"]):
        arguments = ("--level", "ptx", *form, CUDA / "program")
        here, there = symd("lines", *arguments), symd("lines", "--server", server, *arguments)
        assert (there.code, there.out) == (0, here.out)
        assert "ld.global" in here.out


HOST = ROOT / "samples" / "amdgpu" / "bin" / "host"
BUNDLE = CUDA / "tonemap.zstd.fatbin"
OF_ONE_OBJECT = (
    ("lines", ()),
    ("lines", ("--level", "ptx")),
    ("listing", ()),
    ("names", ("*",)),
    ("locate", ("shade.hip:12",)),
    ("variables", ("0x10",)),
)


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("file", [HOST, BUNDLE], ids=["host", "fatbin"])
@pytest.mark.parametrize(
    ("verb", "words"), OF_ONE_OBJECT, ids=[" ".join((verb, *words)) for verb, words in OF_ONE_OBJECT]
)
def test_of_one_code_object_nothing_else_is_decoded(run: Run, monkeypatch, file: Path, verb: str, words, size: str):
    paths = [each["object"] for each in run("info", "--json", file).json[0]["objects"]]
    monkeypatch.setattr("symd.engine.files.module.InProcessReader", lambda limits, only: InProcessReader(limits))
    before = [run(verb, "--json", file, *words, "--object", path) for path in (*paths, "nowhere")]
    monkeypatch.undo()
    decoded = []

    def counted(objects, *rest):
        decoded.append([code.path for code in objects])
        return decoded_objects(objects, *rest)

    monkeypatch.setattr("symd.index.module.decoded_objects", counted)
    monkeypatch.setattr("symd.engine.reading.LARGE", 1 if size == "large" else 1 << 30)
    assert [run(verb, "--json", file, *words, "--object", path) for path in (*paths, "nowhere")] == before
    assert decoded == [[path] for path in paths], "of a path that is none nothing"
    assert before[-1].code == 1


def test_the_version_of_dwarf_and_the_end_of_the_prologue_are_shown(run: Run):
    """As readelf --debug-dump=info and llvm-dwarfdump --debug-line have them."""
    file = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900-O0.co"
    told = tools.output(tools.require("llvm-dwarfdump-22"), "--debug-line", file)
    ends = re.findall(r"^0x([0-9a-f]{16}) .*prologue_end", told, re.MULTILINE)
    version = re.search(r"version = 0x000(\d)", tools.output(tools.require("llvm-dwarfdump-22"), "--debug-info", file))
    lines = run("lines", file).out.splitlines()
    assert version
    assert f"dwarf-{version[1]}" in lines[0].split()
    assert ends
    assert [int(line.split()[0], 16) for line in lines if "prologue_end" in line] == [int(end, 16) for end in ends]
    marked = [row for row in run("lines", "--json", file).json if row.get("prologue_end")]
    assert [row["address"] for row in marked] == [int(end, 16) for end in ends]

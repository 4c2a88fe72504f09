"""Answers, line tables and listings as tables: each row says what the value itself says, and what the published JSON says."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import symd
from symd.errors import ToolMissing
from symd.model.answers import Answer, Frame
from symd.model.json.answers import row_lines
from symd.model.line_tables import Listing

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def answers(cubin: symd.Module):
    """Of every kind: with inlined frames, with candidates, outside of text, of a kernel that is not there."""
    kernel = cubin.kernels[0]
    offsets = [f"{kernel.name}+{at}" for at in range(0, kernel.size + 64, 16)]
    return cubin.symbolize([*offsets, "nothing+1", "0x10", 1 << 60])


def rows(table) -> list[dict[str, object]]:
    """A table of Arrow's as Python's values."""
    return table.to_pylist()


def test_an_answer_is_a_row(answers) -> None:
    assert {len(each.frames) for each in answers} >= {0, 1, 2}
    wanted = [answer_row(each) for each in answers]
    assert rows(answers.to_arrow()) == wanted
    frame = answers.to_pandas()
    assert frame.astype(object).where(frame.notna(), None).to_dict("records") == wanted


def answer_row(answer: Answer) -> dict[str, object]:
    frame = answer.frames[0] if answer.frames else Frame(None, None, None, 0, 0, inlined=False)
    return {
        "reason": answer.reason.name,
        "kernel": answer.kernel,
        "object": answer.path,
        "section": answer.section,
        "section_index": answer.section_index,
        "section_offset": answer.section_offset,
        "address": answer.address,
        "function": frame.function,
        "linkage_name": frame.linkage_name,
        "file": frame.file,
        "line": frame.line if answer.frames else None,
        "column": frame.column if answer.frames else None,
        "inlined": frame.inlined,
        "depth": len(answer.frames),
    }


def test_a_frame_is_a_row(answers) -> None:
    wanted = [
        (number, level, answer.reason.name, frame.function, frame.file, frame.line, frame.inlined)
        for number, answer in enumerate(answers)
        for level, frame in enumerate(answer.frames)
    ]
    names = ("answer", "level", "reason", "function", "file", "line", "inlined")
    assert [tuple(row[name] for name in names) for row in rows(answers.to_arrow(frames=True))] == wanted
    assert len(answers.to_pandas(frames=True)) == len(wanted)


def test_tables_of_nothing_have_their_columns(cubin: symd.Module, answers) -> None:
    nothing = cubin.symbolize([])
    for frames in (False, True):
        assert nothing.to_arrow(frames=frames).schema == answers.to_arrow(frames=frames).schema
        assert list(nothing.to_pandas(frames=frames).columns) == list(answers.to_pandas(frames=frames).columns)


def test_the_types_of_columns_do_not_depend_on_what_is_in_them(cubin: symd.Module, answers) -> None:
    one = cubin.symbolize([f"{cubin.kernels[0].name}+0"])
    assert one.to_arrow().schema == answers.to_arrow().schema
    whole_numbers = [name for name, kind in answers.to_pandas().dtypes.items() if str(kind).startswith("UInt")]
    assert whole_numbers == ["section_index", "section_offset", "address", "line", "column"]
    for name in whole_numbers:
        assert one.to_pandas()[name].dtype == answers.to_pandas()[name].dtype


@pytest.mark.parametrize("module", ["vadd", "cubin"])
def test_a_row_of_a_line_table_is_that_of_the_published_json(module: str, request: pytest.FixtureRequest) -> None:
    (table,) = request.getfixturevalue(module).lines()
    wanted = [json.loads(line) for piece in row_lines(table) for line in piece.splitlines()]
    assert len(wanted) == len(table) > 10
    assert rows(table.to_arrow()) == [{name: row[name] for name in rows(table.to_arrow())[0]} for row in wanted]
    assert set(wanted[0]) == set(table.to_arrow().column_names)
    assert table.to_pandas()["line"].tolist() == [row["line"] for row in wanted]


def listing(module: symd.Module) -> Listing:
    """Four instructions that no disassembler wrote."""
    answers = module.symbolize(np.arange(0, 64, 16), kernel=module.kernels[0].name)
    return Listing("", "sm_90", "a pencil", answers, np.full(4, 16, np.uint32), ["<b>&", "b", "c", "d"])


def test_an_instruction_is_a_row(cubin: symd.Module) -> None:
    made = listing(cubin)
    found = rows(made.to_arrow())
    assert [(row["text"], row["size"]) for row in found] == [("<b>&", 16), ("b", 16), ("c", 16), ("d", 16)]
    assert [row["line"] for row in found] == [each.frames[0].line for each in made.answers]
    assert made.to_pandas()["text"].tolist() == ["<b>&", "b", "c", "d"]


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_what_is_not_installed_is_said_with_what_to_do(answers, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ToolMissing, match=rf"{package} is not installed here \(pip install '.\[data\]'"):
        answers.to_pandas() if package == "pandas" else answers.to_arrow()


def test_values_print_short(vadd: symd.Module, cubin: symd.Module, answers) -> None:
    assert repr(vadd.symbolize("vadd+0x1b0")) == (
        "<Answer EXACT (.text)+0x1b0: vadd at /tmp/symd-opencl/vadd.cl:14:22>"
    )
    assert repr(vadd.symbolize("nothing+1")) == "<Answer UNKNOWN_KERNEL: no answer>"
    assert repr(Frame("f", "_Zf", "a.cl", 3, 0, inlined=True)) == "<Frame f at a.cl:3 [_Zf] (inlined)>"
    values = (vadd, cubin, answers, answers.locations, *cubin.lines(), listing(cubin))
    assert all(len(repr(value)) < 200 for value in values)
    assert repr(vadd.symbolize(["vadd+0", "nothing+1"])) == "<Answers: 2, 1 EXACT, 1 UNKNOWN_KERNEL>"

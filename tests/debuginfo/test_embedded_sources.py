"""Rows whose lines or columns the text does not have that the code object itself carries of their source."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import symd
from symd.model.answers import Reason
from tests.formats.spirv_rules.assembly import assemble, offset_of
from tests.tools import require

MODULE = """\
OpCapability Shader
OpExtension "SPV_KHR_non_semantic_info"
%dbg = OpExtInstImport "NonSemantic.Shader.DebugInfo.100"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 1 1 1
%file = OpString "a.comp"
%name = OpString "main"
%text = OpString "{text}"
%other = OpString "{other}"
{source}
OpName %main "main"
%void = OpTypeVoid
%u32 = OpTypeInt 32 0
%u0 = OpConstant %u32 0
%u1 = OpConstant %u32 1
%line = OpConstant %u32 {line}
%column = OpConstant %u32 {column}
%fn = OpTypeFunction %void
%src = OpExtInst %void %dbg DebugSource %file %text
%again = OpExtInst %void %dbg DebugSource %file %other
%unit = OpExtInst %void %dbg DebugCompilationUnit %u1 %u1 %src %u1
%type = OpExtInst %void %dbg DebugTypeFunction %u0 %void
%f = OpExtInst %void %dbg DebugFunction %name %type %src %u1 %u0 %unit %name %u0 %u1
%main = OpFunction %void None %fn
%entry = OpLabel
%scope = OpExtInst %void %dbg DebugScope %f
%at = OpExtInst %void %dbg DebugLine %src %line %line %column %column
%sum = OpIAdd %u32 %u1 %u1
OpReturn
OpFunctionEnd
"""
TEXT = "void main()\n{ int i;\n}\n"


def answers(data: bytes, folder: Path) -> tuple[symd.Answer, symd.Answer, list[str]]:
    """What is answered of the addition, as it is and as written, and the notes that say why."""
    offset = offset_of(data, "OpIAdd", folder)
    with symd.open(data) as module:
        notes = [note for each in module.objects for note in each.notes if "outside of it" in note]
        return module.symbolize(offset), module.symbolize(offset, as_written=True), notes


@pytest.mark.parametrize(
    ("line", "column", "text"),
    [
        (3, 0, TEXT),
        (2, 9, TEXT),
        (1, 9, "\tx"),
        (4, 0, "a\n\n\nb"),
        (2, 500, "a\\\nb"),
        (2, 0, "a\r\nb"),
        (2, 0, "a\rb"),
    ],
    ids=[
        "the last line",
        "behind the last column",
        "a tab takes several",
        "a last line without an end",
        "a line that goes on",
        "lines of DOS",
        "lines of another system",
    ],
)
def test_what_the_text_has_is_believed(line: int, column: int, text: str, tmp_path: Path) -> None:
    data = assemble(
        MODULE.format(text=text.replace("\\", "\\\\"), other="", source="", line=line, column=column), "vulkan1.1"
    )
    found, _, notes = answers(data, tmp_path)
    assert (found.reason, found.frames[0].line, notes) == (Reason.EXACT, line, [])


@pytest.mark.parametrize(
    ("line", "column", "text"), [(4, 0, TEXT), (100, 0, TEXT), (2, 10, TEXT), (3, 3, TEXT), (3, 0, "a\r\nb\r\n")]
)
def test_what_the_text_does_not_have_is_a_contradiction(line: int, column: int, text: str, tmp_path: Path) -> None:
    data = assemble(MODULE.format(text=text, other="", source="", line=line, column=column), "vulkan1.1")
    found, written, notes = answers(data, tmp_path)
    assert (found.reason, found.frames[0].function, found.frames[0].line) == (Reason.CONTRADICTORY, "main", 0)
    assert (written.reason, written.frames[0].line, written.frames[0].column) == (Reason.EXACT, line, column)
    assert len(notes) == 1
    assert f" {line}:{column}".removesuffix(":0") in notes[0]


@pytest.mark.parametrize(
    ("text", "other", "source"),
    [
        (TEXT, "\n" * 8, ""),
        ("#line 5\nint main;\n", "", ""),
        (TEXT, "", '%b = OpString "b.comp"\nOpSource GLSL 450 %b " # 9 \\"a.comp\\" 1"'),
        ("", "", ""),
    ],
    ids=["another text of the file", "a directive in it", "a directive in another", "no text"],
)
def test_where_a_text_does_not_tell_the_lines_the_row_is_believed(
    text: str, other: str, source: str, tmp_path: Path
) -> None:
    text, other = (each.replace('"', '\\"') for each in (text, other))
    data = assemble(MODULE.format(text=text, other=other, source=source, line=7, column=0), "vulkan1.1")
    found, _, notes = answers(data, tmp_path)
    assert (found.reason, found.frames[0].line, notes) == (Reason.EXACT, 7, [])


def test_so_is_the_text_of_op_source_and_the_function_of_a_module_without_scopes_stays(tmp_path: Path) -> None:
    source = 'OpSource GLSL 450 %file "void main() {}"'
    text = MODULE.format(text="", other="", source=source, line=1, column=0)
    text = re.sub(r"^%(src|again|unit|type|f|scope|dbg) = OpExtInst.*\n|^OpExtension.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^%at = .*$", "OpLine %file 2 1", text, flags=re.MULTILINE)
    found, written, notes = answers(assemble(text, "vulkan1.1"), tmp_path)
    assert (found.reason, [(each.function, each.line) for each in found.frames]) == (
        Reason.CONTRADICTORY,
        [("main", 0)],
    )
    assert (written.reason, written.frames[0].line, len(notes)) == (Reason.EXACT, 2, 1)


def test_so_is_the_text_in_a_line_table_of_dwarf(tmp_path: Path) -> None:
    """clang's -gembed-source; in its assembly one line is moved behind the text. The whole index and the plain reader are asked."""
    source, assembly, linked = (tmp_path / name for name in ("k.cl", "k.s", "k.co"))
    source.write_text("kernel void k(global int *p)\n{\n    p[0] = 1;\n}\n")
    clang = [
        require("clang-14", "clang"),
        "-target",
        "amdgcn-amd-amdhsa",
        "-mcpu=gfx900",
        "-nogpulib",
        "-mcode-object-version=4",
    ]
    options = ["-x", "cl", "-cl-std=CL2.0", "-gdwarf-5", "-gembed-source", "-O1", "-S", "-o", assembly]
    subprocess.run([*clang, *options, source], check=True)
    text, moved = re.subn(r"(\.loc\s+\d+) 3 \d+", r"\1 33 10", assembly.read_text())
    assert moved
    assembly.write_text(text)
    subprocess.run([*clang, "-x", "assembler", assembly, "-o", linked], check=True)
    with symd.open(linked) as module:
        rows = [row for table in module.lines() for row in zip(table.offset.tolist(), table.line.tolist(), strict=True)]
        offset = next(at for at, line in rows if line == 33)
        begin = next(at for at, line in rows if line == 4)
        query = [f"k+{at - min(each for each, _ in rows):#x}" for at in (offset, begin)]
        doubted, sure = module.symbolize(query)
        assert (doubted.reason, doubted.frames[0].function, doubted.frames[0].line) == (Reason.CONTRADICTORY, "k", 0)
        assert sure.reason is Reason.EXACT
        assert module.symbolize(query[0], as_written=True).frames[0].line == 33
        assert any("outside of it" in note for note in module.objects[0].notes)
    done = subprocess.run(
        [sys.executable, "-m", "symd", "symbolize", linked, query[0]], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{query[0]}: k [CONTRADICTORY]\n"

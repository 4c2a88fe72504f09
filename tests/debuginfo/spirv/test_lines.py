"""SPIR-V rows and scopes against listings by other tools, instruction by instruction."""

from __future__ import annotations

import json
import random
import re
import struct
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from symd.config import Limits
from symd.debuginfo.spirv import decoded as spirv_scopes
from symd.debuginfo.spirv import lines, source_texts
from symd.errors import SymdError
from symd.formats.budget import Budget
from symd.formats.containers import spirv
from symd.formats.containers.format import Element
from symd.formats.spirv.module import debug_words
from symd.model.code import CodeObject
from symd.model.debug_info import NO_PARENT, DebugInfo, RowFlag
from tests import tools
from tests.core.uncompiled import without_compiled_core
from tests.debuginfo.spirv.spirv_listing import (
    Described,
    FrameNames,
    Instruction,
    Location,
    Meaning,
    by_llvm_spirv,
    by_spirv_dis,
)
from tests.formats.spirv_rules.assembly import assemble


@pytest.fixture(autouse=True, params=["compiled", "uncompiled"])
def way(request):
    """The core, compiled or not."""
    with without_compiled_core() if request.param == "uncompiled" else nullcontext():
        yield


FOLDER = Path(__file__).parents[3] / "samples" / "spirv"
BIN = FOLDER / "bin"
SPIRV_DIS_READS = (
    "blend.dpcpp",
    "inline.O0.ocl-100",
    "inline.O2.ocl-100",
    "inline.O2.none",
    "outranked",
    "waves.g",
    "waves.gV",
    "waves.gVS",
)
LLVM_SPIRV_READS = sorted(
    path.stem for path in BIN.glob("*.spv") if not re.match(r"blend|waves|outranked|.*big-endian", path.stem)
)


def code_object(data: bytes) -> CodeObject:
    found = spirv.read(Element("", data), Budget(Limits())).code_object
    assert found is not None
    return found


def read(code: CodeObject) -> DebugInfo:
    return lines.read(code, debug_words(code))


def decoded(name: str) -> DebugInfo:
    return read(code_object((BIN / f"{name}.spv").read_bytes()))


def listings(name: str, folder: Path) -> list[list[Instruction]]:
    path = BIN / f"{name}.spv"
    found = [by_spirv_dis(path)] if name in SPIRV_DIS_READS else []
    return [*found, by_llvm_spirv(path, folder)] if name in LLVM_SPIRV_READS else found


def location_at(info: DebugInfo, offset: int) -> Location:
    rows = info.rows
    at = int(np.searchsorted(rows.offset, offset, side="right")) - 1
    if at < 0 or rows.flags[at] & RowFlag.END_SEQUENCE:
        return None
    return info.files[rows.file[at]], int(rows.line[at]), int(rows.column[at])


def frames_at(info: DebugInfo, offset: int) -> tuple[FrameNames, ...]:
    """Names and call sites of the innermost scope that covers an offset and of those around it."""
    scopes = info.scopes
    inside = scopes.range_scope[(scopes.range_offset <= offset) & (offset < scopes.range_end)]
    at = int(inside.max()) if len(inside) else NO_PARENT  # parents come before children
    frames = []
    while at != NO_PARENT:
        assert at in inside
        name, linkage = info.names[scopes.name[at]], info.names[scopes.linkage_name[at]]
        call = info.files[scopes.call_file[at]], int(scopes.call_line[at]), int(scopes.call_column[at])
        frames.append((name, linkage, *call))
        at = int(scopes.parent[at])
    return tuple(frames)


@pytest.mark.parametrize("name", sorted({*SPIRV_DIS_READS, *LLVM_SPIRV_READS}))
def test_every_instruction_has_the_location_that_the_listing_gives_it(name: str, tmp_path: Path) -> None:
    info = decoded(name)
    for listing in listings(name, tmp_path):
        described = Meaning(listing).described()
        found = {item.instruction.offset: location_at(info, item.instruction.offset) for item in described}
        assert found == {item.instruction.offset: item.location for item in described}


@pytest.mark.parametrize("name", sorted({*SPIRV_DIS_READS, *LLVM_SPIRV_READS}))
def test_every_scoped_instruction_has_the_frames_that_the_listing_gives_it(name: str, tmp_path: Path) -> None:
    info = decoded(name)
    for listing in listings(name, tmp_path):
        described = [item for item in Meaning(listing).described() if item.frames]
        found = {item.instruction.offset: frames_at(info, item.instruction.offset) for item in described}
        assert found == {item.instruction.offset: item.frames for item in described}


@pytest.mark.parametrize("name", sorted({*SPIRV_DIS_READS, *LLVM_SPIRV_READS}))
def test_rows_stand_at_instructions_in_order_and_each_sequence_is_closed(name: str, tmp_path: Path) -> None:
    rows = decoded(name).rows
    starts = {item.offset for listing in listings(name, tmp_path) for item in listing}
    ends = rows.flags & RowFlag.END_SEQUENCE != 0
    assert set(rows.offset[~ends].tolist()) <= starts
    assert (np.diff(rows.offset.astype(np.int64)) >= 0).all()
    assert not len(rows) or ends[-1]


def locations_of(described: list[Described]) -> dict[str, list[tuple[int, int]]]:
    """Lines and columns by function id: what is stated, without repetitions and without line 0."""
    found: dict[str, list[tuple[int, int]]] = {}
    current = ""
    for item in described:
        current = item.instruction.result if item.instruction.op == "Function" else current
        if item.location and item.location[1] and item.location[1:] != (found.setdefault(current, []) or [None])[-1]:
            found[current].append(item.location[1:])
    return found


def llvm_sequences(name: str, folder: Path) -> list[list[tuple[int, int]]]:
    """The same from the bitcode that llvm-spirv makes of the module, printed by llvm-dis."""
    tools.output(tools.require("llvm-spirv"), "-r", BIN / f"{name}.spv", "-o", folder / "module.bc")
    text = tools.output(tools.require("llvm-dis"), folder / "module.bc", "-o", "-")
    places = {
        number: (int(line), int(column or 0))
        for number, line, column in re.findall(
            r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+)(?:, column: (\d+))?", text, re.MULTILINE
        )
    }
    sequences = []
    for body in re.findall(r"^define [^\n]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        sequence: list[tuple[int, int]] = []
        for number in re.findall(r", !dbg !(\d+)", body):
            place = places[number]
            if place[0] and place != (sequence or [None])[-1]:
                sequence.append(place)
        if sequence:
            sequences.append(sequence)
    return sequences


LOST_BY_LLVM_SPIRV = {"subgroups.O2.ocl-100": (0, (7, 17))}
"""Function number and location: the OpLine stands before the load of the built-in variable, and is lost where llvm-spirv
makes a call of get_sub_group_local_id of that load. The module is right."""


@pytest.mark.parametrize("name", [name for name in LLVM_SPIRV_READS if "none" not in name])
def test_optimised_modules_have_the_location_sequences_of_llvm(name: str, tmp_path: Path) -> None:
    info = decoded(name)
    listing = by_llvm_spirv(BIN / f"{name}.spv", tmp_path)
    ours = [
        Described(item.instruction, location_at(info, item.instruction.offset), None)
        for item in Meaning(listing).described()
    ]
    sequences = [*locations_of(ours).values()]
    if name in LOST_BY_LLVM_SPIRV:
        function, lost = LOST_BY_LLVM_SPIRV[name]
        sequences[function].remove(lost)
    assert sequences == llvm_sequences(name, tmp_path)


def test_the_hand_written_module_is_read_as_its_comments_say() -> None:
    """Worked out by hand from outranked.spvasm; offsets from spirv-dis."""
    info = decoded("outranked")
    rows = info.rows
    table = [
        (int(rows.offset[at]), info.files[rows.file[at]], int(rows.line[at]), int(rows.column[at]), int(rows.flags[at]))
        for at in range(len(rows))
    ]
    end = RowFlag.END_SEQUENCE
    assert table == [
        (0x4A0, "/src/outer.cl", 11, 3, 1),
        (0x4B8, "", 0, 0, end),
        (0x504, "/src/inner.h", 7, 2, 1),
        (0x550, "", 0, 0, end),
        (0x5CC, "/src/inner.h", 1, 20, 1),
        (0x624, "/src/outer.cl", 4, 3, 1),
        (0x64C, "", 0, 0, end),
    ]
    outer = ("outer", "", "", 0, 0)
    middle = ("middle", "", "/src/outer.cl", 12, 0)
    assert frames_at(info, 0x430) == (outer,)
    assert frames_at(info, 0x5CC) == (("inner", "_Z5inneri", "/src/outer.cl", 4, 0), middle, outer)
    assert frames_at(info, 0x624) == (middle, outer)
    assert frames_at(info, 0x64C) == (outer,)
    assert frames_at(info, 0x668) == ()


def test_calls_inlined_twice_on_one_line_are_told_apart_by_their_columns() -> None:
    """Worked out by hand from blend.sycl.cpp: both calls in line 11, the one in line 13, and the call of blend around them."""
    info = decoded("blend.dpcpp")
    within = ("blend", "_ZL5blendff", "/tmp/symd-kernels/spirv/rtc_0.cpp", 20, 15)
    calls = {frames[0][3:] for offset in range(0, 9700, 4) if len(frames := frames_at(info, offset)) == 3}
    assert calls == {(11, 15), (11, 37), (13, 11)}
    assert all(frames_at(info, offset)[1] == within for offset in (0x1B30, 0x1D8C, 0x212C))


SHADER = """\
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Heights { float heights[]; };
float soft(float v)
{
    float s = v * 2.0;
    if (s > 3.0)
        s = sqrt(s);
    for (int k = 0; k < int(v); ++k)
        s += sin(s * v);
    return s;
}
float shaped(float v)
{
    float t = soft(v);
    switch (int(t)) {
    case 0: return t * v;
    case 1: t = t + 2.0; break;
    default: t = soft(t);
    }
    return t;
}
void main()
{
    float height = heights[gl_GlobalInvocationID.x];
    if (height > 1.0)
        height = shaped(height);
    heights[gl_GlobalInvocationID.x] = height;
}
"""
SHADER_LINES = {"soft": range(4, 13), "shaped": range(13, 23), "main": range(23, 30)}


@pytest.mark.parametrize(
    ("passes", "fewest"), [(["-O"], 70), (["-Os"], 70), (["--merge-return", "--inline-entry-points-exhaustive"], 150)]
)
def test_no_function_has_a_line_of_another_where_spirv_opt_inlined(
    passes: list[str], fewest: int, tmp_path: Path
) -> None:
    """The judge is the source text. Branches are written behind DebugNoScope, with the line of what was inlined before them."""
    source, made, optimized = (tmp_path / name for name in ("shader.comp", "shader.spv", "optimized.spv"))
    source.write_text(SHADER)
    environment = "--target-env=vulkan1.3"
    tools.output(tools.require("glslangValidator"), "-gVS", "--target-env", "vulkan1.3", source, "-o", made)
    tools.output(tools.require("spirv-opt"), environment, *passes, made, "-o", optimized)
    info = read(code_object(optimized.read_bytes()))
    judged = 0
    for item in by_spirv_dis(optimized):
        location, frames = location_at(info, item.offset), frames_at(info, item.offset)
        if location and location[1] and frames:
            assert location[1] in SHADER_LINES[frames[0][0].partition("(")[0]], item
            judged += 1
    assert judged > fewest


def test_a_line_left_over_behind_a_scope_stays_where_the_function_itself_has_it() -> None:
    """In the line of the call that was inlined, which the function around has too, and in one that is said of nobody."""
    items = INLINED.format(0, 1) + "\n%i1 = OpExtInst %void %dbg DebugInfoNone"
    code = """%f {at}
%x1 = OpExtInst %void %dbg DebugLine %src {line} {line} %c7 %c7
%x2 = OpIAdd %u32 %c7 %c7
%x3 = OpExtInst %void %dbg DebugNoScope
%x4 = OpIAdd %u32 %c7 %c7"""
    for at, line in (("%i0", "%c7"), ("", "%c9")):
        text = CIRCLES.format(items=f"%c9 = OpConstant %u32 9\n{items}", scope=code.format(at=at, line=line))
        rows = read(code_object(assemble(text, "spv1.5"))).rows
        assert rows.flags.tolist() == [RowFlag.IS_STMT, RowFlag.END_SEQUENCE]


def test_no_debug_line_ends_an_op_line_too() -> None:
    """spirv-opt writes DebugNoLine for both, wherever the set is imported; offsets of the last two rows from the words' counts."""
    code = """%f
OpLine %file 9 1
%x1 = OpIAdd %u32 %c7 %c7
%x2 = OpExtInst %void %dbg DebugNoLine
%x3 = OpIAdd %u32 %c7 %c7
OpLine %file 8 1
%x4 = OpIAdd %u32 %c7 %c7
%x5 = OpExtInst %void %dbg DebugLine %src %c7 %c7 %c7 %c7
%x6 = OpIAdd %u32 %c7 %c7
%x7 = OpExtInst %void %dbg DebugNoLine"""
    rows = read(code_object(assemble(CIRCLES.format(items="", scope=code), "spv1.5"))).rows
    assert rows.line.tolist() == [9, 0, 8, 7, 0]
    assert np.diff(rows.offset.astype(int)).tolist() == [20 + 20, 20 + 16, 20 + 40, 20 + 20]


@pytest.mark.parametrize("name", ["waves.gVS", "inline.O2.ocl-100"])
def test_the_byte_order_of_the_words_changes_nothing(name: str) -> None:
    here, there = decoded(name), decoded(f"{name}.big-endian")
    assert (here.files, here.names) == (there.files, there.names)
    for column in ("offset", "file", "line", "column", "flags"):
        assert getattr(here.rows, column).tolist() == getattr(there.rows, column).tolist()
    assert here.scopes.range_end.tolist() == there.scopes.range_end.tolist()


def test_the_text_inside_is_the_file_that_was_compiled() -> None:
    for name in ("waves.g", "waves.gVS"):
        texts = source_texts(code_object((BIN / f"{name}.spv").read_bytes()))
        assert texts["waves.comp"] == (FOLDER / "waves.comp").read_text()
        assert texts["./include/ripple.glsl"] == (FOLDER / "include" / "ripple.glsl").read_text()


def test_text_that_goes_on_is_joined() -> None:
    texts = source_texts(code_object((BIN / "outranked.spv").read_bytes()))
    assert texts == {"/src/inner.h": "int inner(int x) { return x + 1; }// the text goes on"}


def test_a_checksum_is_no_source_text() -> None:
    assert source_texts(code_object((BIN / "inline.O2.ocl-100.spv").read_bytes())) == {}


@pytest.mark.parametrize("path", sorted(BIN.glob("*.spv")), ids=lambda path: path.stem)
def test_damaged_modules_end_in_an_error_of_the_tree_or_in_an_answer(path: Path) -> None:
    data = path.read_bytes()
    luck = random.Random(len(data))
    for _ in range(80):
        damaged = bytearray(data[: luck.choice((len(data), luck.randrange(len(data) // 4) * 4))])
        for _ in range(luck.randrange(1, 12)):
            at = luck.randrange(len(damaged) or 1)
            damaged[at : at + 1] = bytes((luck.randrange(256),))
        try:
            info = read(code_object(bytes(damaged)))
        except SymdError:
            continue
        assert len(info.rows) <= 2 * len(data)


def module(*instructions: tuple[int, ...]) -> bytes:
    """Opcode and operands each, behind a header; OpMemoryModel and OpString %1 "a" come first."""
    words = [0x07230203, 0x00010000, 0, 10, 0, 3 << 16 | 14, 2, 2, 3 << 16 | 7, 1, ord("a")]
    for opcode, *operands in instructions:
        words += [(len(operands) + 1) << 16 | opcode, *operands]
    return struct.pack(f"<{len(words)}I", *words)


LINE, ADD, BRANCH = 8, (128, 5, 6, 7, 8), (249, 4)


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ([], []),
        ([ADD], []),
        ([(LINE, 1, 3, 4)], []),
        ([(LINE, 1, 3, 4), ADD], [(60, 3), (80, -1)]),
        ([(LINE, 1, 3, 4), ADD, (LINE, 1, 5, 6)], [(60, 3), (96, -1)]),
        ([(LINE, 1, 3, 4), ADD, BRANCH, ADD], [(60, 3), (88, -1)]),
        ([(LINE, 1, 3, 4), ADD, (LINE, 1, 3, 4), ADD], [(60, 3), (96, 3), (116, -1)]),
        ([(LINE, 1, 3), ADD], []),
        ([(LINE, 99, 3, 4), ADD], [(60, 3), (80, -1)]),
        ([(LINE, 1, 3, 4), ADD, (317,), (317,), ADD], [(60, 3), (88, -1)]),
    ],
    ids=[
        "nothing",
        "no statement",
        "a statement over nothing",
        "the module ends the sequence",
        "a statement at the very end",
        "a branch ends the sequence",
        "the same statement again",
        "too few operands",
        "a file that is not there",
        "two OpNoLine",
    ],
)
def test_rows_of_tiny_modules(instructions: list[tuple[int, ...]], expected: list[tuple[int, int]]) -> None:
    rows = read(code_object(module(*instructions))).rows
    ends = rows.flags & RowFlag.END_SEQUENCE != 0
    assert [*zip(rows.offset.tolist(), np.where(ends, -1, rows.line.astype(int)).tolist(), strict=True)] == expected


CIRCLES = """\
OpCapability Kernel
OpExtension "SPV_KHR_non_semantic_info"
%dbg = OpExtInstImport "NonSemantic.Shader.DebugInfo.100"
OpMemoryModel Physical64 OpenCL
%file = OpString "a.cl"
%void = OpTypeVoid
%u32 = OpTypeInt 32 0
%c7 = OpConstant %u32 7
%fn = OpTypeFunction %void
%src = OpExtInst %void %dbg DebugSource %file
%unit = OpExtInst %void %dbg DebugCompilationUnit %c7 %c7 %src %c7
%type = OpExtInst %void %dbg DebugTypeFunction %c7 %void
%f = OpExtInst %void %dbg DebugFunction %file %type %src %c7 %c7 %unit %file %c7 %c7
{items}
%main = OpFunction %void None %fn
%l = OpLabel
%s = OpExtInst %void %dbg DebugScope {scope}
%x = OpIAdd %u32 %c7 %c7
OpReturn
OpFunctionEnd
"""
INLINED = "%i{} = OpExtInst %void %dbg DebugInlinedAt %c7 %f %i{}"


@pytest.mark.parametrize(
    ("items", "scope"),
    [
        ("%b = OpExtInst %void %dbg DebugLexicalBlock %src %c7 %c7 %b", "%b"),
        (
            "%a = OpExtInst %void %dbg DebugLexicalBlock %src %c7 %c7 %b\n%b = OpExtInst %void %dbg DebugLexicalBlock %src %c7 %c7 %a",
            "%b",
        ),
        ("%t = OpExtInst %void %dbg DebugTypeTemplate %t %c7", "%t"),
    ],
    ids=["a block in itself", "two blocks in each other", "a template of itself"],
)
def test_scopes_in_a_circle_belong_to_no_function(items: str, scope: str) -> None:
    info = read(code_object(assemble(CIRCLES.format(items=items, scope=scope), "spv1.5")))
    assert len(info.scopes) == 0


def test_calls_inlined_in_a_circle_are_cut_with_a_warning() -> None:
    items = INLINED.format(1, 2) + "\n" + INLINED.format(2, 1)
    info = read(code_object(assemble(CIRCLES.format(items=items, scope="%f %i1"), "spv1.5")))
    assert len(info.scopes) == 1
    assert "circle" in info.warnings[0]


@pytest.mark.parametrize(("depth", "scopes"), [(256, 257), (257, 1), (3000, 1)])
def test_calls_inside_one_another_are_read_up_to_256_and_cut_with_a_warning_beyond(depth: int, scopes: int) -> None:
    items = "\n".join(INLINED.format(at, at + 1) for at in range(depth - 1))
    items += f"\n%i{depth - 1} = OpExtInst %void %dbg DebugInlinedAt %c7 %f"
    info = read(code_object(assemble(CIRCLES.format(items=items, scope="%f %i0"), "spv1.5")))
    assert len(info.scopes) == scopes
    assert [str(depth) in warning for warning in info.warnings] == [True] * (depth > 256)


def test_scopes_that_would_need_too_much_memory_are_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spirv_scopes, "MAX_RANGES", 3)
    info = decoded("inline.O2.ocl-100")
    assert [info.names[name] for name in info.scopes.name] == ["weigh", "blend"]
    assert "more than 3 ranges" in info.warnings[0]


def test_the_manifest_names_every_module() -> None:
    assert sorted(json.loads((FOLDER / "manifest.json").read_text())) == sorted(path.name for path in BIN.glob("*.spv"))


def test_functions_are_declared_where_their_debug_function_says() -> None:
    """As spirv-dis prints it: name, type, source, line; OpenCL.DebugInfo.100 has numbers there."""
    listed = by_spirv_dis(BIN / "inline.O2.ocl-100.spv")
    texts = {item.result: item.operands[0].strip('"') for item in listed if item.op == "String"}
    theirs = {texts[item.operands[0]]: int(item.operands[3]) for item in listed if item.op == "DebugFunction"}
    info = decoded("inline.O2.ocl-100")
    scopes = info.scopes
    assert scopes.function is not None
    mine = {
        info.names[name]: int(info.functions.first[number])
        for name, number in zip(scopes.name.tolist(), scopes.function.tolist(), strict=True)
    }
    assert len(theirs) > 2
    assert mine == theirs

"""Rows and frames of every AMD sample equal LLVM's: at every instruction slot of linked objects, by rows of relocatable
ones. LLVM relocates AMDGPU objects itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from symd.debuginfo.variables.visible import VariableReader
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress
from symd.model.answers import Answer, Reason
from symd.model.names import Match, NameKind, NameQuery
from symd.query.line_tables import lines
from symd.query.names import find_names
from symd.query.symbolize import symbolize_column
from symd.rpc.wire.answers import from_answer, to_answer
from tests import tools
from tests.agreement import ours
from tests.formats.containers.amd import objects
from tests.query.asked import symbolize_one

STEP = 4
"""AMDGPU instructions start at multiples of 4 bytes."""
NO_DEBUG = {name for name in objects.OBJECTS if objects.code(name).debug == "none"}
LINKED = [name for name in objects.LINKED if name not in NO_DEBUG]
OBJECTS = [name for name in objects.OBJECTS if name not in NO_DEBUG]
_ROW = re.compile(r"^0x([0-9a-f]{16}) +(\d+) +(\d+) +\d+ +\d+ +\d+ +\d+((?: +\w+)*) *$", re.MULTILINE)


def llvm_frames(name: str | Path, addresses: list[int]) -> list[list[tuple]]:
    text = tools.output(
        tools.require("llvm-symbolizer-22"),
        f"--obj={objects.path(name)}",
        "--inlines",
        "--no-demangle",
        "--output-style=JSON",
        *map(hex, addresses),
    )
    return [
        [(one["FunctionName"], one["FileName"], one["Line"], one["Column"]) for one in answer["Symbol"]]
        for answer in json.loads(text)
    ]


@pytest.mark.parametrize("name", OBJECTS)
def test_rows_are_those_of_dwarfdump(name):
    """In table order; addresses of relocatable objects count from their section, as LLVM puts them."""
    text = tools.output(tools.require("llvm-dwarfdump-22"), "--debug-line", objects.path(name))
    theirs = [(int(a, 16), int(line), int(column), set(flags.split())) for a, line, column, flags in _ROW.findall(text)]
    linked = objects.code(name).linked
    mine = []
    for table in lines(ours.index(objects.sample(name))):
        for number in range(len(table)):
            row = ours._row(table, number)
            base = table.text_sections[table.text_section[number]].address if linked else 0
            mine.append((base + row.address, row.line, row.column, set(row.flags)))
    assert len(theirs) > 5
    assert mine == theirs


@pytest.mark.parametrize("name", LINKED)
def test_frames_are_those_of_symbolizer_at_every_instruction_slot(name):
    code = objects.code(name)
    text = code.section(".text")
    addresses = list(range(text.address, text.address + text.size, STEP))
    as_written = ours.index(objects.sample(name)).view(as_written=True)
    answers = symbolize_column(as_written, np.array(addresses, np.uint64))
    compared = 0
    for address, answer, other in zip(addresses, answers, llvm_frames(name, addresses), strict=True):
        padding = not any(each.offset <= address - text.address < each.offset + each.size for each in code.functions)
        assert agrees(answer, other, padding=padding), f"{address:#x}: {answer} != {other}"
        compared += answer.reason is Reason.EXACT
    assert compared > 3


def agrees(answer: Answer, other: list[tuple], *, padding: bool = False) -> bool:
    """Equal frames, but for two differences. Line 0 LLVM passes on, symd answers with an earlier line and says that it is
    approximate. In the padding behind a function LLVM has the last row's line and no function, symd nothing."""
    if padding and answer.reason is Reason.GAP:
        return len(other) == 1 and not other[0][0]
    mine = ours.frames(answer)
    if answer.reason is Reason.APPROXIMATE:
        return mine[0][0] == other[0][0] and mine[1:] == other[1:]
    return mine == other


EMPTY = """#define __global__ __attribute__((global))
template <int ARCH> __attribute__((device)) int scaled(int x) {
  if constexpr (ARCH == 1) return x * 3 + 1;
  __builtin_unreachable();
}
template <int ARCH> __global__ void chosen(int* p) {
  if constexpr (ARCH == 1)
    p[__builtin_amdgcn_workitem_id_x()] = scaled<ARCH>(p[0]);
  else
    __builtin_unreachable();
}
template __global__ void chosen<0>(int*);
template __global__ void chosen<1>(int*);
template __global__ void chosen<2>(int*);
template __global__ void chosen<3>(int*);
"""


@pytest.mark.parametrize("target", ["gfx900", "gfx90a", "gfx942", "gfx1100"])
def test_kernels_that_were_compiled_to_nothing_are_there_and_have_no_code(target, tmp_path):
    """readelf says how large each is; a place in one of size 0 is in no text, whatever its name is written as."""
    built = objects.compiled(tmp_path, "empty.hip", EMPTY, "-O2", target=target)
    index = ours.index(built.read_bytes())
    symbols = re.findall(
        r" (\d+) FUNC .* (_Z6chosen\S+)$", tools.output("readelf", "-sW", "--dyn-syms", built), re.MULTILINE
    )
    theirs = {name: int(size) for size, name in symbols}
    assert sorted(theirs.values())[:3] == [0, 0, 0]
    assert {name: entry.size for name, (entry,) in index.kernels.items()} == theirs
    for name, size in theirs.items():
        readable = f"chosen<{name.split('ILi')[1][0]}>"
        for asked in (name, readable):
            answers = [symbolize_one(index, ByKernel(asked, KernelOffset(offset))) for offset in (0, 8)]
            if size:
                assert {answer.frames[0].function for answer in answers} == {readable}
            else:
                assert [answer.reason for answer in answers] == [Reason.OUTSIDE_TEXT] * 2


BODIES = """float lifted(float x, float k) { return x * k + 1.25f; }
kernel void scale(global float *out, float k, int n) {
  int i = __builtin_amdgcn_workitem_id_x();
  if (i < n)
    out[i] = lifted(out[i], k);
}
kernel void twice(global float *out, float k) {
  scale(out, k, 7);
}
"""


def test_an_opencl_kernel_and_the_body_that_clang_inlines_into_it_are_one_frame(tmp_path):
    """clang 19 compiles a kernel as one function, clang 22 as two: its frames are llvm-symbolizer's without the kernel's at its opening
    brace, and as written all of them. A kernel that calls another has that one's frame."""
    built = objects.compiled(tmp_path, "bodies.cl", BODIES, "-O2")
    data = built.read_bytes()
    index, code = ours.index(data), objects.decode(data)
    text = code.section(".text")
    checked = set()
    for kernel in code.kernels:
        first = text.address + kernel.offset
        for address in range(first, first + kernel.size, STEP):
            spoken = tools.output("llvm-symbolizer-22", f"--obj={built}", "--output-style=JSON", hex(address))
            theirs = [(one["FunctionName"], one["Line"]) for one in json.loads(spoken)[0]["Symbol"]]
            told = [
                (one.linkage_name or one.function, one.line)
                for one in index.answer(ByAddress(ObjectAddress(address))).frames
            ]
            column = symbolize_column(index, np.array([address], np.uint64))[0]
            assert told == [(one.linkage_name or one.function, one.line) for one in column.frames]
            written = index.view(as_written=True).answer(ByAddress(ObjectAddress(address))).frames
            if 0 in {line for _, line in theirs}:
                continue
            assert [(one.linkage_name or one.function, one.line) for one in written] == theirs
            body = len(theirs) > 1 and theirs[-2][0] == f"__clang_ocl_kern_imp_{theirs[-1][0]}"
            assert told == ([*theirs[:-2], (theirs[-1][0], theirs[-2][1])] if body else theirs)
            checked.add((len(told), body))
    assert {(1, True), (2, True), (3, True)} <= checked
    (lifted,) = find_names(index, NameQuery("lifted", Match.EXACT))
    assert lifted.inlined_copies > 0
    kernels = find_names(index, NameQuery("twice", Match.EXACT, frozenset({NameKind.KERNEL})))
    assert [one.name for one in kernels] == ["twice"]
    copies = {
        one.linkage_name: one.inlined_copies
        for one in find_names(index, NameQuery("*", Match.GLOB, frozenset({NameKind.FUNCTION})))
    }
    assert copies.get("__clang_ocl_kern_imp_twice", 0) == 0
    found = VariableReader(code).at(text.index, code.kernels[0].offset + 16)
    assert len({(one.name, one.function) for one in found.variables}) == len(found.variables)
    assert not any(one.inlined and one.function == "scale" for one in found.variables)


SUMS = """static inline float square(float x) { return x * x; }
__attribute__((noinline)) float sum(const float *p, int n) {
  float found = 0;
  for (int i = 0; i < n; ++i)
    found += square(p[i]);
  return found;
}
__attribute__((noinline)) float both(const float *p, const float *q, int n) {
  return square(p[n]) * square(q[n]);
}
__attribute__((amdgpu_kernel)) void stored(__attribute__((address_space(1))) float *p, int n) {
  p[n] = square(p[n]);
}
"""


@pytest.mark.parametrize("options", [("-gdwarf-5",), ("-gdwarf-4", "-ffunction-sections"), ("-gdwarf64", "-gdwarf-5")])
@pytest.mark.parametrize("system", ["amd-amdpal", "mesa-mesa3d", "amd-amdhsa", "-"])
def test_relocatable_objects_of_every_system_have_the_rows_of_dwarfdump(system, options, tmp_path):
    """Those of other systems than amdhsa have relocations whose addends stand in place."""
    (tmp_path / "sums.c").write_text(SUMS)
    target = ("-target", f"amdgcn-{system}", "-mcpu=gfx1030", "-nogpulib")
    objects.ran([tools.require("clang-22"), *target, "-g", "-O2", *options, "-c", "sums.c", "-o", "sums.o"], tmp_path)
    built = tmp_path / "sums.o"
    text = tools.output(tools.require("llvm-dwarfdump-22"), "--debug-line", built)
    theirs = [(int(a, 16), int(line), int(column), set(flags.split())) for a, line, column, flags in _ROW.findall(text)]
    index = ours.index(built.read_bytes())
    mine = [
        (row.address, row.line, row.column, set(row.flags))
        for table in lines(index)
        for row in (ours._row(table, number) for number in range(len(table)))
    ]
    assert len(theirs) > 10
    assert mine == theirs
    for name in ("sum", "both"):
        answer = symbolize_one(index, ByKernel(name, KernelOffset(0)))
        assert (answer.reason, answer.frames[-1].function) == (Reason.EXACT, name)


VALUES = """void kernel values(global long *out, global int4 *wide, int n) {
  uint t = __builtin_amdgcn_workitem_id_x();
  long same = 0x34f0946507e67329L;
  int twice = n * 2 + t;
  int4 four = wide[t];
  for (int i = 0; i < n; i++)
    out[t + i] = same + twice * i + four.y;
  wide[t + 1] = four;
}
void kernel spilled(global int *out, int n) {
  volatile int kept[40];
  for (int i = 0; i < 40; i++)
    kept[i] = out[i];
  out[n] = kept[n];
}
"""


@pytest.mark.parametrize(
    ("compiler", "options"), [("clang-14", ("-O1",)), ("clang-14", ("-O2", "-gdwarf-4")), ("clang-22", ("-O2",))]
)
def test_what_a_kernel_without_private_memory_has_is_told_as_a_value(compiler, options, tmp_path):
    """The compiler leaves its mark of private memory behind values; what a kernel has says whether there is any. The constant is the source's."""
    built = objects.compiled(tmp_path, "values.cl", VALUES, *options, compiler=compiler)
    code = objects.decode(built.read_bytes())
    scratch = {kernel.name: kernel.facts["scratch"] for kernel in code.kernels}
    assert scratch["values"] == 0 < scratch["spilled"]
    said: dict[str, set[str]] = {"values": set(), "spilled": set()}
    for kernel in code.kernels:
        for offset in range(kernel.offset, kernel.offset + kernel.size, STEP):
            found = VariableReader(code).at(kernel.section_index, offset).variables
            said[kernel.name].update(f"{one.name}: {one.location}" for one in found if one.location)
            assert all(
                piece.address_space_name != "private" or scratch[kernel.name]
                for one in found
                for each in one.locations
                for piece in each.pieces
            )
    assert not any("private" in each for each in said["values"])
    assert any("private" in each for each in said["spilled"])
    assert f"same: constant {0x34F0946507E67329}" in said["values"]


@pytest.mark.parametrize("known", [True, False])
def test_addresses_as_index_and_offset_are_read_and_a_form_that_is_not_known_leaves_the_rows(known, tmp_path):
    """clang's -minimize-addr-in-v5=Form; llvm-symbolizer reads it. With another number, which nobody knows, the units are lost, and the rows stay."""
    options = ("-O2", "-gdwarf-5", "-mllvm", "-minimize-addr-in-v5=Form")
    built = objects.compiled(tmp_path, "values.cl", VALUES, *options, compiler="clang-14")
    data = built.read_bytes()
    code = objects.decode(data)
    abbreviations = code.section(".debug_abbrev").data
    form = b"\x11\x81\x40"  # DW_AT_low_pc, DW_FORM_LLVM_addrx_offset
    assert form in abbreviations
    if not known:
        data = data.replace(abbreviations, abbreviations.replace(form, b"\x11\x82\x40"))
    text = code.section(".text")
    addresses = [
        text.address + at for kernel in code.kernels for at in range(kernel.offset, kernel.offset + kernel.size, STEP)
    ]
    answers = symbolize_column(ours.index(data).view(as_written=True), np.array(addresses, np.uint64))
    compared = 0
    for answer, other in zip(answers, llvm_frames(built, addresses), strict=True):
        if known:
            assert agrees(answer, other)
        elif answer.reason is Reason.EXACT:
            assert (answer.frames[0].file, answer.frames[0].line) == other[0][1:3]
        compared += answer.reason is Reason.EXACT
    assert compared > 20


@pytest.mark.parametrize("name", ["v4-gfx900.co", "v6-gfx942-xnack.co", "v3-gfx900.co"])
def test_functions_are_declared_where_symbolizer_says_that_they_start(name):
    """In all ways to ask, and in what the drop-in prints; a function without a declaration has line 0 in both."""
    code, data = objects.code(name), objects.sample(name)
    index = ours.index(data)
    written = index.view(as_written=True)
    text = code.section(".text")
    addresses = [
        text.address + at for each in code.functions for at in range(each.offset, each.offset + each.size, STEP)
    ]
    spoken = tools.output(
        tools.require("llvm-symbolizer-22"), f"--obj={objects.path(name)}", "--output-style=JSON", *map(hex, addresses)
    )
    answers = symbolize_column(written, np.array(addresses, np.uint64))
    lines = set()
    for address, answer, other in zip(addresses, answers, json.loads(spoken), strict=True):
        theirs = [one["StartLine"] for one in other["Symbol"]]
        lines.update(theirs)
        assert [frame.start_line for frame in answer.frames] == theirs, hex(address)
        asked = ByAddress(ObjectAddress(address))
        assert written.answer(asked).frames == answer.frames
        told = index.answer(asked)
        assert from_answer(to_answer(told)) == told
    assert len(lines) > 2
    for item in find_names(index, NameQuery("*", Match.GLOB, frozenset({NameKind.KERNEL}))):
        symbol = tools.output(
            "llvm-symbolizer-22", f"--obj={objects.path(name)}", "--output-style=JSON", hex(item.address)
        )
        outermost = json.loads(symbol)[0]["Symbol"][-1]
        assert (item.declared_file, item.declared_line) == (outermost["StartFileName"], outermost["StartLine"])


MEMBERS = """struct Box {
  int side;
  int twice(int by) const;
  static int half(int of);
};
int before(int of) { return of * of; }
int Box::twice(int by) const { return 2 * side + by; }
#include "box.h"
int after(int of) { Box box{of}; return box.twice(of) + Box::half(of); }
"""


@pytest.mark.parametrize("version", [4, 5])
def test_members_defined_outside_of_their_class_are_declared_where_symbolizer_says(version, tmp_path):
    """clang states the file of such a definition where it is another than that of the class, and its line."""
    compiler, symbolizer = tools.require("clang-22", "clang"), tools.require("llvm-symbolizer-22", "llvm-symbolizer")
    source, binary = tmp_path / "box.cpp", tmp_path / "box.o"
    source.write_text(MEMBERS, encoding="utf-8")
    (tmp_path / "box.h").write_text("\n\nint Box::half(int of) { return of / 2; }\n", encoding="utf-8")
    target = ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx900", "-nogpulib"]
    tools.output(compiler, *target, "-O1", f"-gdwarf-{version}", "-c", source, "-o", binary)
    found = find_names(ours.index(binary.read_bytes()), NameQuery("*", Match.GLOB, frozenset({NameKind.FUNCTION})))
    lines = {}
    for item in found:
        told = tools.output(symbolizer, f"--obj={binary}", "--output-style=JSON", hex(item.section_offset))
        (symbol,) = json.loads(told)[0]["Symbol"]
        assert (item.declared_file, item.declared_line) == (symbol["StartFileName"], symbol["StartLine"])
        lines[item.name] = Path(item.declared_file).name, item.declared_line
    assert lines == {"before": ("box.cpp", 6), "twice": ("box.cpp", 7), "half": ("box.h", 3), "after": ("box.cpp", 9)}

"""Rows and scopes of what real compilers write: against pyelftools, llvm-dwarfdump and llvm-symbolizer."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from symd.core import line_program
from symd.debuginfo.dwarf import lines as lines_module
from symd.debuginfo.relocation import linear_layout, relocated
from symd.debuginfo.verify import second_opinion
from symd.formats import containers
from symd.model.debug_info import RowFlag
from tests import tools
from tests.agreement.samples import Sample, samples
from tests.core.uncompiled import uncompiled, without_compiled_core
from tests.debuginfo.dwarf.compare import assert_same_lines, assert_same_scopes
from tests.debuginfo.dwarf.decode import by_name, read_lines, read_scopes

HEADER = """\
static inline __attribute__((always_inline)) int inner(int a) {
    int sum = 0;
    for (int i = 0; i < a; i++) {
        sum += a * i;
        if (sum > 100) { int half = sum / 2; sum -= half; }
    }
    return sum;
}
"""
SOURCE = """\
#include "parts/inner.h"
static inline int outer(int a, int b) { int x = inner(a); { int y = inner(b + x); x += y; } return x; }
__attribute__((section(".text.cold"))) int cold(int a) { return outer(a, 3); }
__attribute__((noinline)) int twice(int a, int b) { return outer(a, b) + outer(b, a); }
"""
MAIN = "int twice(int, int); int cold(int);\nint main(int c, char **v) { return twice(c, 2) + cold(c); }\n"
KERNEL = """\
float helper(float a, int n) { float s = a; for (int i = 0; i < n; ++i) s = s * a + (float)i; return s; }
kernel void scale(global float *out, int n) {
    int id = __builtin_amdgcn_workitem_id_x();
    if (id < n) out[id] = helper(out[id], n) + helper(out[id + 1], id);
}
"""
AMDGPU = ("-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx900", "-nogpulib")
HOST = [
    f"clang -gdwarf-{version} -O{level}{extra}"
    for version in (2, 3, 4, 5)
    for level in (0, 2)
    for extra in ("", " -gdwarf64", " -ffunction-sections -fdebug-types-section")
    if not (version == 2 and "64" in extra)
]
HOST += ["gcc -gdwarf-5 -O2", "gcc -gdwarf-4 -O2 -fdebug-types-section", "gcc -gdwarf-2 -O1 -gstrict-dwarf"]
GPU = [f"clang -gdwarf-{version} -O{level}" for version in (4, 5) for level in (0, 2)]


def _compile(folder: Path, command: str) -> Path:
    """A program of two units, one below the other's folder; or a code object for a GPU when ``command`` names none."""
    compiler, *flags = command.split()
    (folder / "src" / "include" / "parts").mkdir(parents=True)
    (folder / "src" / "include" / "parts" / "inner.h").write_text(HEADER)
    (folder / "src" / "twice.c").write_text(SOURCE)
    (folder / "main.c").write_text(MAIN)
    commands = [
        (*flags, "-Isrc/include", "-c", "-o", "twice.o", "src/twice.c"),
        (*flags, "-c", "-o", "main.o", str(folder / "main.c")),
        ("-o", "program", "main.o", "twice.o"),
    ]
    for words in commands:
        subprocess.run([tools.require(compiler), *words], cwd=folder, check=True)
    return folder / "program"


def _compile_kernel(folder: Path, command: str) -> Path:
    compiler, *flags = command.split()
    (folder / "scale.cl").write_text(KERNEL)
    words = [tools.require(compiler), *AMDGPU, *flags, "-o", "scale.co", "scale.cl"]
    subprocess.run(words, cwd=folder, check=True)
    return folder / "scale.co"


def _sections(path: Path) -> dict[str, bytes]:
    elf = ELFFile(io.BytesIO(path.read_bytes()))
    return {section.name: section.data() for section in elf.iter_sections() if section.name.startswith(".debug_")}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Compiled files by command, each built once."""
    known: dict[str, Path] = {}

    def build(command: str, gpu: bool) -> Path:
        key = f"{command} {gpu}"
        if key not in known:
            known[key] = (_compile_kernel if gpu else _compile)(tmp_path_factory.mktemp("built"), command)
        return known[key]

    return build


BINARIES = [(command, False) for command in HOST] + [(command, True) for command in GPU]


@pytest.mark.parametrize(("command", "gpu"), BINARIES)
def test_rows_and_scopes_are_those_of_pyelftools(built, command, gpu, monkeypatch):
    sections = _sections(built(command, gpu))
    lines = read_lines(sections)
    assert lines.warnings == ()
    assert len(lines) > 10
    for module in (line_program, uncompiled("line_program")):
        monkeypatch.setattr(lines_module, "LineProgramRows", module.LineProgramRows)
        assert_same_lines(read_lines(sections), second_opinion.read_lines(sections))
    expected = second_opinion.read_scopes(sections)
    assert len(expected) >= (2 if gpu else 3)
    assert read_scopes(sections, lines).warnings == ()
    assert_same_scopes(sections, expected)
    with without_compiled_core():
        assert_same_scopes(sections, expected)


ROW = re.compile(r"^0x([0-9a-f]{16})\s+(\d+)\s+(\d+)\s+(\d+)\s+\d+\s+\d+ ?(.*)$", re.MULTILINE)


@pytest.mark.parametrize(("command", "gpu"), BINARIES)
def test_rows_are_those_llvm_dwarfdump_prints(built, command, gpu):
    path = built(command, gpu)
    printed = ROW.findall(tools.output(tools.require("llvm-dwarfdump"), "--debug-line", path))
    lines = read_lines(_sections(path))
    columns = zip(*(c.tolist() for c in (lines.address, lines.line, lines.column, lines.flags)), strict=True)
    expected = [
        (int(address, 16), int(line), int(column), sum(int(RowFlag[word.upper()]) for word in words.split()))
        for address, line, column, _, words in printed
    ]
    assert list(columns) == expected


@pytest.mark.parametrize(("command", "gpu"), BINARIES)
def test_paths_are_those_llvm_symbolizer_prints(built, command, gpu):
    path = built(command, gpu)
    lines = read_lines(_sections(path))
    at = {
        int(address): (lines.files[file], int(line))
        for address, file, line, flags in zip(lines.address, lines.file, lines.line, lines.flags, strict=True)
        if not flags & RowFlag.END_SEQUENCE
    }
    words = ["--no-inlines", "--functions=none", f"--obj={path}", *map(hex, at)]
    answers = tools.output(tools.require("llvm-symbolizer"), *words).split("\n\n")
    printed = [answer.strip().rsplit(":", 2) for answer in answers if answer.strip()]
    assert [(file, int(line)) for file, line, _ in printed] == list(at.values())


INTEL = [sample for sample in samples() if sample.debug.startswith("dwarf")]


@pytest.mark.parametrize("sample", INTEL, ids=str)
def test_relocated_sections_of_the_samples_are_read_as_pyelftools_reads_them(sample: Sample):
    for code in containers.unpack(sample.data).objects:
        sections = by_name(relocated(code, linear_layout(code)))
        if ".debug_line" in sections:
            assert_same_lines(read_lines(sections), second_opinion.read_lines(sections))
            assert_same_scopes(sections, second_opinion.read_scopes(sections))

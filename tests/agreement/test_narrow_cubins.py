"""Cubins of 32-bit addresses. nvdisasm does not read their line tables ("Unable to parse DWARF line number information"), so
rows are elfutils', relocation entries readelf's, and what kernels use is what cuobjdump 11.8 -res-usage prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.debuginfo.variables.visible import VariableReader
from symd.formats.containers import unpack
from symd.model.addresses import BySection, SectionOffset
from symd.model.answers import Reason
from symd.query.symbolize import symbolize
from tests import tools
from tests.agreement import ours
from tests.golden.cuda import make

FOLDER = Path(__file__).parents[2] / "samples" / "cuda" / "bin" / "32-bit"
NAMES = sorted(path.name for path in FOLDER.iterdir())
INLINED = ("_Z6squaref", "_Z7length2ff", "norms")
USAGE = {
    "norms.sm_60.lines.cubin": (6, 332),
    "norms.sm_75.dc.cubin": (24, 364),
    "norms.sm_75.debug-dc.cubin": (24, 364),
    "norms.sm_75.debug.cubin": (24, 364),
    "norms.sm_75.lines.cubin": (9, 364),
}
"""Registers and bytes of constant bank 0 of the kernel."""


class Sequence:
    """One function's rows as elfutils lists them, numbered from 1: offset, line, number of the call site's row (0: none), name."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, str]] = []
        self.end = 0

    def frames(self, offset: int) -> list[tuple[str, int]]:
        """(name of the inlined function, "" outermost; line), innermost first, of the last row at or before ``offset``."""
        number = max(at for at, row in enumerate(self.rows, 1) if row[0] <= offset)
        found = []
        while number:
            _, line, number, name = self.rows[number - 1]
            found.append((name if number else "", line))
        return found


def sequences(path: Path) -> dict[str, Sequence]:
    """By the function that a relocation entry of the line table names; entries in order of place are those of the sequences."""
    printed = tools.output(tools.require("readelf"), "-rW", path)
    table = re.search(r"'\.rel\.debug_line'.*?\n\n", printed, re.DOTALL)
    assert table
    entries = re.findall(r"^([0-9a-f]{8}) +[0-9a-f]+ .* (\S+)$", table[0], re.MULTILINE)
    found = [Sequence() for _ in entries]
    for line in make.rows(str(path)):
        number, offset, *rest = line.split(" ")
        if rest == ["end"]:
            found[int(number)].end = int(offset, 16)
        else:
            _, position, context, name = rest
            found[int(number)].rows.append((int(offset, 16), int(position), int(context), name))
    return dict(zip((name for _, name in sorted(entries)), found, strict=True))


def functions(name: str) -> Iterator[tuple[str, int, Sequence]]:
    code = unpack((FOLDER / name).read_bytes()).objects[0]
    sections = {each.name: each.section_index for each in code.functions}
    for function, sequence in sequences(FOLDER / name).items():
        yield function, sections[function], sequence


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_has_the_line_and_the_calls_that_elfutils_reads(name: str) -> None:
    index = ours.index((FOLDER / name).read_bytes())
    compared = 0
    for function, section, sequence in functions(name):
        offsets = range(0, sequence.end, 8)
        answers = symbolize(index, [BySection(section, SectionOffset(offset)) for offset in offsets])
        for offset, answer in zip(offsets, answers, strict=True):
            assert answer.reason is Reason.EXACT, (function, offset)
            mine = [(frame.linkage_name or frame.function or "", frame.line) for frame in answer.frames]
            theirs = sequence.frames(offset)
            assert [line for _, line in mine] == [line for _, line in theirs], (function, offset)
            assert [called for called, _ in mine[:-1]] == [called for called, _ in theirs[:-1]], (function, offset)
            compared += 1
    assert compared >= 30


def test_calls_inlined_into_one_another_are_found_by_name() -> None:
    index = ours.index((FOLDER / "norms.sm_75.lines.cubin").read_bytes())
    code = unpack((FOLDER / "norms.sm_75.lines.cubin").read_bytes()).objects[0]
    section = code.kernels[0].section_index
    queries = [BySection(section, SectionOffset(offset)) for offset in range(0, code.kernels[0].size, 16)]
    chains = {tuple(frame.function for frame in answer.frames) for answer in symbolize(index, queries)}
    assert INLINED in chains


@pytest.mark.parametrize("name", NAMES)
def test_what_a_kernel_uses_is_what_cuobjdump_prints(name: str) -> None:
    code = unpack((FOLDER / name).read_bytes()).objects[0]
    (kernel,) = code.kernels
    registers, constants = USAGE[name]
    assert (kernel.name, kernel.facts["registers"], kernel.facts["constant_banks"]["0"]) == (
        "norms",
        registers,
        constants,
    )
    assert [argument["size"] for argument in kernel.facts["arguments"]] == [4, 4, 4]
    assert (code.facts["toolkit"], code.target) == ("11.8", name.split(".")[1])
    assert (code.facts["relocatable"], code.warnings) == ("dc" in name, ())


@pytest.mark.parametrize("name", [name for name in NAMES if "debug" in name])
def test_parameters_stand_where_the_kernel_is_given_them(name: str) -> None:
    printed = tools.output(tools.require("llvm-dwarfdump-22"), "--debug-info", FOLDER / name)
    theirs = re.findall(
        r"\(DW_OP_addr (0x\w+)\)\s+DW_AT_address_class\s+\(0x07\)\s+DW_AT_name\s+\(\"(\w+)\"\)", printed
    )
    code = unpack((FOLDER / name).read_bytes()).objects[0]
    (kernel,) = code.kernels
    visible = VariableReader(code).at(kernel.section_index, kernel.size // 2)
    parameters = [variable for variable in visible.variables if variable.name != "at"]
    mine = {variable.name: variable.location for variable in parameters}
    assert mine == {name: f"param memory at {place}" for place, name in theirs if name in mine}
    assert list(mine) == ["out", "in", "count"]
    assert [variable.type for variable in parameters] == ["float *", "const float *", "int"]

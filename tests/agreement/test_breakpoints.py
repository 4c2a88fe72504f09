"""Breakpoints for every line of every sample kernel equal a brute-force reading of LLVM's line table and DIE tree, and what
gdb's ``break`` says where gdb can read the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from symd.config import Limits
from symd.index import Index
from symd.index.module import build_index
from symd.model.breakpoints import BreakpointLocation, FunctionName, KernelName, Located, Refusal, SourceLine
from symd.model.code import CodeObject, Function
from symd.query.breakpoints import locate
from symd.rpc.wire.breakpoints import from_location, to_location
from tests.agreement import die_tree, gdb, llvm, oracle_elf, ours
from tests.agreement.comparison import IGC_LINE
from tests.agreement.die_tree import Oracle
from tests.agreement.dwarfdump_dies import Tree
from tests.agreement.samples import Sample, samples
from tests.formats.containers.amd import objects
from tests.golden.cuda import positions
from tests.golden.cuda import samples as cuda
from tests.tools import output, require

BEYOND = 3
"""Lines behind the last one that are asked for too."""


def oracle(elf: bytes, folder: Path) -> Oracle:
    path = folder / "image.elf"
    path.write_bytes(elf)
    rows = [row for table in llvm.line_tables(elf, folder) for row in table]
    return Oracle(rows, die_tree.scopes(path))


def compare(
    found: Index,
    expected: Oracle,
    path: str | None = None,
    where: Callable[[BreakpointLocation], int] = lambda location: location.section_offset,
) -> int:
    """Every line of every file, as written; returns how many breakpoints there were. ``where`` says where LLVM has a
    location."""
    found = found.view(as_written=True)
    count = 0
    for file in sorted(expected.files()):
        last = expected.last_line(file)
        for line in range(1, last + BEYOND):
            wanted = SourceLine(file, line)
            slid, breakpoints = expected.chosen(file, line)
            answer = locate(found, wanted, path)
            assert as_set(nearest(answer), where) == breakpoints, f"{file}:{line}"
            assert {each.function for each in answer.locations} == {function for _, function, _ in breakpoints}
            assert answer.refusal is (None if breakpoints else Refusal.PAST_END)
            assert all(location.slid == (slid != line) for location in answer.locations)
            every = expected.every(file, line)
            answer = locate(found, wanted, path, every_address=True)
            assert sorted(map(where, answer.locations)) == every, f"{file}:{line}"
            assert {location.line for location in answer.locations} <= {line}
            no = Refusal.PAST_END if line > last else Refusal.NO_CODE_AT_LINE
            assert answer.refusal is (None if every else no)
            count += len(breakpoints)
        compare_columns(found, expected, file, path, where)
    compare_functions(found, expected, path, where)
    return count


def compare_columns(
    found: Index, expected: Oracle, file: str, path: str | None, where: Callable[[BreakpointLocation], int]
) -> None:
    """Every column of every line, and the ones before and after it."""
    asked = {(row.line, row.column + step) for row in expected.statements(file) if row.column for step in (-1, 0, 1)}
    for line, column in sorted(each for each in asked if each[1]):
        reached, addresses = expected.from_column(file, line, column)
        every = locate(found, SourceLine(file, line, column), path, every_address=True)
        assert set(map(where, every.locations)) == (addresses if reached == column else set()), (
            f"{file}:{line}:{column}"
        )
        one = locate(found, SourceLine(file, line, column), path)
        if reached:
            assert {location.slid for location in one.locations} == {reached != column}
        else:
            whole = locate(found, SourceLine(file, line), path).locations
            assert list(map(where, one.locations)) == list(map(where, whole))
            assert all(location.slid for location in one.locations)


def compare_functions(
    found: Index, expected: Oracle, path: str | None, where: Callable[[BreakpointLocation], int]
) -> None:
    """Every function and inlined copy by its name. Others may be called the same without their namespaces, and begin where
    they are inlined."""
    for name in sorted({scope.name for scope in expected.tree if scope.name}):
        answer = locate(found, FunctionName(name), path)
        own = {(where(each), name, each.inlined) for each in answer.locations if each.function == name}
        assert own == expected.begins(name), name
        assert answer.refusal is (None if answer.locations else Refusal.NO_SUCH_FUNCTION), name


def nearest(answer: Located) -> Located:
    """Without what lies on a later line: other copies of a function in which the line that all slide to has no code."""
    first = min((location.line for location in answer.locations), default=0)
    return replace(answer, locations=tuple(each for each in answer.locations if each.line == first))


def as_set(answer: Located, where: Callable[[BreakpointLocation], int]) -> set[die_tree.Breakpoint]:
    places = [(where(location), location.function, location.inlined) for location in answer.locations]
    assert len(set(places)) == len(places)
    return set(places)


@pytest.mark.parametrize("sample", [sample for sample in samples("igc-elf") if sample.kernels], ids=str)
def test_a_dumped_kernel(sample: Sample, tmp_path: Path) -> None:
    patched = int.from_bytes(sample.data[18:20], "little") == 182
    elf = oracle_elf.addends_stored(sample.data, IGC_LINE) if patched else sample.data
    assert compare(ours.index(sample.data), oracle(elf, tmp_path)) > 0


@pytest.mark.parametrize("sample", samples("igc-debug"), ids=str)
def test_a_debug_container(sample: Sample, tmp_path: Path) -> None:
    found = ours.index(sample.data)
    for kernel, image in oracle_elf.split_container(sample.data).items():
        if kernel in sample.kernels:
            assert compare(found, oracle(oracle_elf.addends_stored(image, IGC_LINE), tmp_path), kernel) > 0


@pytest.mark.parametrize("sample", [each for each in samples("zebin") if each.debug != "none"], ids=str)
def test_a_zebin(sample: Sample, tmp_path: Path) -> None:
    """Its kernels placed apart, as LLVM is given them."""
    elf, texts = oracle_elf.linked(sample.data)
    bases = {f".text.{name}": number * oracle_elf.APART for number, name in enumerate(texts)}
    found = ours.index(sample.data)
    assert (
        compare(
            found, oracle(elf, tmp_path), "", lambda location: bases[location.section or ""] + location.section_offset
        )
        > 0
    )


AMD = [name for name in objects.LINKED if objects.code(name).debug.startswith("dwarf") and "zstd" not in name]
"""LLVM 14 does not read zstd."""


@pytest.mark.parametrize("name", AMD)
def test_an_amd_code_object(name: str, tmp_path: Path) -> None:
    """Functions that have no DIE are known by their symbols, which stand in for it here."""
    expected = oracle(objects.sample(name), tmp_path)
    code = objects.code(name)
    begun = {low for scope in expected.tree for low, _ in scope.spans if not scope.inlined}
    symbols = [(one.name, *placed(code, one)) for one in code.functions]
    expected.tree += [die_tree.of_symbol(*symbol) for symbol in symbols if symbol[1] not in begun]
    assert compare(ours.index(objects.sample(name)), expected, None, lambda location: location.address) > 0


def placed(code: CodeObject, function: Function) -> tuple[int, int]:
    """Object addresses of a function's first byte and of what follows it."""
    section = next(each for each in code.sections if each.index == function.section_index)
    return section.address + function.offset, section.address + function.offset + function.size


@pytest.mark.parametrize(
    "sample", [each for each in samples("igc-debug") if "blur/" in each.path and "opt" in each.path], ids=str
)
def test_a_helper_inlined_into_four_places_gives_four(sample: Sample) -> None:
    locations = locate(ours.index(sample.data), SourceLine("blur.cl", 8)).locations
    assert [(location.kernel, location.function, location.inlined) for location in locations] == [
        ("blur", "at", True)
    ] * 4
    assert len({location.address for location in locations}) == 4
    assert list(locations) == sorted(locations, key=lambda location: location.address)


@pytest.mark.parametrize("name", objects.LINKED)
def test_a_function_of_an_amd_code_object_begins_where_its_symbol_says(name: str, tmp_path: Path) -> None:
    """As llvm-readelf prints the symbol table; debug data moves it behind a prologue, never in front of the symbol or out of the function."""
    path = tmp_path / "image.elf"
    path.write_bytes(objects.sample(name))
    found = ours.index(objects.sample(name))
    kernels = {kernel.name for each in found.summary.objects for kernel in each.kernels}
    symbols = [line.split() for line in output(require("llvm-readelf"), "--symbols", "--wide", path).splitlines()]
    functions = {words[7]: (int(words[1], 16), int(words[2], 0)) for words in symbols if words[3:4] == ["FUNC"]}
    if not functions:
        pytest.skip("its kernels have symbols of a type of their own")
    for symbol, (address, size) in functions.items():
        for wanted in (FunctionName(symbol), KernelName(symbol)):
            answer = locate(found, wanted)
            own = [each.address for each in answer.locations if not each.inlined]
            if isinstance(wanted, KernelName) and symbol not in kernels:
                assert answer.refusal is Refusal.NO_SUCH_FUNCTION
            else:
                (begin,) = (each for each in own if address <= each < address + max(size, 1))
                assert objects.code(name).debug.startswith("dwarf") or begin == address


CUDA = [name for name in cuda.CUBINS if ".none." not in name]


@pytest.mark.parametrize("name", CUDA)
def test_every_address_of_every_line_of_a_cubin_is_one_where_nvdisasm_begins_a_line(name: str) -> None:
    """The innermost line that nvdisasm prints at an instruction begins there. What it does not print are rows that say
    again what the row before says, and rows that the next one at their address covers up, such as those of calls."""
    found = ours.index(cuda.data(name))
    wanted: dict[tuple[str, int], set[tuple[int, int]]] = {}
    held: dict[tuple[str, int], set[tuple[int, int]]] = {}
    begun: set[tuple[int, int]] = set()
    for section, shown in positions.matched(cuda.code(name), positions.printed("lines.txt", name)):
        for offset, chain, new in positions.instructions(section, shown):
            for position in chain:
                held.setdefault(position, set()).add((section.index, offset))
            if new and chain:
                wanted.setdefault(chain[0], set()).add((section.index, offset))
                begun.add((section.index, offset))
    assert len(wanted) > 1
    for (file, line), places in wanted.items():
        locations = locate(found, SourceLine(file, line), every_address=True).locations
        mine = {(location.section_index, int(location.section_offset)) for location in locations}
        assert places <= mine <= begun | held[file, line], f"{file}:{line}"


READABLE_BY_GDB = [
    sample for sample in samples("igc-elf") if sample.kernels and int.from_bytes(sample.data[18:20], "little") == 62
]


@pytest.mark.parametrize("sample", READABLE_BY_GDB, ids=str)
def test_gdb_breaks_at_the_same_addresses(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / "image.elf"
    path.write_bytes(sample.data)
    found, expected = ours.index(sample.data).view(as_written=True), oracle(sample.data, tmp_path)
    for file in sorted(expected.files()):
        for line, addresses in gdb.breakpoints(path, file, expected.last_line(file) + BEYOND).items():
            locations = locate(found, SourceLine(file, line)).locations
            mine = sorted({int(location.section_offset) for location in locations})
            if mine != addresses:
                assert left_the_function(expected, mine, addresses), f"{file}:{line}"


def left_the_function(expected: Oracle, mine: list[int], theirs: list[int]) -> bool:
    """In one sample a kernel of 96 bytes has no prologue_end; gdb then looks for the second line, and finds it in the
    function behind the kernel."""
    owners = [die_tree.innermost(expected.tree, address) for address in (*mine, *theirs)]
    first = owners[0]
    return len(mine) == len(theirs) == 1 and first is not None and mine == [first.low] and owners[1] is not first


ROTATED = """static inline float falloff(float d) {
    return 1.0f / (1.0f + d * d);
}
static inline float density(global const float *points, int count, float x, float y) {
    float sum = 0;
    for (int i = 0; i < count; i++) {
        float dx = points[2 * i] - x;
        float dy = points[2 * i + 1] - y;
        sum += falloff(dx * dx + dy * dy);
    }
    return sum;
}
static inline float brighter(float ground) {
    return ground * 3 + 1;
}
kernel void splat(global float *out, global const float *points, int count, float x, float y) {
    int i = __builtin_amdgcn_workitem_id_x();
    float ground = out[i];
    if (ground > 0)
        out[i] = brighter(ground) + density(points, count, x + i, y);
}
"""


def test_a_copy_in_several_ranges_has_a_possible_entry_at_each_of_them(tmp_path: Path) -> None:
    """What stands in one range is entered at its start, as DWARF 5 (2.18) says. A nested copy that begins a range of the
    copy around it is told as its own."""
    built = objects.compiled(tmp_path, "splat.cl", ROTATED, "-O2", compiler="clang-14")
    index = Index(build_index(built.read_bytes(), Limits()))
    tree = Tree(built)
    seen: set[bool] = set()
    for name in ("falloff", "density", "brighter"):
        copies = [
            die for die in tree.dies.values() if die.tag == "DW_TAG_inlined_subroutine" and tree.name(die) == name
        ]
        assert copies
        assert not any("DW_AT_entry_pc" in die.attributes for die in copies)
        expected = [(start, len(die.ranges()) > 1) for die in copies for start, _ in die.ranges()]
        found = locate(index, FunctionName(name)).locations
        assert sorted((int(one.address), one.possible_entry) for one in found) == sorted(expected)
        assert all(one.function == name and one.inlined for one in found)
        assert [from_location(to_location(one)) for one in found] == list(found)
        seen.update(possible for _, possible in expected)
    assert seen == {True, False}
    (kernel,) = locate(index, FunctionName("splat")).locations
    assert not kernel.possible_entry

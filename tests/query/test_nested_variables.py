"""Whose variable is it? samples/kernels/nested.clcpp has functions of one name inlined into each other, and blocks that hide variables. What belongs where is
read from the source text, and from llvm-dwarfdump's tree."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

import symd
from symd.debuginfo.variables.registers import frame_divisor
from symd.model.code import CodeObject, Vendor
from symd.model.identities import ObjectPath
from symd.model.variables import InScope
from tests.query.test_variables import SAMPLES
from tests.tools import require

SOURCE = (SAMPLES / "kernels" / "nested.clcpp").read_text().splitlines()
AMD = ["amdgpu/bin/nested-14.co", "amdgpu/bin/nested-14-O0.co", "amdgpu/bin/nested-22.o", "amdgpu/bin/nested-22-O0.o"]
INTEL = ["kernels/bin/nested/dg2-opt.dbg", "kernels/bin/nested/dg2-O0.dbg"]
OPTIMISED = [path for path in (*AMD, *INTEL) if "O0" not in path]


class Declared(NamedTuple):
    """Where a line of the source lies: the function that is written there, and in how many of its blocks."""

    function: str
    depth: int


@cache
def written() -> dict[int, Declared]:
    """By line: what the braces of the source say."""
    found, braces, space, function = {}, 0, "", ""
    for number, line in enumerate(SOURCE, 1):
        if named := re.match(r"namespace (\w+)", line):
            space, base = named[1] + "::", 1
        elif named := re.match(r"(?:__attribute__.*|kernel )(?:void|float) (\w+)\(", line):
            function = space + named[1]
        if line.startswith("kernel"):
            space, base = "", 0
            function = re.match(r"kernel void (\w+)", line)[1]
        if function:
            loop = 1 if line.lstrip().startswith("for") else 0
            in_loop = 1 if number > 1 and SOURCE[number - 2].lstrip().startswith("for") else 0
            found[number] = Declared(function, max(braces - base - 1, 0) + loop + in_loop)
        braces += line.count("{") - line.count("}")
    return found


def called(function: str | None, linkage_name: str | None) -> str:
    for space in ("inner", "outer"):
        if linkage_name and space in linkage_name:
            return f"{space}::{function}"
    return function or ""


def everywhere(path: str) -> Iterator[InScope]:
    module = symd.open(SAMPLES / path)
    named = {(each.path, each.section, each.section_offset): each.size for each in module.names("*") if each.section}
    for (within, section, start), size in named.items():
        yield from module.variables([f"({section})+{offset:#x}" for offset in range(start, start + size, 8)], within)


@pytest.mark.parametrize("path", [*AMD, *INTEL])
def test_every_variable_is_of_the_function_that_the_source_says(path: str):
    frames = set()
    for found in everywhere(path):
        for each in found.visible.variables:
            assert each.declared_file.endswith("/nested.clcpp"), each
            where = written()[each.declared_line]
            assert re.search(rf"\b{each.name}\b", SOURCE[each.declared_line - 1])
            frame = found.at.frames[each.frame]
            assert called(frame.function, frame.linkage_name) == where.function
            assert called(each.function, each.linkage_name) == where.function
            assert not frame.line or written()[frame.line].function == where.function
            assert bool(each.block) == bool(each.block_depth) == bool(where.depth), each
            assert each.block_depth == where.depth or ("22" in path and each.block_depth < where.depth), (
                "as few as it keeps"
            )
            frames.add((where.function, each.name, each.declared_line))
    assert {function for function, name, _ in frames if name == "t"} == {"inner::f", "outer::f", "twice"}


@pytest.mark.parametrize("path", OPTIMISED)
def test_two_functions_of_one_name_have_an_x_each(path: str):
    met = False
    for found in everywhere(path):
        frames = [called(each.function, each.linkage_name) for each in found.at.frames]
        if frames[:2] == ["inner::f", "outer::f"]:
            x = {each.frame: each.declared_line for each in found.visible.variables if each.name == "x"}
            assert x == {0: 11, 1: 19}
            met = True
    assert met


def tree(path: str) -> Iterator[tuple[int, int, str, dict[str, str]]]:
    """llvm-dwarfdump's DIEs: offset, depth, tag and attributes as text."""
    text = subprocess.run(
        [require("llvm-dwarfdump"), "--debug-info", SAMPLES / path], capture_output=True, text=True, check=True
    ).stdout
    for die in re.split(r"\n(?=0x[0-9a-f]{8}: )", text):
        head = re.match(r"0x([0-9a-f]{8}): ( *)DW_TAG_(\w+)", die)
        if head:
            told = re.findall(r"DW_AT_(\w+)\s+\((.*?)\)\n(?=\s+DW_AT_|\s*\Z)", f"{die}\n", re.DOTALL)
            yield int(head[1], 16), len(head[2]) // 2, head[3], dict(told)


def spans(attributes: dict[str, str]) -> list[tuple[int, int]]:
    if "ranges" in attributes:
        pairs = re.findall(r"\[0x([0-9a-f]+), 0x([0-9a-f]+)\)", attributes["ranges"])
        return [(int(start, 16), int(end, 16)) for start, end in pairs]
    if "low_pc" in attributes:
        return [(int(attributes["low_pc"].split()[0], 16), int(attributes["high_pc"].split()[0], 16))]
    return []


@pytest.mark.parametrize("path", AMD)
def test_what_each_frame_has_is_what_llvm_dwarfdump_has_below_its_scope(path: str):
    dies = list(tree(path))
    by_offset = {offset: attributes for offset, _, _, attributes in dies}

    def line(attributes: dict[str, str]) -> int:
        while "decl_line" not in attributes:
            attributes = by_offset[int(attributes["abstract_origin"].split()[0], 16)]
        return int(attributes["decl_line"])

    compared = 0
    for found in everywhere(path):
        address = found.at.address
        chain: list[int] = []  # depth of each function around the address
        theirs = set()
        holds: dict[int, int] = {}  # depth of a scope around the address: the number of its function among them
        for _, depth, tag, attributes in dies:
            for deeper in [each for each in holds if each >= depth]:
                del holds[deeper]
            if tag in ("subprogram", "inlined_subroutine", "lexical_block"):
                if any(start <= address < end for start, end in spans(attributes)):
                    is_body = tag == "inlined_subroutine" and "__clang_ocl_kern_imp_" in attributes["abstract_origin"]
                    if tag != "lexical_block" and not is_body:
                        chain.append(depth)
                    holds[depth] = len(chain)
            elif (
                tag in ("variable", "formal_parameter")
                and depth - 1 in holds
                and {"location", "const_value"} & set(attributes)
            ):
                theirs.add((holds[depth - 1], line(attributes)))
        ours = {(len(chain) - each.frame, each.declared_line) for each in found.visible.variables}
        assert len(chain) == len(found.at.frames)
        assert theirs <= ours, hex(address)
        compared += len(theirs)
    assert compared > 100


def instructions(path: str, function: str, objdump: str = "llvm-objdump") -> Iterator[tuple[int, str, list[str]]]:
    """llvm-objdump's: offset in the function, mnemonic and operands."""
    command = [require(objdump), "-d", f"--disassemble-symbols={function}", SAMPLES / path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    start = None
    for mnemonic, operands, address in re.findall(r"^\t(\w+) (.*?)\s*// ([0-9A-F]+):", text, re.MULTILINE):
        start = int(address, 16) if start is None else start
        yield int(address, 16) - start, mnemonic, operands.split(", ")


@pytest.mark.parametrize("path", ["amdgpu/bin/nested-14.co", "amdgpu/bin/nested-22.o"])
def test_a_location_is_doubtful_where_the_instruction_takes_the_register_for_the_value(path: str):
    """In inner::f, x * 3 + 1 is one instruction, whose first factor is x; of an unrolled loop several are side by side. Kernel stirred has private
    memory, in which cup is."""
    module, compared = symd.open(SAMPLES / path), 0
    factors = {
        offset: operands[1]
        for offset, mnemonic, operands in instructions(path, "stirred")
        if mnemonic == "v_fma_f32" and operands[3] == "1.0"
    }
    for offset in factors:
        found = module.variables(f"stirred+{offset:#x}")
        start = found.at.section_offset - offset
        for x in [each for each in found.visible.variables if (each.name, each.declared_line) == ("x", 11)]:
            for first, end in [each for each in x.live if each[0] <= offset + start < each[1]]:
                within = [factor for at, factor in factors.items() if first <= at + start < end]
                assert x.location in [f"private memory at {factor}" for factor in within]
                [location] = x.locations
                assert location.doubt is not None
                assert location.doubt.reason == "VALUE_NOT_ADDRESS"
                compared += 1
        [cup] = [each for each in found.visible.variables if each.name == "cup"]
        assert [each.doubt for each in cup.locations] == [None] * len(cup.locations)
    assert compared > 1


@pytest.mark.parametrize(
    "path", ["amdgpu/bin/nested-14-O0.co", "amdgpu/bin/nested-22-O0.o", "amdgpu/bin/v4-gfx900-O0.co"]
)
def test_what_is_in_private_memory_is_not_doubted(path: str):
    found = [each for place in everywhere(path) for each in place.visible.variables if each.locations]
    assert {each.doubt for variable in found for each in variable.locations} == {None}
    if path != "amdgpu/bin/nested-14-O0.co":
        return
    stored = {operands[-1] for _, mnemonic, operands in instructions(path, "twice") if mnemonic == "buffer_store_dword"}
    offsets = {int(where[1]) for each in stored if (where := re.search(r"s33 offset:(\d+)", each))}
    told = {place.locations[0].pieces[0].offset for place in found if place.function == "twice"}
    assert told <= offsets


@pytest.mark.parametrize(
    ("path", "function", "symbol", "divisor"),
    [
        ("amdgpu/bin/v4-gfx900-O0.co", "march", "march", 64),
        ("amdgpu/bin/v4-gfx900-O0.co", "blend", "blend", 64),
        ("amdgpu/bin/v6-gfx1100-calls-O0.co", "_Z7squaredPKfi", "squared", 1),
    ],
)
def test_a_frame_pointer_is_divided_where_it_counts_the_bytes_of_all_lanes(
    path: str, function: str, symbol: str, divisor: int
):
    """A called function moves the stack pointer by its frame: by 0x600 in march, whose last variable ends at 16 bytes
    of each lane, and by 32 in squared, whose last one ends at 24."""
    found = symd.open(SAMPLES / path).variables(f"{function}+0x30")
    assert found.at.frames[0].function == symbol
    pieces = [each.locations[0].pieces[0] for each in found.visible.variables if each.kind != "global"]
    assert {(each.register.name, each.base_divisor) for each in pieces} == {("s33", divisor)}
    own = instructions(path, function, "llvm-objdump-22")
    added = next(int(each[2], 0) for _, mnemonic, each in own if mnemonic == "s_add_i32" and each[:2] == ["s32", "s32"])
    end = max(each.offset + 4 for each in pieces)
    assert end <= added // divisor < end + 32
    text = {each.location for each in found.visible.variables if each.kind != "global"}
    assert {each.partition(" + ")[0] for each in text} == {f"private memory at s33{'/64' if divisor > 1 else ''}"}


@pytest.mark.parametrize(
    ("target", "lanes", "divisor"),
    [
        ("gfx803", 64, 64), ("gfx90a:xnack+", 64, 64), ("gfx90c", None, 64), ("gfx9-generic", None, 64), ("gfx942", 64, 1),
        ("gfx9-4-generic", 64, 1), ("gfx950", 64, 1), ("gfx1035", 32, 32), ("gfx1030", 64, 64), ("gfx10-3-generic", 32, 32),
        ("gfx1030", None, 1), ("gfx1100", 32, 1), ("gfx11-generic", 32, 1), ("gfx1201", 32, 1), ("gfx1250", 32, 1), (None, 64, 1),
    ],
)  # fmt: skip
def test_processors_with_architected_flat_scratch_have_frames_of_one_lane(
    target: str | None, lanes: int | None, divisor: int
):
    """LLVM's AMDGPU usage guide, "Processors": those with architected flat scratch read private memory by scratch
    instructions."""
    code = CodeObject(ObjectPath(""), "amdgpu", target, b"", vendor=Vendor.AMD)
    assert frame_divisor(code, lanes) == divisor

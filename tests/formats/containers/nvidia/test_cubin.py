"""Cubins of ptxas 12.0 to 13.4 and nvlink 13.0 against cuobjdump and readelf, and damaged ones against the error tree."""

from __future__ import annotations

import random
import re
import struct

import pytest

from symd.errors import Malformed, SymdError
from symd.formats import containers, elf
from symd.formats.containers.nvidia import cubin
from tests import tools
from tests.builders.elf import AX, ET_EXEC, FUNC, GLOBAL, Section, Symbol, build_elf
from tests.golden.cuda import make, samples


@pytest.mark.parametrize("name", samples.CUBINS)
def test_the_target_is_the_architecture_that_was_asked_for(name):
    code = samples.code(name)
    assert code.target == name.split(".")[1]
    assert (code.format, code.relocation, code.linked) == ("cubin", "cuda", False)
    assert code.warnings == ()


@pytest.mark.parametrize("name", samples.CUBINS)
def test_the_toolkit_is_the_one_that_the_manifest_names(name):
    version = re.search(r"ptxas-([\d.]+)\.cubin", name)
    assert samples.code(name).facts["toolkit"] == (version[1] if version else "13.0")


@pytest.mark.parametrize(
    ("name", "debug"),
    [
        ("saxpy.sm_90.none.cubin", "none"),
        ("raycast.sm_75.lines.cubin", "line-only"),
        ("raycast.sm_90.debug.cubin", "dwarf-2"),
    ],
)
def test_debug_says_what_the_compiler_was_asked_for(name, debug):
    assert samples.code(name).debug == debug


def _usage(name: str) -> list[tuple[str, dict[str, int]]]:
    """cuobjdump -res-usage: (function, {"REG": 20, "CONSTANT[0]": 544, ...}); "" stands for the whole image."""
    result = []
    lines = iter(make.read("resources.txt")[name])
    for line in lines:
        title = re.fullmatch(r"Function (.*):|Common:", line)
        assert title, line
        result.append((title[1] or "", {key: int(value) for key, value in re.findall(r"(\S+):(\d+)", next(lines))}))
    return result


@pytest.mark.parametrize("name", samples.CUBINS)
def test_resources_of_kernels_are_those_that_cuobjdump_prints(name):
    code = samples.code(name)
    usage = _usage(name)
    kernels = {kernel.name: kernel.facts for kernel in code.kernels}
    assert kernels
    for function, expected in usage[1:]:
        facts = kernels.pop(function, None)
        if facts is None:
            assert not any(key.startswith("CONSTANT[0]") for key in expected)
            continue
        banks = {key[9:-1]: value for key, value in expected.items() if key.startswith("CONSTANT")}
        assert facts["registers"] == expected["REG"]
        assert facts["shared_memory"] == expected["SHARED"]
        assert facts.get("min_stack_size", 0) == expected["STACK"]
        assert facts["constant_banks"] == banks
    assert not kernels
    common = usage[0][1]
    assert code.facts["global_memory"] == common["GLOBAL"]
    assert code.facts["constant_banks"] == {
        key[9:-1]: value for key, value in common.items() if key.startswith("CONSTANT")
    }


BARRIERS = {
    "raycast": {"_Z7raycastPfi6float3"},
    "reduce": {"_Z6reduceIf3SumEvPKT_PS1_", "_Z6reduceIi7LargestEvPKT_PS1_"},
}


@pytest.mark.parametrize("name", [name for name in samples.CUBINS if name.split(".")[0] in BARRIERS])
def test_kernels_whose_source_synchronises_use_one_barrier_in_both_dialects(name):
    found = {kernel.name: kernel.facts["barriers"] for kernel in samples.code(name).kernels}
    assert found == {kernel: int(kernel in BARRIERS[name.split(".")[0]]) for kernel in found}


def test_a_stack_size_that_ptxas_cannot_tell_is_no_number():
    """It writes 0xffffffff for a kernel whose functions call themselves, and cuobjdump STACK:UNKNOWN."""
    name, probe = "raycast.sm_90.debug.cubin", "_Z5probePfPK6float3"
    listed = tools.output(tools.require("readelf"), "-sW", samples.FOLDER / name)
    number = int(re.search(rf"^ *(\d+): .* FUNC .* {probe}$", listed, re.MULTILINE)[1])
    record = struct.pack("<BBHI", 4, 0x12, 8, number)
    known, unknown = record + struct.pack("<I", 104), record + b"\xff" * 4
    assert samples.data(name).count(known) == 1
    changed = samples.read_cubin(samples.data(name).replace(known, unknown))
    facts = {kernel.name: kernel.facts for kernel in changed.kernels}
    assert "min_stack_size" not in facts[probe]
    assert facts[probe]["dynamic_stack"] is True
    assert facts["_Z7raycastPfi6float3"]["min_stack_size"] == 104
    assert "dynamic_stack" not in facts["_Z7raycastPfi6float3"]


def test_launch_bounds_of_the_source_are_facts():
    kernels = {kernel.name: kernel.facts for kernel in samples.code("raycast.sm_90.lines.cubin").kernels}
    assert kernels["_Z7raycastPfi6float3"]["max_threads"] == [64, 1, 1]
    assert "max_threads" not in kernels["_Z5probePfPK6float3"]


@pytest.mark.parametrize("name", samples.CUBINS)
def test_functions_are_the_function_symbols_that_readelf_lists(name):
    text = tools.output(tools.require("readelf"), "-sW", samples.FOLDER / name)
    rows = re.findall(r"^\s*\d+: (\w+)\s+(\w+) FUNC\s+\S+\s+\S+\s+(?:\[.*?\])?\s*(\d+) (\S+)$", text, re.MULTILINE)
    expected = [(symbol, int(section), int(value, 16), int(size, 0)) for value, size, section, symbol in rows]
    assert expected
    found = [(one.name, one.section_index, one.offset, one.size) for one in samples.code(name).functions]
    assert sorted(found) == sorted(expected)


def test_a_linked_image_repeats_names_and_functions_keep_their_sections():
    code = samples.code("linked.sm_80.lines.cubin")
    slow = [one for one in code.functions if one.name == "__cuda_sm20_sqrt_rn_f32_slowpath"]
    assert len(slow) == 2
    assert len({one.section_index for one in slow}) == 2
    assert [kernel.name for kernel in code.kernels] == ["_Z7weightsPfPKf", "_Z5decayPff"]


def test_a_relocatable_image_has_the_functions_of_its_own_half_only():
    code = samples.code("linked_kernel.sm_80.dc.cubin")
    assert code.facts["relocatable"] is True
    assert "_Z5weighfi" not in {one.name for one in code.functions}


def _made(**changes: object) -> bytes:
    """A cubin of one kernel; ``changes`` go to the ELF builder."""
    given = {
        "machine": 190,
        "type": ET_EXEC,
        "abiversion": 8,
        "flags": 0x5A04,
        "sections": [Section(".text.k", flags=AX, data=bytes(64))],
        "symbols": [Symbol("k", size=64, section=".text.k", type=FUNC, bind=GLOBAL, other=0x10)],
    }
    return build_elf(**(given | changes))


COMPAT = Section(".nv.compat", 0x70000086, data=bytes([2, 9, 1, 0]))


@pytest.mark.parametrize(
    ("changes", "target"),
    [
        ({"abiversion": 7, "flags": 0x500550, "version": 0x78, "osabi": 0x33}, "sm_80"),
        ({"abiversion": 7, "flags": 0x5A0D5A, "version": 0x81, "osabi": 0x33}, "sm_90a"),
        ({"abiversion": 7, "flags": 0x3C0D3C, "version": 0x50, "osabi": 0x33}, "sm_60"),
        ({"abiversion": 7, "flags": 0x320D32, "version": 0x50, "osabi": 0x33}, "sm_50"),
        ({"abiversion": 8, "flags": 0x0A006402, "osabi": 0x41}, "sm_100"),
        ({"abiversion": 8, "flags": 0x0A00640A, "osabi": 0x41}, "sm_100a"),
        ({"abiversion": 8, "flags": 0x0A007802, "osabi": 0x41, "version": 0x81}, "sm_120"),
        ({"sections": [COMPAT, Section(".text.k", flags=AX, data=bytes(64))]}, "sm_90a"),
    ],
)
def test_the_abi_version_alone_decides_where_the_architecture_is(changes, target):
    assert samples.read_cubin(_made(**changes)).target == target


@pytest.mark.parametrize(("outer", "target"), [("sm_90f", "sm_90f"), ("sm_90a", "sm_90a"), ("sm_100a", "sm_90")])
def test_a_fat_binary_may_add_the_letter_but_not_another_number(outer, target):
    assert samples.read_cubin(_made(), outer).target == target


def test_barriers_of_the_old_dialect_are_in_the_section_flags():
    sections = [Section(".text.k", flags=AX | 3 << 20, data=bytes(64), info=0x21000001)]
    old = samples.read_cubin(_made(abiversion=7, flags=0x500550, sections=sections)).kernels[0].facts
    assert (old["barriers"], old["registers"]) == (3, 0x21)
    assert samples.read_cubin(_made(sections=sections)).kernels[0].facts["barriers"] == 0


def test_without_symbols_functions_are_named_by_their_sections():
    code = samples.read_cubin(_made(symbols=None))
    assert [(one.name, one.size) for one in code.functions] == [("k", 64)]
    assert code.warnings == ("no symbol table: functions are named by their sections",)


def test_a_stub_without_functions_is_fine():
    code = samples.read_cubin(_made(sections=[], symbols=[]))
    assert (code.kernels, code.functions, code.debug) == ((), (), "none")


def test_damaged_attributes_cost_a_warning_and_not_the_object():
    sections = [
        Section(".text.k", flags=AX, data=bytes(64)),
        Section(".nv.info.k", 0x70000000, data=bytes([4, 0x11, 200, 0]), info=1),
    ]
    code = samples.read_cubin(_made(sections=sections))
    assert [kernel.name for kernel in code.kernels] == ["k"]
    assert ".nv.info.k" in code.warnings[0]


def test_symbols_outside_their_section_are_left_out_and_long_ones_are_cut():
    symbols = [
        Symbol("k", size=6400, section=".text.k", bind=GLOBAL, other=0x10),
        Symbol("far", value=1 << 40, size=8, section=".text.k", bind=GLOBAL, other=0x10),
    ]
    code = samples.read_cubin(_made(symbols=symbols))
    assert [(one.name, one.size) for one in code.functions] == [("k", 64)]
    assert [kernel.name for kernel in code.kernels] == ["k"]
    assert code.warnings == ("left out: 1 function symbol outside of the symbol's section",)


def test_other_machines_and_other_kinds_of_elf_are_refused():
    assert not cubin.claims(_made(machine=62))
    assert cubin.claims(_made())
    assert not cubin.claims(_made(type=4))


@pytest.mark.parametrize("kind", [0, 3, 5, 0xFEFF, 0xFF07, 0xFF11, 0xFFFF])
def test_a_cubin_of_a_new_elf_type_is_read_and_the_type_named(kind):
    known = samples.code("tonemap.sm_90a.lines.cubin")
    (new,) = containers.unpack(known.data[:16] + kind.to_bytes(2, "little") + known.data[18:]).objects
    assert (new.kernels, new.functions, new.target) == (known.kernels, known.functions, known.target)
    assert [*new.warnings] == [f"ELF type {kind:#x} is new to symd: read as if it were an executable one"]


def test_an_extensible_whole_program_is_to_be_linked_and_otherwise_like_others():
    code = samples.code("tonemap.sm_90.ewp.cubin")
    assert elf.kind(code.data) == (0xFF00, 190)
    assert (code.facts["relocatable"], [*code.warnings]) == (True, [])


@pytest.mark.parametrize("name", ["saxpy.sm_75.lines.cubin", "tonemap.sm_80.ptxas-12.0.cubin"])
def test_a_truncated_cubin_is_an_error_of_the_tree(name):
    whole = samples.data(name)
    claimed = [size for size in (*range(200), *range(200, len(whole), 97)) if cubin.claims(whole[:size])]
    assert claimed[0] == 19  # EM_CUDA fits the low byte of e_machine
    for size in claimed:
        with pytest.raises(Malformed):
            samples.read_cubin(whole[:size])


def test_flipped_bytes_are_answered_or_refused_within_the_tree():
    whole = samples.data("saxpy.sm_75.lines.cubin")
    table = struct.unpack_from("<Q", whole, 40)[0]
    chance = random.Random(4)
    refused = 0
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[chance.choice([chance.randrange(20, 64), chance.randrange(table, len(whole))])] = chance.randrange(
                256
            )
        try:
            samples.read_cubin(bytes(damaged))
        except SymdError:
            refused += 1
    assert refused > 50

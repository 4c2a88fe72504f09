"""AMDGPU code objects of clang 14, 19 and 22 against llvm-readelf, pruned and damaged ones against what is left of them."""

from __future__ import annotations

import json
import re
import struct

import pytest

from symd.errors import LimitExceeded, Malformed
from symd.formats import elf
from symd.formats.containers.amd import amdgpu
from symd.model.code import Section
from tests import tools
from tests.formats.containers.amd import objects

NO_TABLE = {"v4-gfx900-headers-cut.co"}


def readelf(name: str, *flags: str) -> dict:
    text = tools.output(tools.require("llvm-readelf-22"), "--elf-output-style=JSON", *flags, objects.path(name))
    return json.loads(text)[0]


def symbols_of(name: str) -> list[dict]:
    rows = readelf(name, "--symbols")["Symbols"] or readelf(name, "--dyn-syms")["DynamicSymbols"]
    return [row["Symbol"] for row in rows]


@pytest.mark.parametrize("name", objects.OBJECTS)
def test_only_the_amd_reader_takes_an_object_of_machine_224(name):
    assert amdgpu.claims(objects.sample(name))


def test_other_elf_images_are_not_claimed():
    assert not amdgpu.claims(objects.sample("host"))
    assert not amdgpu.claims(b"")
    assert not amdgpu.claims(b"\x7fELF")


@pytest.mark.parametrize("name", objects.OBJECTS)
def test_the_code_object_version_is_the_one_that_the_compiler_was_asked_for(name):
    code = objects.code(name)
    assert code.facts["code_object_version"] == int(name[1])
    assert code.facts["os"] == "amdhsa"


@pytest.mark.parametrize("name", objects.OBJECTS)
def test_sections_are_those_of_readelf(name):
    ours = [(one.index, one.name, one.address) for one in objects.code(name).sections]
    if name in NO_TABLE:
        assert [one[1] for one in ours] == ["", ".load", ".text", ".load.2", ".note"]
        return
    theirs = [one["Section"] for one in readelf(name, "--sections")["Sections"]]
    assert ours == [(one["Index"], one["Name"]["Name"], one["Address"]) for one in theirs]


@pytest.mark.parametrize("name", [name for name in objects.OBJECTS if name not in NO_TABLE])
def test_functions_are_the_function_symbols_of_readelf_at_their_places(name):
    kinds = {"Function", "AMDGPU_HSA_KERNEL"}
    code = objects.code(name)
    named = {one.name: one for one in code.functions}
    base = {one.index: one.address if code.linked else 0 for one in code.sections}
    theirs = [one for one in symbols_of(name) if one["Type"]["Name"] in kinds or one["Type"]["Value"] in (2, 10)]
    assert theirs
    for one in theirs:
        ours = named[one["Name"]["Name"]]
        assert ours.section_index == one["Section"]["Value"]
        assert base[ours.section_index] + ours.offset == one["Value"]
        assert ours.size == one["Size"] or one["Size"] == 0


@pytest.mark.parametrize("name", objects.OBJECTS)
def test_every_kernel_of_the_source_is_found(name):
    source = {"scale": ["scale"], "v5": HIP, "v6": HIP}
    wanted = source.get(name.split("-")[1].split(".")[0], source.get(name[:2], ["shade", "clear"]))
    if name == "v6-gfx942-xnack.co":
        wanted = ["shade", "clear"]
    if "-calls" in name:
        wanted = ["_Z5probePfPKfi"]
    assert [kernel.name for kernel in objects.code(name).kernels] == wanted


HIP = ["_Z5shadePfPKfi", "_Z13shade_doublesPdPKdi"]


@pytest.mark.parametrize("name", ["v4-gfx900-stripped.co", "v4-gfx900-headers-cut.co"])
def test_kernels_are_found_by_the_dynamic_symbols_alone(name):
    whole = objects.code("v4-gfx900.co")
    cut = objects.code(name)
    assert [(one.name, one.offset, one.size, one.facts) for one in cut.kernels] == [
        (one.name, one.offset, one.size, one.facts) for one in whole.kernels
    ]
    text = cut.sections[cut.kernels[0].section_index]
    assert (text.name, text.data) == (".text", whole.section(".text").data)


def test_an_image_without_section_table_says_so():
    assert "no section table" in objects.code("v4-gfx900-headers-cut.co").warnings[0]


def test_dynamic_symbols_are_counted_by_the_gnu_hash_table_where_the_old_one_is_missing():
    data = bytearray(objects.sample("v4-gfx900-headers-cut.co"))
    at = data.index(
        struct.pack("<QQ", 4, elf.parse(objects.sample("v4-gfx900.co"), objects.budget()).by_name[".hash"].address)
    )
    data[at : at + 8] = struct.pack("<Q", 0x6FFFFF00)
    assert [one.name for one in objects.decode(bytes(data)).kernels] == ["shade", "clear"]


def test_a_lost_section_table_costs_the_debug_data_and_not_the_kernels():
    whole = objects.sample("v4-gfx900.co")
    cut = objects.decode(whole[:-64])
    assert [one.name for one in cut.kernels] == ["shade", "clear"]
    assert "section table" in cut.warnings[0]
    assert cut.debug == "none"


@pytest.mark.parametrize("name", ["v2-scale-null-headers.co", "v2-scale-packed.co"])
def test_pruned_files_keep_their_kernel_and_its_facts(name):
    before, after = objects.code("v2-scale.co"), objects.code(name)
    assert [(one.name, one.offset, one.size, one.facts) for one in after.kernels] == [
        (one.name, one.offset, one.size, one.facts) for one in before.kernels
    ]
    assert after.section(".text").data == before.section(".text").data
    assert after.section(".text").address == before.section(".text").address


def test_what_stands_in_front_of_a_version_2_kernel_is_part_of_it():
    """The numbers are those of the assembly source."""
    kernel = objects.code("v2-scale.co").kernels[0]
    assert (kernel.offset, kernel.size, kernel.facts["entry_offset"]) == (0, 284, 256)
    assert {key: kernel.facts[key] for key in ("vgprs", "sgprs", "shared_memory", "kernarg_size", "simd_width")} == {
        "vgprs": 5,
        "sgprs": 10,
        "shared_memory": 512,
        "kernarg_size": 16,
        "simd_width": 64,
    }


def test_a_kernel_without_metadata_has_the_facts_of_its_descriptor():
    kernel = objects.code("v4-scale.co").kernels[0]
    assert kernel.facts["shared_memory"] == 128
    assert "arguments" not in kernel.facts


def test_symbols_without_a_size_reach_to_the_next_symbol():
    """By the source: scale is 7 instructions of 28 bytes, then routine; loop begins 12 bytes in."""
    functions = {one.name: (one.offset, one.size) for one in objects.code("v4-scale.co").functions}
    assert functions == {"scale": (0, 36), "loop": (12, 16), "routine": (28, 8)}


def test_wave32_processors_say_so():
    assert objects.code("v4-gfx1035.co").kernels[0].facts["simd_width"] == 32
    assert objects.code("v4-gfx900.co").kernels[0].facts["simd_width"] == 64


@pytest.mark.parametrize(
    ("name", "debug"),
    [
        ("v4-gfx900.co", "dwarf-5"),
        ("v4-gfx900-dwarf4.co", "dwarf-4"),
        ("v4-gfx900-dwarf2.co", "dwarf-2"),
        ("v4-gfx900-nodebug.co", "none"),
        ("v4-gfx900-zlib.co", "dwarf-5"),
        ("v4-gfx900-zstd.co", "dwarf-5"),
        ("v4-gfx900-sections-dwarf4-zlib.o", "dwarf-4"),
    ],
)
def test_debug_says_what_the_compiler_was_asked_for(name, debug):
    assert objects.code(name).debug == debug


@pytest.mark.parametrize("name", ["v4-gfx900-zlib.co", "v4-gfx900-zstd.co"])
def test_compressed_debug_sections_hold_what_the_plain_ones_hold(name):
    plain = {one.name: one.data for one in objects.code("v4-gfx900.co").sections if one.name.startswith(".debug_")}
    packed = {one.name: one.data for one in objects.code(name).sections if one.name.startswith(".debug_")}
    assert packed == plain


def test_one_section_a_function_puts_each_kernel_at_the_start_of_its_own():
    code = objects.code("v4-gfx900-sections.o")
    assert (code.linked, code.relocation) == (False, "amdgpu")
    places = {one.name: (code.sections[one.section_index].name, one.offset) for one in code.functions}
    assert places == {"march": (".text.march", 0), "shade": (".text.shade", 0), "clear": (".text.clear", 0)}


@pytest.mark.parametrize("name", ["v4-gfx900.co", "v2-gfx900.co", "v4-gfx900.o", "v4-gfx900-headers-cut.co"])
def test_truncated_files_cost_an_error_or_an_answer(name):
    outcomes = {
        objects.survives(lambda data=data: objects.decode(data)) for data in objects.truncations(objects.sample(name))
    }
    assert outcomes <= {"Malformed", "answered"}
    assert "Malformed" in outcomes


def test_flipped_bytes_cost_an_error_or_an_answer():
    whole = objects.sample("v4-gfx900.co")
    for at in range(0, len(whole), 13):
        data = bytearray(whole)
        data[at] ^= 0xFF
        objects.survives(lambda data=bytes(data): objects.decode(data))


def test_sections_that_all_claim_the_whole_file_are_refused():
    data = bytearray(objects.sample("v4-gfx900.co"))
    (table,) = struct.unpack_from("<Q", data, 40)
    count = 2000
    header = struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, 0, len(data), 0, 0, 0, 0)
    data = data[:table] + header * count
    struct.pack_into("<H", data, 60, count)
    struct.pack_into("<H", data, 62, 0)
    assert objects.survives(lambda: elf.parse(bytes(data), objects.budget()), 4 << 20) == "Malformed"


def test_symbol_names_that_overlap_beyond_measure_are_refused():
    image = elf.parse(objects.sample("v4-gfx900.co"), objects.budget())
    table = image.by_name[".symtab"]
    strings = Section(len(image.sections), "names", 3, 0, 0, 0, b"x" * 100_000)
    rows = b"".join(struct.pack("<IBBHQQ", number, 2, 0, 1, 0, 0) for number in range(5000))
    forged = table.changed(content=rows, link=strings.index)
    image = image.with_sections((*image.sections, strings))
    with pytest.raises(Malformed, match="overlap"):
        image.symbols(forged)


def test_a_debug_section_that_expands_too_far_is_refused():
    data = bytearray(objects.sample("v4-gfx900-zlib.co"))
    sections = readelf("v4-gfx900-zlib.co", "--sections")["Sections"]
    packed = next(one["Section"] for one in sections if one["Section"]["Flags"]["Value"] & 0x800)
    struct.pack_into("<Q", data, packed["Offset"] + 8, 1 << 40)
    with pytest.raises(LimitExceeded, match="expansion"):
        objects.decode(bytes(data))


def test_a_kernel_without_a_function_of_its_name_is_where_its_descriptor_says():
    data = bytearray(objects.sample("v4-gfx900.co"))
    strings = elf.parse(bytes(data), objects.budget()).by_name[".strtab"].data
    at = bytes(data).rindex(strings) + strings.index(b"shade\0")
    data[at : at + 5] = b"other"
    code = objects.decode(bytes(data))
    assert [(one.name, one.offset, one.size) for one in code.kernels] == [("shade", 256, 180), ("clear", 512, 32)]
    assert {one.name for one in code.functions} == {"march", "other", "clear"}


@pytest.mark.parametrize("name", objects.LINKED)
def test_kernel_code_is_the_code_that_objdump_shows_at_that_address(name):
    """The first instruction of each kernel, by its bytes."""
    if name in NO_TABLE:
        return
    code = objects.code(name)
    text = tools.output(tools.require("llvm-objdump-22"), "-d", objects.path(name))
    for kernel in code.kernels:
        section = code.sections[kernel.section_index]
        start = kernel.offset + kernel.facts.get("entry_offset", 0)
        address = section.address + start
        found = re.search(rf"// 0*{address:X}: ([0-9A-F]{{8}})", text)
        assert found, f"{kernel.name} at {address:#x}"
        assert int(found[1], 16) == int.from_bytes(section.data[start : start + 4], "little")

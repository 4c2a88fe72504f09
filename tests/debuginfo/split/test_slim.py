"""The slim object and its debug file against the whole one, by symd and by llvm-readelf, llvm-objdump, llvm-symbolizer."""

from __future__ import annotations

import json
import struct
from io import BytesIO

import pytest
from elftools.elf.elffile import ELFFile

from symd.debuginfo.separate_files import Slimmed, slim
from symd.errors import Malformed, SymdError, Unsupported
from symd.formats import elf
from symd.formats.elf.constants import PT_LOAD, PT_NOTE, SHF_ALLOC, SHT_PROGBITS, SHT_RELA
from tests import tools
from tests.formats.containers.amd import objects

NAMES = [name for name in objects.LINKED if "headers-cut" not in name]
DEBUGGED = [name for name in NAMES if objects.code(name).debug != "none"]


def slimmed(name: str) -> Slimmed:
    return slim(objects.sample(name), objects.budget())


def variables(name: str) -> set[str]:
    """The variables among the dynamic symbols of a sample, by pyelftools."""
    table = ELFFile(BytesIO(objects.sample(name))).get_section_by_name(".dynsym")
    symbols = table.iter_symbols() if table else ()
    objects_ = {each.name for each in symbols if each["st_info"]["type"] == "STT_OBJECT"}
    return {each for each in objects_ if not each.endswith(".kd")}


def debug_sections(code) -> dict[str, bytes]:
    return {one.name: one.data for one in code.sections if one.name.startswith(".debug_")}


@pytest.mark.parametrize("name", NAMES)
def test_kernels_functions_and_facts_stay(name):
    before, after = objects.code(name), objects.decode(slimmed(name).data)
    assert [(one.name, one.offset, one.size, one.facts) for one in after.kernels] == [
        (one.name, one.offset, one.size, one.facts) for one in before.kernels
    ]
    assert [(one.name, one.offset, one.size) for one in after.functions] == [
        (one.name, one.offset, one.size) for one in before.functions
    ]
    assert (after.target, after.facts, after.warnings) == (before.target, before.facts, before.warnings)


@pytest.mark.parametrize("name", NAMES)
def test_code_descriptors_and_addresses_are_identical(name):
    before = elf.parse(objects.sample(name), objects.budget()).by_name
    after = elf.parse(slimmed(name).data, objects.budget()).by_name
    for section in (".text", ".rodata", ".note"):
        if section in before:
            assert after[section].data == before[section].data
            assert after[section].address == before[section].address


@pytest.mark.parametrize("name", NAMES)
def test_what_a_loader_maps_at_each_address_is_identical(name):
    whole, apart = (
        elf.parse(objects.sample(name), objects.budget()),
        elf.parse(slimmed(name).data, objects.budget()),
    )
    assert {one.type for one in apart.segments} <= {PT_LOAD, PT_NOTE}
    loaded = [one for one in apart.sections if one.flags & SHF_ALLOC and one.type == SHT_PROGBITS]
    assert ".text" in [one.name for one in loaded]
    for section in loaded:
        assert apart.at_address(section.address, section.size) == section.data
        assert whole.at_address(section.address, section.size) in (section.data, b"")


@pytest.mark.parametrize("name", NAMES)
def test_the_first_loaded_address_keeps_the_alignment_of_the_code(name):
    """The loader puts the first PT_LOAD at an allocation's start: code at 256 must stay at 256 from there."""
    loads = [one for one in elf.parse(slimmed(name).data, objects.budget()).segments if one.type == PT_LOAD]
    assert loads[0].address % 256 == 0
    assert all(one.offset % one.align == one.address % one.align for one in loads)
    assert all(one.offset + one.file_size <= len(slimmed(name).data) for one in loads)


@pytest.mark.parametrize("name", NAMES)
def test_only_what_the_loader_reads_is_left(name):
    left = {one.name for one in elf.parse(slimmed(name).data, objects.budget()).sections}
    whole = {one.name for one in elf.parse(objects.sample(name), objects.budget()).sections}
    wanted = {"", ".note", ".text", ".rodata", ".bss", ".symtab", ".strtab", ".shstrtab"}
    if ".symtab" not in whole or variables(name):
        wanted |= {".dynsym", ".dynstr"}
    assert left <= wanted
    assert {".note", ".text", ".rodata"} & whole <= left | {".note"}


@pytest.mark.parametrize("name", ["v2-gfx900.co", "v4-gfx900.co", "v6-gfx9-generic.co", "v2-scale.co"])
def test_llvm_disassembles_the_slim_object_to_the_same_text(name, tmp_path):
    tool = tools.require("llvm-objdump-22")
    (tmp_path / "slim").write_bytes(slimmed(name).data)
    shown = [tools.output(tool, "-d", path).split("\n", 2)[2] for path in (objects.path(name), tmp_path / "slim")]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("name", ["v2-gfx900.co", "v4-gfx900.co", "v6-gfx9-generic.co"])
def test_llvm_reads_the_same_notes_from_both(name, tmp_path):
    tool = tools.require("llvm-readelf-22")
    (tmp_path / "slim").write_bytes(slimmed(name).data)
    shown = [tools.output(tool, "--notes", path) for path in (objects.path(name), tmp_path / "slim")]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("name", ["v2-gfx900.co", "v4-gfx900.co", "v4-gfx900-zlib.co", "v6-gfx942-xnack.co"])
def test_llvm_symbolizes_with_the_debug_file_as_with_the_whole_object(name, tmp_path):
    tool = tools.require("llvm-symbolizer-22")
    (tmp_path / "debug").write_bytes(slimmed(name).debug)
    text = objects.code(name).section(".text")
    addresses = [hex(address) for address in range(text.address, text.address + text.size, 4)]
    shown = []
    for path in (objects.path(name), tmp_path / "debug"):
        rows = json.loads(tools.output(tool, f"--obj={path}", "--output-style=JSON", *addresses))
        shown.append([one["Symbol"] for one in rows])
    assert shown[0] == shown[1]
    assert any(frames[0]["Line"] for frames in shown[0])


@pytest.mark.parametrize("name", DEBUGGED)
def test_the_slim_object_has_no_debug_data(name):
    found = objects.decode(slimmed(name).data)
    assert (found.debug, debug_sections(found)) == ("none", {})


def test_relocatable_objects_are_refused():
    with pytest.raises(Unsupported, match="relocatable"):
        slimmed("v4-gfx900.o")


def test_images_without_section_table_and_of_other_machines_are_refused():
    with pytest.raises(Unsupported, match="section table"):
        slimmed("v4-gfx900-headers-cut.co")
    with pytest.raises(Unsupported, match="only AMDGPU"):
        slim(objects.sample("host"), objects.budget())


def test_a_small_version_2_object_is_as_small_as_by_hand():
    """The published example, packed by hand, has 1232 bytes, of which .note is 0x44 and .text 0x1a8; this one may spend no
    more on everything else."""
    result = slimmed("v2-scale.co")
    sections = elf.parse(result.data, objects.budget()).by_name
    assert sections[".note"].size == 0x44
    assert len(result.data) - 0x44 - sections[".text"].size <= 1232 - 0x44 - 0x1A8
    assert result.before == len(objects.sample("v2-scale.co"))
    assert result.removed == (".dynsym", ".gnu.hash", ".hash", ".dynstr", ".dynamic", ".comment")


def test_slimming_twice_changes_nothing():
    once = slimmed("v4-gfx900.co")
    twice = slim(once.data, objects.budget())
    assert (len(twice.data), twice.debug, twice.removed) == (len(once.data), b"", ())
    assert objects.decode(twice.data).kernels == objects.decode(once.data).kernels


def test_symbol_and_section_names_may_share_one_table():
    """As some linkers write it: .symtab's sh_link is e_shstrndx."""
    data = bytearray(objects.sample("v4-gfx900.co"))
    image = elf.parse(bytes(data), objects.budget())
    shared = image.by_name[".shstrtab"].data + image.by_name[".strtab"].data
    at, first = len(data), len(image.by_name[".shstrtab"].data)
    table, symtab = struct.unpack_from("<Q", data, 40)[0], image.by_name[".symtab"]
    header = table + 64 * image.by_name[".shstrtab"].index
    struct.pack_into("<QQ", data, header + 24, at, len(shared))
    (offset,) = struct.unpack_from("<Q", data, table + 64 * symtab.index + 24)
    for place in range(offset, offset + symtab.size, 24):
        (name,) = struct.unpack_from("<I", data, place)
        struct.pack_into("<I", data, place, name + first if name else 0)
    struct.pack_into("<I", data, table + 64 * symtab.index + 40, image.by_name[".shstrtab"].index)
    merged = bytes(data) + shared
    assert [one.name for one in objects.decode(merged).kernels] == ["shade", "clear"]
    again = objects.decode(slim(merged, objects.budget()).data)
    assert [one.name for one in again.kernels] == ["shade", "clear"]


def test_damaged_objects_cost_an_error_or_a_file():
    whole = objects.sample("v4-gfx900.co")
    for data in objects.truncations(whole)[1:]:
        objects.survives(lambda data=data: slim(data, objects.budget()))
    for at in range(0, len(whole), 11):
        data = bytearray(whole)
        data[at] ^= 0xFF
        objects.survives(lambda data=bytes(data): slim(data, objects.budget()))


def test_sections_far_apart_in_one_segment_are_not_filled_up():
    data = bytearray(objects.sample("v4-gfx900.co"))
    image = elf.parse(bytes(data), objects.budget())
    (table,) = struct.unpack_from("<Q", data, 40)
    struct.pack_into("<Q", data, table + 64 * image.by_name[".rodata"].index + 16, 1 << 44)
    (segments,) = struct.unpack_from("<Q", data, 32)
    for number, segment in enumerate(image.segments):
        if segment.type == PT_LOAD:
            struct.pack_into("<QQ", data, segments + 56 * number + 32, 1 << 46, 1 << 46)
            struct.pack_into("<Q", data, segments + 56 * number + 16, 0)
    with pytest.raises(SymdError) as caught:
        slim(bytes(data), objects.budget())
    assert isinstance(caught.value, Malformed)


def test_a_section_that_is_longer_than_the_room_between_those_of_its_segment_is_malformed():
    """.note is loaded with .rodata, and of the relocations between them the header says that there are more than fit."""
    data = bytearray(objects.sample("v4-gfx900.co"))
    image = elf.parse(bytes(data), objects.budget())
    at = {one.name: image.header.shoff + one.index * image.header.shentsize for one in image.sections}
    struct.pack_into("<I", data, at[".note"] + 4, SHT_PROGBITS)
    struct.pack_into("<I", data, at[".hash"] + 4, SHT_RELA)
    struct.pack_into("<Q", data, at[".hash"] + 32, 0x1000)
    with pytest.raises(Malformed, match="begins in its segment where another section has not ended"):
        slim(bytes(data), objects.budget())


@pytest.mark.parametrize(("name", "variables"), [("v5-gfx90a.co", {"__hip_cuid_"}), ("v4-gfx900.co", None)])
def test_variables_stay_where_hip_looks_them_up(name: str, variables: set[str] | None) -> None:
    """Through comgr, which reads the dynamic symbols of a linked object; kernels are found in the other table."""
    image = ELFFile(BytesIO(slimmed(name).data))
    table = image.get_section_by_name(".dynsym")
    if variables is None:
        assert table is None
    else:
        objects = {each.name for each in table.iter_symbols() if each["st_info"]["type"] == "STT_OBJECT"}
        assert {each for each in objects if not each.endswith(".kd")} == variables

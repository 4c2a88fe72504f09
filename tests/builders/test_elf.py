"""What the ELF builder writes is read by binutils, LLVM and pyelftools as it was stated."""

from __future__ import annotations

import io

import pytest
from elftools.elf.elffile import ELFFile

from tests.builders.elf import (
    AX,
    ET_DYN,
    FUNC,
    GLOBAL,
    NOBITS,
    OBJECT,
    REL,
    RELA,
    Relocation,
    Section,
    Segment,
    Symbol,
    build_elf,
    compress,
)
from tests.tools import output, require

CODE = bytes(range(64))
SECTIONS = (
    Section(".text.one", flags=AX, address=0x1000, data=CODE, align=16),
    Section(".text.two", flags=AX, address=0x2000, data=CODE[:8]),
    Section(".debug_line", data=b"line" * 5),
)
SYMBOLS = (
    Symbol("one", 0, 64, ".text.one"),
    Symbol("two", 0, 8, ".text.two", other=0x10),
    Symbol("data", 4, 4, 3, type=OBJECT, bind=GLOBAL),
)
KINDS = [(64, "little"), (64, "big"), (32, "little"), (32, "big")]


def build(bits: int, order: str, **more: object) -> bytes:
    return build_elf(machine=62 if bits == 64 else 3, bits=bits, order=order, sections=SECTIONS, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("bits", "order"), KINDS)
def test_sections_are_what_pyelftools_reads(bits, order):
    elf = ELFFile(io.BytesIO(build(bits, order)))
    assert (elf.elfclass, elf.little_endian) == (bits, order == "little")
    read = [(section.name, section["sh_flags"], section["sh_addr"], section.data()) for section in elf.iter_sections()]
    assert read[1:4] == [(section.name, section.flags, section.address, section.data) for section in SECTIONS]
    assert read[-1][0] == ".shstrtab"
    assert elf.get_section(1)["sh_offset"] % 16 == 0


@pytest.mark.parametrize(("bits", "order"), KINDS)
def test_symbols_are_what_pyelftools_reads(bits, order):
    table = ELFFile(io.BytesIO(build(bits, order, symbols=SYMBOLS))).get_section_by_name(".symtab")
    read = [(entry.name, entry["st_value"], entry["st_size"], entry["st_shndx"]) for entry in table.iter_symbols()]
    assert read[1:] == [("one", 0, 64, 1), ("two", 0, 8, 2), ("data", 4, 4, 3)]
    kinds = [(entry["st_info"]["type"], entry["st_info"]["bind"]) for entry in table.iter_symbols()]
    assert kinds[1:] == [("STT_FUNC", "STB_LOCAL"), ("STT_FUNC", "STB_LOCAL"), ("STT_OBJECT", "STB_GLOBAL")]
    assert table["sh_info"] == 3
    assert FUNC == 2


@pytest.mark.parametrize("rela", [True, False])
@pytest.mark.parametrize(("bits", "order"), KINDS)
def test_relocations_are_what_pyelftools_reads(bits, order, rela):
    entries = [Relocation(4, "two", 1, 77), Relocation(12, 0, 2, -8)]
    data = build(bits, order, symbols=SYMBOLS, relocations={".debug_line": entries}, rela=rela)
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".rela.debug_line" if rela else ".rel.debug_line")
    assert section["sh_type"] == ("SHT_RELA" if rela else "SHT_REL")
    assert (section["sh_info"], RELA, REL) == (3, 4, 9)
    read = [(entry["r_offset"], entry["r_info_sym"], entry["r_info_type"]) for entry in section.iter_relocations()]
    assert read == [(4, 2, 1), (12, 0, 2)]
    if rela:
        assert [entry["r_addend"] for entry in section.iter_relocations()] == [77, -8]


@pytest.mark.parametrize(("bits", "order"), KINDS)
def test_segments_are_what_pyelftools_reads(bits, order):
    segments = [Segment(section=".text.one"), Segment(6, 4, offset=3, address=0x55, file_size=9, memory_size=10)]
    elf = ELFFile(io.BytesIO(build(bits, order, segments=segments)))
    first, second = elf.iter_segments()
    assert first.data() == CODE
    assert (first["p_vaddr"], first["p_flags"]) == (0x1000, 5)
    assert [second[name] for name in ("p_offset", "p_vaddr", "p_filesz", "p_memsz", "p_flags")] == [3, 0x55, 9, 10, 4]


def test_the_header_says_what_was_asked(tmp_path):
    data = build_elf(machine=224, type=ET_DYN, flags=0x54C, osabi=64, abiversion=3, entry=0x77, sections=SECTIONS)
    (tmp_path / "a.elf").write_bytes(data)
    text = output(require("readelf"), "-hW", tmp_path / "a.elf")
    for line in ("AMD GPU", "DYN (Shared object file)", "0x54c", "AMD HSA", "0x77"):
        assert line in text, line
    assert data[8] == 3


@pytest.mark.parametrize(("bits", "order"), KINDS)
def test_readers_find_nothing_to_complain_about(tmp_path, bits, order):
    relocations = {".debug_line": [Relocation(4, "two", 1, 77)]}
    path = tmp_path / "a.elf"
    path.write_bytes(
        build(bits, order, symbols=SYMBOLS, relocations=relocations, segments=[Segment(section=".text.one")])
    )
    assert "Warning" not in output(require("readelf"), "-aW", path)
    assert "text.one" in output(require("llvm-readobj"), "--sections", "--symbols", "--relocations", "--segments", path)


def test_section_headers_can_be_cut_off():
    whole = build(64, "little")
    cut = build(64, "little", section_headers=False)
    assert ELFFile(io.BytesIO(cut)).num_sections() == 0
    assert whole[64 : len(cut)] == cut[64:]


def test_a_header_can_claim_another_offset_and_size():
    lying = Section(".text", data=CODE, offset=0x7FFFFFFF, size=2**40)
    header = ELFFile(io.BytesIO(build_elf(machine=62, sections=[lying]))).get_section(1)
    assert (header["sh_offset"], header["sh_size"]) == (0x7FFFFFFF, 2**40)


def test_a_section_without_bytes_has_only_a_size():
    bss = Section(".bss", NOBITS, size=4096)
    assert ELFFile(io.BytesIO(build_elf(machine=62, sections=[bss]))).get_section(1)["sh_size"] == 4096


@pytest.mark.parametrize(("bits", "order"), KINDS)
def test_compressed_sections_are_what_pyelftools_reads(bits, order):
    section = compress(Section(".debug_info", data=CODE * 9), bits=bits, order=order)
    read = ELFFile(io.BytesIO(build_elf(machine=62, sections=[section], bits=bits, order=order))).get_section(1)
    assert read.compressed
    assert read.data() == CODE * 9


@pytest.mark.parametrize("how", ["zlib", "zstd", "gnu"])
def test_compressed_sections_are_what_elfutils_or_binutils_read(tmp_path, how):
    section = compress(Section(".debug_str", data=b"\0found it\0"), how)
    path = tmp_path / "a.elf"
    path.write_bytes(build_elf(machine=62, sections=[section]))
    if how == "zstd":
        assert "zstd" in output(require("readelf"), "-tW", path).lower()
    else:
        assert "found it" in output(require("readelf"), "-z", "-p", section.name, path)

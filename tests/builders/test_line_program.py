"""What the line program builder writes is read back by LLVM, binutils, elfutils and pyelftools as the rows it states."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile

from tests.builders.elf import Section, build_elf
from tests.builders.line_header import FORMS
from tests.builders.line_program import EXTENDED_NAMES, NAMES, File, LineProgram, Row, Shape, build_line_program
from tests.builders.random_lines import random_program
from tests.tools import output, require

X86_64 = 62
I386 = 3
"""Machines every tool knows; which one it is does not matter to line programs."""

LLVM_ROW = re.compile(r"^0x([0-9a-f]+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(.*)$", re.MULTILINE)
LLVM_FLAGS = ("is_stmt", "basic_block", "end_sequence", "prologue_end", "epilogue_begin")


def wrap(program: LineProgram, *, bits: int = 64, order: str = "little", debug_str: bytes = b"\0name\0") -> bytes:
    """The program in an ELF file of its own."""
    sections = [Section(".debug_line", data=program.data), Section(".debug_line_str", data=program.strings or b"\0")]
    sections.append(Section(".debug_str", data=debug_str))
    return build_elf(machine=X86_64 if bits == 64 else I386, sections=sections, bits=bits, order=order)


def llvm_rows(path: Path) -> list[Row]:
    """The table as llvm-dwarfdump prints it."""
    text = output(require("llvm-dwarfdump"), "--debug-line", path)
    rows = []
    for hit in LLVM_ROW.finditer(text):
        address, line, column, file, isa, discriminator = (int(hit[1], 16), *(int(hit[at]) for at in range(2, 7)))
        flags = {name: name in hit[7].split() for name in LLVM_FLAGS}
        rows.append(Row(address, file, line, column, isa=isa, discriminator=discriminator, **flags))
    return rows


def as_llvm(rows: tuple[Row, ...]) -> list[Row]:
    """What llvm-dwarfdump can show of the truth: it prints 16 bits of a column and no NVIDIA registers."""
    return [row._replace(context=0, name=0, op_index=0) for row in rows]


def check_with_llvm(tmp_path: Path, program: LineProgram, **how: object) -> None:
    path = tmp_path / "lines.elf"
    path.write_bytes(wrap(program, **how))  # type: ignore[arg-type]
    assert llvm_rows(path) == as_llvm(program.rows)


ROWS = (
    Row(0x10, line=3, column=7),
    Row(0x18, line=4, column=9, is_stmt=False),
    Row(0x18, file=2, line=900, prologue_end=True),
    Row(0x1000, file=2, line=1, basic_block=True, discriminator=5, isa=2),
    Row(0x1008, file=1, line=0, epilogue_begin=True, isa=2),
    Row(0x1010, file=1, line=0, isa=2, end_sequence=True),
)
FILES = (File("one.cl", 1), File("two.h", 2, 77, 1234), File("three.h", 0))


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_a_stated_table_is_what_llvm_reads(tmp_path, version, dwarf64, seed):
    shape = Shape(version=version, dwarf64=dwarf64)
    directories = ["/src", "/src/include", "/other"]
    program = build_line_program([ROWS, ROWS], shape=shape, files=FILES, directories=directories, seed=seed)
    check_with_llvm(tmp_path, program)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_table_is_what_llvm_reads(tmp_path, seed):
    check_with_llvm(tmp_path, random_program(seed))


@pytest.mark.parametrize("seed", range(6))
def test_a_random_table_with_four_byte_addresses_is_what_llvm_reads(tmp_path, seed):
    check_with_llvm(tmp_path, random_program(seed, address_size=4), bits=32)


@pytest.mark.parametrize("seed", range(6))
def test_a_random_big_endian_table_is_what_llvm_reads(tmp_path, seed):
    check_with_llvm(tmp_path, random_program(seed, order="big"), order="big")


@pytest.mark.parametrize("seed", range(6))
def test_the_nine_opcodes_of_dwarf_2_are_enough_where_the_header_says_so(tmp_path, seed):
    program = random_program(seed, version=2, extra_operands=(), opcode_base=10)
    assert not program.opcodes & {"set_prologue_end", "set_epilogue_begin", "set_isa"}
    check_with_llvm(tmp_path, program)


def test_the_encoder_refuses_an_opcode_that_the_header_does_not_have():
    rows = [Row(0, prologue_end=True), Row(8, end_sequence=True)]
    with pytest.raises(ValueError, match="set_prologue_end does not exist below opcode_base 10"):
        build_line_program([rows], shape=Shape(version=2, opcode_base=10))


def test_random_programs_use_every_opcode():
    used = set().union(*(random_program(seed).opcodes for seed in range(60)))
    plain = {*NAMES.values(), *EXTENDED_NAMES.values(), "special", "unknown_standard", "unknown_extended"}
    assert plain - used == {"inlined_call"}


def test_a_number_always_makes_the_same_program():
    assert random_program(7).data == random_program(7).data != random_program(8).data


# pyelftools and binutils


def pyelftools_rows(program: LineProgram, version: int) -> list[Row]:
    """The table as pyelftools decodes it, which clears is_stmt where a sequence ends and refuses unknown standard opcodes.
    It has no public way to begin at a line program without a unit."""
    dwarf = ELFFile(io.BytesIO(wrap(program))).get_dwarf_info()
    structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8, dwarf_version=version)
    decoded = dwarf._parse_line_program_at_offset(0, structs)
    states = [entry.state for entry in decoded.get_entries() if entry.state is not None]
    return [
        Row(
            state.address,
            state.file,
            state.line,
            state.column,
            bool(state.is_stmt),
            bool(state.basic_block),
            bool(state.end_sequence),
            bool(state.prologue_end),
            bool(state.epilogue_begin),
            state.isa,
            state.discriminator,
            state.op_index,
        )
        for state in states
    ]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_a_random_table_is_what_pyelftools_reads(version, seed):
    program = random_program(seed, version=version, dwarf64=False, extra_operands=())
    stated = [row._replace(is_stmt=row.is_stmt and not row.end_sequence) for row in program.rows]
    assert pyelftools_rows(program, version) == stated


READELF_ROW = re.compile(r"^(\S+) +(\d+|-) +(?:0x)?([0-9a-f]+)\[(\d+)\](?: +\d+)?( +x)? *$", re.MULTILINE)


@pytest.mark.parametrize("seed", range(20))
def test_several_operations_an_instruction_are_what_binutils_reads(tmp_path, seed):
    program = random_program(seed, version=4, max_ops=3, min_inst_length=8)
    assert any(row.op_index for row in program.rows)
    path = tmp_path / "lines.elf"
    path.write_bytes(wrap(program))
    text = output(require("readelf"), "--wide", "--debug-dump=decodedline", path)
    read = [(hit[1], hit[2], int(hit[3], 16), int(hit[4]), bool(hit[5])) for hit in READELF_ROW.finditer(text)]
    names = [file.name for file in program.files]
    stated = []
    for row in program.rows:
        line, is_stmt = ("-", False) if row.end_sequence else (str(row.line), row.is_stmt)
        stated.append((names[row.file - 1], line, row.address, row.op_index, is_stmt))
    assert read == stated


# Tables of names


def llvm_names(path: Path) -> list[str]:
    return re.findall(r'^ +name: "(.*)"$', output(require("llvm-dwarfdump"), "--debug-line", path), re.MULTILINE)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_files_defined_along_the_way_are_in_the_table(tmp_path, version):
    rows = [Row(0, file=1), Row(8, file=3), Row(16, file=3, end_sequence=True)]
    late = [File("late.h"), File("later.h"), File("never.h")]
    program = build_line_program([rows], shape=Shape(version=version), files=[File("a.cl")], late_files=late)
    assert [file.name for file in program.files] == ["a.cl", "late.h", "later.h"]
    check_with_llvm(tmp_path, program)
    readelf = output(require("readelf"), "--debug-dump=rawline", tmp_path / "lines.elf")
    assert re.findall(r"define new File Table entry.*?Name\s+\d+\s+\d+\s+\d+\s+\d+\s+(\S+)", readelf, re.DOTALL)[
        :2
    ] == [
        "late.h",
        "later.h",
    ]


@pytest.mark.parametrize("path_form", ["string", "line_strp", "strp"])
@pytest.mark.parametrize("number", ["udata", "data1", "data2"])
def test_dwarf_5_file_entries_take_their_forms_from_the_header(tmp_path, path_form, number):
    formats = (("path", path_form), ("directory", number), ("timestamp", "data4"), ("size", "data8"))
    formats += (("md5", "data16"), (0x2001, path_form), (0x3FFF, "block"))
    assert all(form in FORMS for _, form in formats)
    shape = Shape(version=5, file_formats=formats, directory_formats=(("path", path_form),))
    program = build_line_program([ROWS], shape=shape, files=FILES, directories=["/src", "inc", "x"])
    path = tmp_path / "lines.elf"
    path.write_bytes(wrap(program, debug_str=program.strings or b"\0"))
    assert llvm_names(path) == ["one.cl", "two.h", "three.h"]
    assert llvm_rows(path) == as_llvm(program.rows)
    text = output(require("llvm-dwarfdump"), "--debug-line", path)
    assert re.findall(r"md5_checksum: (\w+)", text) == [file.digest.hex() for file in FILES]
    assert re.findall(r"length: 0x0*([0-9a-f]+)\n", text.split("file_names", 1)[1]) == ["0", "4d2", "0"]


def test_set_address_operands_are_where_the_program_says():
    program = build_line_program([ROWS, ROWS], files=FILES)
    assert len(program.addresses) == 2
    for at in program.addresses:
        assert program.data[at - 3 : at + 8] == b"\0\x09\x02" + (0x10).to_bytes(8, "little")


# NVIDIA's extension


def test_inlined_contexts_are_what_elfutils_reads(tmp_path):
    names = b"\0outer\0helper\0"
    rows = [
        Row(0, line=3),
        Row(16, line=9),
        Row(16, line=30, context=2, name=7),
        Row(32, line=40, context=3, name=1),
        Row(48, line=10),
        Row(64, line=10, end_sequence=True),
    ]
    shape = Shape(version=2, opcode_base=10, trailer=bytes(4))
    program = build_line_program([rows], shape=shape)
    path = tmp_path / "cubin.elf"
    path.write_bytes(
        build_elf(
            machine=X86_64, sections=[Section(".debug_line", data=program.data), Section(".debug_str", data=names)]
        )
    )
    text = output(require("eu-readelf"), "-N", "--debug-dump=line", path)
    contexts = re.findall(r"set inlined context (\d+), function name (\S*) \(", text)
    assert contexts == [("2", "helper"), ("3", "outer"), ("0", "")]
    assert llvm_rows(path) == as_llvm(program.rows)

"""What the DWARF builder writes is the tree it states, for llvm-dwarfdump and for pyelftools."""

from __future__ import annotations

import io
import re

import pytest
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.elffile import ELFFile

from tests.builders.dwarf import At, Base, Die, Dwarf, Locations, Ranges, Ref, Unit, build_dwarf
from tests.builders.elf import AX, Section, build_elf
from tests.builders.line_program import File, Row, build_line_program
from tests.tools import output, require

LITERAL = b"\x91\x04"
"""DW_OP_fbreg +4."""

# What stands in the attribute column of llvm-dwarfdump, by hand, for each attribute of ``tree``.
EXPECTED = [
    (0, "compile_unit", [("producer", '"a producer"'), ("name", '"k.cl"'), ("low_pc", "0x0000000000001000")]),
    (1, "base_type", [("name", '"int"'), ("byte_size", "0x04"), ("encoding", "DW_ATE_signed")]),
    (
        1,
        "subprogram",
        [
            ("name", '"helper"'),
            ("decl_line", "300"),
            ("external", "{flag}"),
            ("inline", "DW_INL_inlined"),
            ("type", '0x{int:08x} "int"'),
        ],
    ),
    (1, "subprogram", [("name", '"kernel"'), ("low_pc", "0x0000000000001000"), ("high_pc", "0x0000000000001100")]),
    (2, "variable", [("name", '"i"'), ("const_value", "-5"), ("location", "DW_OP_fbreg +4")]),
    (
        2,
        "inlined_subroutine",
        [
            ("abstract_origin", '0x{helper:08x} "helper"'),
            ("low_pc", "0x0000000000001010"),
            ("high_pc", "0x0000000000001020"),
            ("call_line", "70000"),
        ],
    ),
]


def tree(version: int) -> Die:
    """A unit with references forwards and backwards and no form that its version lacks."""
    text = {5: "strx1", 4: "strp", 3: "strp", 2: "string"}[version]
    flag = At("external", "flag_present") if version >= 4 else At("external", "flag", 1)
    high = At("high_pc", "data4", 0x100) if version >= 4 else At("high_pc", "addr", 0x1100)
    expression = "exprloc" if version >= 4 else "block1"
    address = "addrx" if version >= 5 else "addr"
    bases = [At("str_offsets_base", "sec_offset", Base("str_offsets")), At("addr_base", "sec_offset", Base("addr"))]
    return Die(
        "compile_unit",
        [
            At("producer", "string", "a producer"),
            At("name", "line_strp" if version >= 5 else text, "k.cl"),
            At("low_pc", "addr", 0x1000),
            *(bases if version >= 5 else ()),
        ],
        [
            Die(
                "base_type",
                [At("name", text, "int"), At("byte_size", "data1", 4), At("encoding", "data1", 5)],
                label="int",
            ),
            Die(
                "subprogram",
                [
                    At("name", text, "helper"),
                    At("decl_line", "data2", 300),
                    flag,
                    At("inline", "implicit_const", 1) if version >= 5 else At("inline", "data1", 1),
                    At("type", "ref4", Ref("int")),
                ],
                label="helper",
            ),
            Die(
                "subprogram",
                [At("name", text, "kernel"), At("low_pc", address, 0x1000), high],
                [
                    Die(
                        "variable",
                        [At("name", text, "i"), At("const_value", "sdata", -5), At("location", expression, LITERAL)],
                    ),
                    Die(
                        "inlined_subroutine",
                        [
                            At("abstract_origin", "ref_udata", Ref("helper")),
                            At("low_pc", address, 0x1010),
                            At("high_pc", "addr", 0x1020),
                            At("call_line", "udata", 70000),
                        ],
                    ),
                ],
            ),
        ],
    )


def wrap(dwarf: Dwarf, *, bits: int = 64, order: str = "little") -> bytes:
    sections = [Section(name, data=data) for name, data in dwarf.sections.items()]
    return build_elf(machine=62 if bits == 64 else 3, sections=sections, bits=bits, order=order)


def llvm_tree(text: str) -> list[tuple[int, str, list[tuple[str, str]]]]:
    """(depth, tag, attributes) of each DIE in the output of llvm-dwarfdump --debug-info."""
    found: list[tuple[int, str, list[tuple[str, str]]]] = []
    for line in text.splitlines():
        if hit := re.match(r"0x[0-9a-f]+: ( *)DW_TAG_(\w+)", line):
            found.append((len(hit[1]) // 2, hit[2], []))
        elif (hit := re.match(r" +DW_AT_(\w+)\t\((.*)\)$", line)) and not hit[1].endswith("_base"):
            found[-1][2].append((hit[1], hit[2]))
    return found


FORMATS = [(version, dwarf64) for version in (2, 3, 4, 5) for dwarf64 in (False, True) if version > 2 or not dwarf64]


@pytest.mark.parametrize(("version", "dwarf64"), FORMATS)
def test_a_stated_tree_is_what_llvm_reads(tmp_path, version, dwarf64):
    dwarf = build_dwarf([Unit(tree(version), version=version, dwarf64=dwarf64)])
    path = tmp_path / "a.elf"
    path.write_bytes(wrap(dwarf))
    facts = {**dwarf.offsets, "flag": "true" if version >= 4 else "0x01"}
    expected = [
        (depth, tag, [(name, value.format(**facts)) for name, value in attributes])
        for depth, tag, attributes in EXPECTED
    ]
    assert llvm_tree(output(require("llvm-dwarfdump"), "--debug-info", path)) == expected
    assert "No errors" in output(require("llvm-dwarfdump"), "--verify", "--debug-info", path)


def test_offsets_of_labels_are_where_llvm_sees_the_dies(tmp_path):
    first = Unit(tree(4), version=4)
    other = Die(
        "compile_unit", [At("name", "string", "b")], [Die("base_type", [At("name", "string", "char")], label="char")]
    )
    dwarf = build_dwarf([first, Unit(other, version=5, address_size=4), Unit(Die("compile_unit"), version=3)])
    path = tmp_path / "a.elf"
    path.write_bytes(wrap(dwarf))
    text = output(require("llvm-dwarfdump"), "--debug-info", path)
    assert f"0x{dwarf.offsets['char']:08x}:   DW_TAG_base_type" in text
    assert [int(hit, 16) for hit in re.findall(r"^(0x[0-9a-f]+): Compile Unit", text, re.MULTILINE)] == list(
        dwarf.units
    )


def read(dwarf: Dwarf, order: str = "little", bits: int = 64) -> DWARFInfo:
    return ELFFile(io.BytesIO(wrap(dwarf, order=order, bits=bits))).get_dwarf_info()


def dies(dwarf: Dwarf, **how: object) -> list[DIE]:
    info = read(dwarf, **how)  # type: ignore[arg-type]
    return [die for unit in info.iter_CUs() for die in unit.iter_DIEs() if not die.is_null()]


SIMPLE_FORMS = [
    ("data1", 0x81, 2), ("data2", 0x8182, 2), ("data4", 0x81828384, 2), ("data8", 2**63 + 5, 2),
    ("data16", bytes(range(16)), 5), ("sdata", -(2**40), 2), ("udata", 2**63, 2), ("addr", 0x12345678, 2),
    ("flag", 1, 2), ("flag_present", None, 4), ("implicit_const", -7, 5), ("block", b"abc", 2), ("block1", b"abc", 2),
    ("block2", b"abc", 2), ("block4", b"", 2), ("exprloc", b"\x30\x9f", 4), ("string", "text", 2), ("strp", "text", 2),
    ("line_strp", "text", 5), ("strx", "text", 5), ("strx1", "text", 5), ("strx2", "text", 5), ("strx3", "text", 5),
    ("addrx", 0x4000, 5), ("addrx1", 0x4000, 5), ("addrx2", 0x4000, 5), ("addrx3", 0x4000, 5),
    ("addrx4", 0x4000, 5), ("sec_offset", 0x1234, 4), ("ref1", 11, 2), ("ref2", 11, 2), ("ref4", 11, 2),
    ("ref8", 11, 2), ("ref_udata", 11, 2), ("ref_addr", 11, 2), ("ref_sig8", 0x1122334455667788, 4),
    ("indirect", ("data2", 77), 2), ("indirect", ("string", "text"), 2),
]  # fmt: skip
"""Every form with a value, and the version that brought it; strx4 is missing because pyelftools 0.33 reads 8 bytes."""


def as_read(form: str, value: object) -> object:
    """The value as pyelftools gives it."""
    if form == "indirect":
        return as_read(*value)  # type: ignore[misc]
    if isinstance(value, str):
        return value.encode()
    if form == "flag_present":
        return True
    return list(value) if isinstance(value, bytes) else value


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize(("form", "value", "since"), SIMPLE_FORMS)
def test_every_form_is_read_back(form, value, since, dwarf64, order):
    for version in range(since, 6):
        bases = [At("str_offsets_base", "sec_offset", Base("str_offsets")), At("addr_base", "sec_offset", Base("addr"))]
        odd = At(0x2FFF, form, value)
        after = At("decl_line", "data1", 42)
        children = [Die("variable", [odd, after]), Die("variable", [after, odd, odd])]
        root = Die("compile_unit", [At("name", "string", "k"), *(bases if version >= 5 else ())], children)
        dwarf = build_dwarf([Unit(root, version=version, dwarf64=dwarf64 and version > 2)], order=order)
        _, first, second = dies(dwarf, order=order)
        assert first.attributes["DW_AT_decl_line"].value == second.attributes["DW_AT_decl_line"].value == 42
        assert first.attributes[0x2FFF].value == second.attributes[0x2FFF].value == as_read(form, value)


@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize("size", ["", "1", "2", "4"])
def test_indexed_forms_are_what_llvm_reads(tmp_path, size, dwarf64):
    """Except three-byte indexes, which LLVM 14 does not know."""
    bases = [At("str_offsets_base", "sec_offset", Base("str_offsets")), At("addr_base", "sec_offset", Base("addr"))]
    children = [
        Die("variable", [At("name", f"strx{size}", text), At("low_pc", f"addrx{size}", address)])
        for text, address in (("first", 0x10), ("second", 0x20), ("first", 0x30))
    ]
    unit = Unit(Die("compile_unit", bases, children), version=5, dwarf64=dwarf64)
    path = tmp_path / "a.elf"
    path.write_bytes(wrap(build_dwarf([unit, unit])))
    text = output(require("llvm-dwarfdump"), "--debug-info", path)
    assert re.findall(r'DW_AT_name\t\("(\w+)"\)', text) == ["first", "second", "first"] * 2
    assert re.findall(r"DW_AT_low_pc\t\(0x0+(\w+)\)", text) == ["10", "20", "30"] * 2


@pytest.mark.parametrize("form", ["ref1", "ref2", "ref4", "ref8", "ref_udata", "ref_addr"])
def test_references_lead_to_the_die_with_the_label(form):
    padding = Unit(Die("compile_unit", [At("name", "string", "before")]))
    children = [
        Die("variable", [At("type", form, Ref("later"))], label="earlier"),
        Die("base_type", [At("name", "string", "int")], label="later"),
        Die("variable", [At("type", form, Ref("earlier"))]),
    ]
    dwarf = build_dwarf([padding, Unit(Die("compile_unit", (), children))])
    found = dies(dwarf)
    assert found[2].get_DIE_from_attribute("DW_AT_type").offset == found[3].offset == dwarf.offsets["later"]
    assert found[4].get_DIE_from_attribute("DW_AT_type").offset == found[2].offset == dwarf.offsets["earlier"]


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="no way to write DW_FORM_GNU_str_index"):
        build_dwarf([Unit(Die("compile_unit", [At("name", "GNU_str_index", "k")]))])


PLAIN_RANGES = Ranges((("base_address", 0x1000), ("start_end", 0x10, 0x20), ("start_end", 0x40, 0x48)))
RANGES = Ranges(
    (
        ("base_address", 0x1000),
        ("offset_pair", 0x10, 0x20),
        ("start_end", 0x2000, 0x2010),
        ("start_length", 0x3000, 8),
        ("startx_length", 0, 4),
        ("base_addressx", 0),
        ("offset_pair", 1, 2),
    )
)
MEANT = [(0x1010, 0x1020), (0x2000, 0x2010), (0x3000, 0x3008), (0x5000, 0x5004), (0x5001, 0x5002)]


def range_unit(version: int, attribute: At, *, dwarf64: bool) -> Unit:
    bases = [At("addr_base", "sec_offset", Base("addr")), At("rnglists_base", "sec_offset", Base("rnglists"))]
    root = Die(
        "compile_unit",
        [At("low_pc", "addrx" if version >= 5 else "addr", 0x5000), *(bases if version >= 5 else ())],
        [Die("subprogram", [At("name", "string", "f"), attribute])],
    )
    return Unit(root, version=version, dwarf64=dwarf64)


@pytest.mark.parametrize("dwarf64", [False, True])
@pytest.mark.parametrize(
    ("version", "form", "value", "meant"),
    [
        (3, "pointer", PLAIN_RANGES, [(0x1010, 0x1020), (0x1040, 0x1048)]),
        (4, "sec_offset", PLAIN_RANGES, [(0x1010, 0x1020), (0x1040, 0x1048)]),
        (5, "sec_offset", RANGES, MEANT),
        (5, "rnglistx", RANGES, MEANT),
    ],
)
def test_range_lists_are_what_llvm_reads(tmp_path, version, form, value, meant, dwarf64):
    form = ("data8" if dwarf64 else "data4") if form == "pointer" else form
    units = [range_unit(version, At("ranges", form, Ranges((("start_end", 1, 2),))), dwarf64=dwarf64)]
    units.append(range_unit(version, At("ranges", form, value), dwarf64=dwarf64))
    path = tmp_path / "a.elf"
    path.write_bytes(wrap(build_dwarf(units)))
    text = output(require("llvm-dwarfdump"), "--debug-info", path)
    last = text[text.rindex("DW_TAG_subprogram") :]
    read = [(int(low, 16), int(high, 16)) for low, high in re.findall(r"\[(0x[0-9a-f]+), (0x[0-9a-f]+)\)", last)]
    assert read == meant


@pytest.mark.parametrize(("version", "form"), [(4, "sec_offset"), (5, "sec_offset"), (5, "loclistx")])
def test_location_lists_are_what_llvm_reads(tmp_path, version, form):
    kind = "offset_pair" if version >= 5 else "start_end"
    value = Locations(((kind, 0x10, 0x20, LITERAL), (kind, 0x20, 0x28, b"\x50")))
    bases = [At("loclists_base", "sec_offset", Base("loclists"))] if version >= 5 else []
    variable = Die("variable", [At("name", "string", "v"), At("location", form, value)])
    unit = Unit(Die("compile_unit", [At("low_pc", "addr", 0x1000), *bases], [variable]), version=version)
    path = tmp_path / "a.elf"
    path.write_bytes(wrap(build_dwarf([unit, unit])))
    text = output(require("llvm-dwarfdump"), "--debug-info", path)
    last = text[text.rindex("DW_TAG_variable") :]
    read = re.findall(r"\[(0x[0-9a-f]+), (0x[0-9a-f]+)\): ([^\n)]*)", last)
    assert [(int(low, 16), int(high, 16), text) for low, high, text in read] == [
        (0x1010, 0x1020, "DW_OP_fbreg +4"),
        (0x1020, 0x1028, "DW_OP_reg0 RAX"),
    ]


@pytest.mark.parametrize("version", [4, 5])
def test_type_units_have_their_signature_and_type(tmp_path, version):
    struct = Die("structure_type", [At("name", "string", "particle"), At("byte_size", "data1", 8)], label="struct")
    unit = Unit(Die("type_unit", (), [struct]), version=version, type="type", signature=0xABCD, type_label="struct")
    user = Unit(Die("compile_unit", (), [Die("variable", [At("type", "ref_sig8", 0xABCD)])]), version=version)
    path = tmp_path / "a.elf"
    path.write_bytes(wrap(build_dwarf([user, unit])))
    text = output(require("llvm-dwarfdump"), "--debug-info", "--debug-types", path)
    assert re.search(r"Type Unit: .*name = 'particle', type_signature = 0x0*abcd, ", text)
    assert 'DW_AT_type\t(0x000000000000abcd "particle")' in text or "(0x000000000000abcd)" in text


def test_four_byte_addresses_in_a_32_bit_file_are_what_llvm_reads(tmp_path):
    root = Die("compile_unit", [At("low_pc", "addr", 0xFFFFFFF0)])
    path = tmp_path / "a.elf"
    path.write_bytes(wrap(build_dwarf([Unit(root, address_size=4)]), bits=32))
    text = output(require("llvm-dwarfdump"), "--debug-info", path)
    assert "addr_size = 0x04" in text
    assert "DW_AT_low_pc\t(0xfffffff0)" in text


def test_lines_and_dies_together_are_what_llvm_symbolizer_answers(tmp_path):
    rows = [Row(0x1000, line=20, column=1), Row(0x1010, file=2, line=3, column=9), Row(0x1020, line=22, column=5)]
    program = build_line_program(
        [[*rows, Row(0x1100, line=22, end_sequence=True)]],
        files=[File("k.cl", 1), File("helper.h", 2)],
        directories=["/src", "/src/include"],
        seed=1,
    )
    helper = Die("subprogram", [At("name", "string", "helper"), At("inline", "data1", 1)], label="helper")
    site = [At("call_file", "data1", 1), At("call_line", "data1", 21), At("call_column", "data1", 7)]
    inlined = [At("abstract_origin", "ref4", Ref("helper")), At("low_pc", "addr", 0x1010), At("high_pc", "data4", 0x10)]
    kernel = [At("name", "string", "kernel"), At("low_pc", "addr", 0x1000), At("high_pc", "data4", 0x100)]
    unit = [At("name", "string", "k.cl"), At("stmt_list", "sec_offset", 0), At("low_pc", "addr", 0x1000)]
    unit.append(At("high_pc", "data4", 0x100))
    inside = Die("subprogram", kernel, [Die("inlined_subroutine", [*inlined, *site])])
    dwarf = build_dwarf([Unit(Die("compile_unit", unit, [helper, inside]))])
    text = Section(".text", flags=AX, address=0x1000, data=bytes(0x100))
    debug = [Section(name, data=data) for name, data in dwarf.sections.items()]
    path = tmp_path / "a.elf"
    path.write_bytes(
        build_elf(machine=62, type=2, sections=[text, *debug, Section(".debug_line", data=program.data)], symbols=[])
    )
    answer = output(require("llvm-symbolizer"), "--inlines", f"--obj={path}", "0x1000", "0x1018", "0x1020")
    assert answer.split("\n\n")[:3] == [
        "kernel\n/src/k.cl:20:1",
        "helper\n/src/include/helper.h:3:9\nkernel\n/src/k.cl:21:7",
        "kernel\n/src/k.cl:22:5",
    ]

"""Which variables are visible where, in what order, and what is said of each."""

from __future__ import annotations

import struct

import pytest

from symd.debuginfo.relocation import FIRST_BASE
from symd.debuginfo.variables.registers import machine_registers
from symd.debuginfo.variables.visible import VariableReader
from symd.errors import Malformed
from symd.model.code import DebugScheme, Vendor
from tests.builders.dwarf import At, Die, Ranges, Ref
from tests.debuginfo.variables.build import (
    FLOAT,
    INT,
    SIZE,
    TEXT,
    code,
    function,
    names,
    only,
    span,
    unit,
    variable,
    visible,
    with_sections,
)

REG5 = At("location", "exprloc", b"\x55")


def block(*children: Die, first: int, after: int) -> Die:
    return Die("lexical_block", span(first, after), children)


def inlined(origin: str, *children: Die, first: int, after: int) -> Die:
    return Die("inlined_subroutine", [At("abstract_origin", "ref4", Ref(origin)), *span(first, after)], children)


NESTED = code(
    unit(
        variable("everywhere", REG5),
        Die(
            "subprogram",
            [At("name", "string", "helper"), At("inline", "data1", 1)],
            [
                Die("formal_parameter", [At("name", "string", "x"), At("type", "ref4", Ref("int"))], label="x"),
                Die("variable", [At("name", "string", "gone"), At("type", "ref4", Ref("float"))], label="gone"),
            ],
            label="helper",
        ),
        function(
            "kernel",
            variable("a", REG5, tag="formal_parameter"),
            variable("n", tag="formal_parameter"),
            block(
                variable("i", REG5),
                inlined(
                    "helper",
                    Die("formal_parameter", [At("abstract_origin", "ref4", Ref("x")), REG5]),
                    first=0x20,
                    after=0x30,
                ),
                variable("after", REG5),
                first=0x10,
                after=0x40,
            ),
            after=0x80,
        ),
        function("other", variable("b", REG5), first=0x80, after=0x100),
        INT,
        FLOAT,
    )
)


def test_scopes_come_innermost_first_and_globals_last():
    assert names(NESTED, 0x20) == ["x", "gone", "i", "after", "a", "n", "everywhere"]
    assert names(NESTED, 0x10) == names(NESTED, 0x30) == ["i", "after", "a", "n", "everywhere"]
    assert names(NESTED, 0x40) == ["a", "n", "everywhere"]
    assert names(NESTED, 0x80) == ["b", "everywhere"]


def test_where_there_is_no_function_the_units_globals_are_visible():
    assert names(NESTED, 0x200) == ["everywhere"]


def test_a_variable_says_whose_it_is():
    x, gone, i, _, a, n, everywhere = visible(NESTED, 0x20).variables
    assert [(one.kind, one.function, one.inlined) for one in (x, i, a, n, everywhere)] == [
        ("parameter", "helper", True),
        ("local", "kernel", False),
        ("parameter", "kernel", False),
        ("parameter", "kernel", False),
        ("global", None, False),
    ]
    assert (x.type, x.live) == ("int", ((0x20, 0x30),))
    assert (i.live, a.live, everywhere.live) == (((0x10, 0x40),), ((0, 0x80),), ((0, SIZE),))
    assert (gone.type, gone.kind, gone.optimized_out, gone.live) == ("float", "local", True, ())
    assert (n.optimized_out, n.location) == (True, None)


def test_what_an_inlined_copy_lost_is_said_to_be_optimised_out():
    assert [one.name for one in visible(NESTED, 0x20).variables if one.optimized_out] == ["gone", "n"]


def test_a_scope_of_several_ranges_is_visible_in_each():
    ranges = Ranges((("start_end", 0x10, 0x20), ("start_end", 0x30, 0x40)))
    scope = Die("lexical_block", [At("ranges", "sec_offset", ranges)], [variable("x", REG5)])
    found = code(unit(function("f", scope)))
    assert [names(found, at) for at in (0x10, 0x20, 0x30, 0x40)] == [["x"], [], ["x"], []]
    assert only(found, 0x10).live == ((0x10, 0x20), (0x30, 0x40))


def test_of_functions_that_overlap_the_one_that_begins_last_counts_and_its_blocks_alone():
    found = code(
        unit(
            function("first", block(variable("wrong", REG5), first=0x60, after=0x70), after=0x20),
            function("second", variable("right", REG5), first=0x20, after=0x100),
        )
    )
    assert names(found, 0x60) == ["right"]


def test_an_inlined_call_outside_its_function_still_counts_for_it():
    found = code(
        unit(
            Die("subprogram", [At("name", "string", "helper")], label="helper"),
            function(
                "f", variable("a", REG5), inlined("helper", variable("x", REG5), first=0x50, after=0x60), after=0x40
            ),
        )
    )
    assert names(found, 0x50) == ["x", "a"]


def test_globals_of_namespaces_are_found_and_declarations_are_not():
    declared = At("declaration", "flag_present")
    found = code(
        unit(
            Die(
                "namespace",
                [At("name", "string", "ns")],
                [
                    variable("inside", REG5),
                    Die("variable", [At("name", "string", "s"), declared], label="s"),
                    Die("namespace", [], [variable("hidden", REG5)]),
                ],
            ),
            Die("variable", [At("specification", "ref4", Ref("s")), REG5]),
            variable("elsewhere", declared),
            function("f"),
        )
    )
    assert names(found, 0) == ["inside", "hidden", "s"]


def test_a_constant_is_a_place_for_all_of_its_scope():
    """The bits of 1.0e30f are 0x7149f2ca; -3 fills data1 as 0xfd."""
    found = code(
        unit(
            function(
                "f",
                variable("nearest", At("type", "ref4", Ref("float")), At("const_value", "data4", 0x7149F2CA)),
                variable("step", At("type", "ref4", Ref("int")), At("const_value", "sdata", -3)),
                variable("title", At("const_value", "string", "it's")),
                variable("raw", At("const_value", "block1", b"\x01\x02")),
            ),
            FLOAT,
            INT,
        )
    )
    assert [one.location for one in visible(found).variables] == [
        "constant 1e+30",
        "constant -3",
        'constant "it\'s"',
        "constant 513",
    ]
    assert {one.live for one in visible(found).variables} == {((0, SIZE),)}


def test_the_frame_base_is_that_of_the_function_around_inlined_calls():
    """DW_OP_fbreg 8; the frame base DW_OP_breg2 16 is 24 after register 2 together, in a list or not."""
    local = At("location", "exprloc", b"\x91\x08")
    base = At("frame_base", "exprloc", b"\x72\x10")
    found = code(
        unit(
            Die("subprogram", [At("name", "string", "helper")], label="helper"),
            function("f", inlined("helper", variable("x", local), first=0x10, after=0x20), attributes=[base]),
        ),
        vendor=Vendor.NONE,
    )
    assert only(found, 0x10).location == "memory at reg2 + 24"


def test_the_simd_width_is_the_functions_and_else_the_units():
    width = At(0x2400, "data2", 16)
    alone = unit(
        function("f", attributes=[width]),
        function("g", first=SIZE, after=SIZE + 8),
        attributes=[At(0x2400, "data2", 8)],
    )
    assert visible(code(alone, vendor=Vendor.INTEL), 0).simd_width == 16
    assert visible(code(unit(function("f"), attributes=[width]), vendor=Vendor.INTEL), 0).simd_width == 16
    assert visible(NESTED, 0).simd_width is None


def test_unnamed_parameters_have_no_name():
    assert only(code(unit(function("f", Die("formal_parameter", [REG5]))))).name == ""


@pytest.mark.parametrize(
    ("debug", "note"),
    [
        (DebugScheme.NONE, "there is no debug data"),
        (DebugScheme.LINE_ONLY, "the debug data has lines and nothing about variables"),
        (DebugScheme.SPIRV, "variables of SPIR-V modules are not read"),
    ],
)
def test_an_object_without_data_about_variables_says_so(debug, note):
    found = VariableReader(NESTED._replace(debug=debug)).at(TEXT, 0)
    assert (found.variables, found.notes) == ((), (note,))


def test_a_section_that_holds_no_code_says_so():
    assert VariableReader(NESTED).at(2, 0).notes == ("section 2 holds no code",)


def test_references_in_a_circle_end():
    """A variable whose origin is itself, and two types that name each other."""
    found = code(
        unit(
            function("f", Die("variable", [At("abstract_origin", "ref4", Ref("me")), REG5], label="me")),
            Die("typedef", [At("name", "string", "a"), At("type", "ref4", Ref("b"))], label="a"),
            Die("const_type", [At("type", "ref4", Ref("c"))], label="b"),
            Die("const_type", [At("type", "ref4", Ref("b"))], label="c"),
        )
    )
    assert (only(found).name, only(found).type) == ("", "void")


def test_a_unit_that_cannot_be_read_is_left_out_with_a_note():
    """Its first DIE names abbreviation 127, which is not declared."""
    data = {section.name: section.data for section in NESTED.sections if section.name.startswith(".debug")}
    second = struct.pack("<IHIB", 8, 4, 0, 8) + b"\x7f"
    found = visible(with_sections({**data, ".debug_info": data[".debug_info"] + second}), 0x40)
    assert [one.name for one in found.variables] == ["a", "n", "everywhere"]
    [note] = found.notes
    assert "unit left out" in note
    assert "127" in note


def test_no_unit_that_can_be_read_is_an_error():
    with pytest.raises(Malformed):
        VariableReader(with_sections({".debug_info": b"\x01\x02\x03"})).at(TEXT, 0)


def sass(function_name: bytes, *records: tuple[int, bytes, int, int, int]) -> bytes:
    packed = b"".join(
        struct.pack("<I", piece) + name + b"\0" + struct.pack("<III", where, first, after)
        for piece, name, where, first, after in records
    )
    return function_name + b"\0" + struct.pack("<I", len(records)) + packed


def test_ptx_registers_are_found_in_the_machines():
    """Class 5 is R, 2 is P; two pieces of a 64-bit register; ranges are half open."""
    table = sass(b"other", (0, b"%rd1", 5 << 24 | 9, 0, 0x100)) + sass(
        b"f",
        (1, b"%rd1", 5 << 24 | 3, 0x10, 0x20),
        (0, b"%rd1", 5 << 24 | 2, 0x10, 0x20),
        (0, b"%p1", 2 << 24, 0x10, 0x14),
    )
    assert machine_registers(table, "f", 0x10) == {"%rd1": ("R2", "R3"), "%p1": ("P0",)}
    assert machine_registers(table, "f", 0x20) == {}
    for cut in range(len(table)):
        machine_registers(table[:cut], "f", 0x10)


@pytest.mark.parametrize("is_indexed", [False, True])
def test_an_address_of_code_in_an_unlinked_object_is_named_by_section(is_indexed):
    """The number that relocation wrote means something inside symd only. It stands in ``.debug_addr`` for DW_OP_addrx,
    which is DW_OP_addr otherwise (DWARF 5, 2.5.1.1)."""
    address = (FIRST_BASE + 0x24).to_bytes(8, "little")
    expression = (b"\xa1\0" if is_indexed else b"\x03" + address) + b"\x9f"
    table = {".debug_addr": b"\x0c\0\0\0\x05\0\x08\0" + address}
    low = [At("low_pc", "addr", FIRST_BASE), At("high_pc", "data4", SIZE)]
    root = Die(
        "compile_unit",
        [At("name", "string", "k.c"), *low],
        [Die("subprogram", [At("name", "string", "f"), *low], [variable("p", At("location", "exprloc", expression))])],
    )
    found = code(root, version=5, sections=table)
    assert only(found._replace(linked=False)).location == "(.text)+0x24"


def declared(name: str, line: int, *attributes: At, tag: str = "variable") -> Die:
    return variable(name, At("decl_line", "data1", line), *attributes, tag=tag)


def test_a_copy_that_names_its_variables_again_has_each_once():
    """IGC does so in some copies, and puts variables into other blocks; one of another line is another."""
    abstract = Die(
        "subprogram",
        [At("name", "string", "helper"), At("inline", "data1", 1)],
        [
            declared("x", 3, tag="formal_parameter"),
            declared("t", 4),
            declared("t", 6),
            declared("gone", 5),
        ],
        label="helper",
    )
    found = code(
        unit(
            abstract,
            function(
                "kernel",
                inlined(
                    "helper",
                    declared("x", 3, REG5, tag="formal_parameter"),
                    block(declared("t", 4, REG5), first=0x20, after=0x30),
                    first=0x20,
                    after=0x40,
                ),
            ),
        )
    )
    said = [(one.name, one.optimized_out) for one in visible(found, 0x20).variables]
    assert said == [("t", False), ("x", False), ("t", True), ("gone", True)]


def test_what_has_no_name_no_type_and_no_place_is_no_variable():
    """Empty DIEs, which IGC leaves where it wrote the attributes into another one; a parameter without a name has a type."""
    empty = Die("formal_parameter", []), Die("variable", [])
    abstract = Die("subprogram", [At("name", "string", "helper"), At("inline", "data1", 1)], empty, label="helper")
    unnamed = Die("formal_parameter", [At("type", "ref4", Ref("int"))])
    placed = Die("variable", [REG5])
    found = code(
        unit(
            abstract,
            function("kernel", unnamed, inlined("helper", *empty, placed, first=0x20, after=0x40), *empty),
            INT,
        )
    )
    assert [(one.name, one.type, one.kind) for one in visible(found, 0x20).variables] == [
        ("", "void", "local"),
        ("", "int", "parameter"),
    ]

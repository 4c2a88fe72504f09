"""Types: their C spelling equals llvm-dwarfdump's, and their structure is what the DIEs say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symd.debuginfo.variables import type_names
from symd.debuginfo.variables.type_names import MAX_DEPTH, MAX_NAME_LENGTH
from symd.debuginfo.variables.visible import VariableReader
from symd.model.code import CodeObject, Vendor
from symd.model.variables import Member
from tests import tools
from tests.builders.dwarf import At, Die, Ref, Unit, build_dwarf
from tests.builders.elf import Section, build_elf
from tests.debuginfo.variables.build import (
    FLOAT,
    INT,
    TEXT,
    base_type,
    code,
    function,
    only,
    span,
    unit,
    variable,
    visible,
    with_sections,
)


def of(label: str) -> At:
    return At("type", "ref4", Ref(label))


def named(tag: str, name: str, *children: Die, label: str = "", attributes: tuple[At, ...] = ()) -> Die:
    return Die(tag, [At("name", "string", name), *attributes], children, label or name)


def made(tag: str, label: str, inner: str | None = None, *children: Die, attributes: tuple[At, ...] = ()) -> Die:
    """A type made from another: a pointer, an array, a qualifier."""
    return Die(tag, [*([of(inner)] if inner else []), *attributes], children, label)


def dimension(*attributes: At) -> Die:
    return Die("subrange_type", attributes)


def parameter(inner: str, *attributes: At) -> Die:
    return Die("formal_parameter", [of(inner), *attributes])


COUNT = [At("count", "data1", 3)]
TYPES = [
    INT,
    FLOAT,
    base_type("char", 6, 1),
    base_type("bool", 2, 1),
    base_type("unsigned int", 7, 4),
    made("pointer_type", "void *"),
    made("const_type", "const void"),
    made("pointer_type", "const void *", "const void"),
    made("const_type", "const int", "int"),
    made("volatile_type", "const volatile int", "const int"),
    made("pointer_type", "int *", "int"),
    made("pointer_type", "const int *", "const int"),
    made("const_type", "int *const", "int *"),
    made("volatile_type", "int *const volatile", "int *const"),
    made("pointer_type", "int *const *", "int *const"),
    made("reference_type", "int &", "int"),
    made("rvalue_reference_type", "int &&", "int"),
    made("array_type", "int[3]", "int", dimension(*COUNT)),
    made("array_type", "int[2][3]", "int", dimension(At("upper_bound", "data1", 1)), dimension(*COUNT)),
    made("array_type", "int[]", "int", dimension()),
    made("array_type", "from 2", "int", dimension(At("lower_bound", "data1", 2), *COUNT)),
    made("array_type", "vector", "float", dimension(*COUNT), attributes=(At("GNU_vector", "flag_present"),)),
    made("const_type", "const int[3]", "int[3]"),
    made("array_type", "of pointers", "int *const", dimension(*COUNT)),
    made("pointer_type", "to array", "int[3]"),
    made("reference_type", "to const array", "const int[3]"),
    made("subroutine_type", "procedure"),
    made("subroutine_type", "function", "int", parameter("int *"), Die("unspecified_parameters")),
    made("pointer_type", "to function", "function"),
    made("const_type", "const function", "function"),
    made("subroutine_type", "giver", "to function", parameter("float")),
    made("pointer_type", "to giver", "giver"),
    named("typedef", "number", attributes=(of("int"),)),
    made("pointer_type", "to number", "number"),
    Die("structure_type", [], [], "nameless"),
    made("pointer_type", "to nameless", "nameless"),
    Die("union_type", [], [], "nameless union"),
    named(
        "namespace",
        "ns",
        named("structure_type", "S", named("enumeration_type", "Kind"), label="S"),
        named("typedef", "alias", attributes=(of("int"),)),
        Die("namespace", [], [named("class_type", "Hidden")]),
        made("pointer_type", "in ns", "S"),
    ),
    made("ptr_to_member_type", "to member", "int", attributes=(At("containing_type", "ref4", Ref("S")),)),
    made("pointer_type", "const S *", "const S"),
    made("const_type", "const S", "S"),
    made("subroutine_type", "method", "int", parameter("const S *", At("artificial", "flag_present")), parameter("float")),
    made("ptr_to_member_type", "to method", "method", attributes=(At("containing_type", "ref4", Ref("S")),)),
    named("unspecified_type", "decltype(nullptr)"),
    named("structure_type", "whole<int>", label="whole"),
    named(
        "structure_type",
        "tmpl",
        Die(0x2F, [of("S")]),
        Die(0x30, [of("int"), At("const_value", "sdata", -3)]),
        Die(0x30, [of("bool"), At("const_value", "udata", 1)]),
        Die(0x30, [of("char"), At("const_value", "udata", 120)]),
        Die(0x30, [of("unsigned int"), At("const_value", "udata", 7)]),
    ),
    named("structure_type", "outer", Die(0x2F, [of("whole")])),
    Die("coarray_type", [of("int")], [], "coarray"),
    Die("dynamic_type", [of("int")], [], "dynamic"),
]  # fmt: skip
WRITTEN_OUT = {
    "int *restrict": made("restrict_type", "int *restrict", "int *"),
    "const int *restrict": made("restrict_type", "const int *restrict", "const int *"),
    "int *const *restrict": made("restrict_type", "int *const *restrict", "int *const *"),
    "const int *const restrict": made("const_type", "const int *const restrict", "const int *restrict"),
    "int *restrict *": made("pointer_type", "int *restrict *", "int *restrict"),
    "int &restrict": made("restrict_type", "int &restrict", "int &"),
    "int (*restrict)[3]": made("restrict_type", "int (*restrict)[3]", "to array"),
    "_Atomic(int)": made("atomic_type", "_Atomic(int)", "int"),
    "_Atomic(int) *": made("pointer_type", "_Atomic(int) *", "_Atomic(int)"),
    "*const f32": Die("pointer_type", [At("name", "string", "*const f32"), of("float")], [], "*const f32"),
    "const *const f32": made("const_type", "const *const f32", "*const f32"),
    "&[f32; 3]": Die("pointer_type", [At("name", "string", "&[f32; 3]"), of("int[3]")], [], "&[f32; 3]"),
    "&[f32; 3] *": made("pointer_type", "&[f32; 3] *", "&[f32; 3]"),
    "character(5)": Die("string_type", [At("byte_size", "data1", 5)], [], "character(5)"),
    "character(*)": Die("string_type", [At("string_length", "exprloc", b"\x55"), At("byte_size", "data1", 8)], [], "character(*)"),
    "int[0]": made(
        "array_type", "int[0]", "int", dimension(At("lower_bound", "data1", 0), At("upper_bound", "data8", (1 << 64) - 1))
    ),
}  # fmt: skip
"""Types of which llvm-dwarfdump says less than they are ("restrict "), as their languages write them."""
LABELS = [
    die.label for top in TYPES for die in (top, *(child for child in top.children if child.tag != "subrange_type"))
    if die.label and die.tag != "namespace"
]  # fmt: skip


def with_types(version: int = 5) -> CodeObject:
    """A function with a variable of each type."""
    variables = [variable(label, of(label)) for label in LABELS]
    return code(unit(function("f", *variables, variable("nothing")), *TYPES), version=version)


def spellings(found: CodeObject, folder: Path) -> dict[str, str]:
    """The types of all variables as llvm-dwarfdump prints them, by the variable's name."""
    path = folder / "types.elf"
    sections = [Section(one.name, data=one.data) for one in found.sections if one.name.startswith(".debug")]
    path.write_bytes(build_elf(machine=62, sections=sections))
    text = tools.output(tools.require("llvm-dwarfdump-22"), "--debug-info", path)
    return dict(re.findall(r'DW_TAG_variable\n +DW_AT_name\t\("(.*)"\)\n +DW_AT_type\t\(0x[0-9a-f]+ "(.*)"\)', text))


@pytest.mark.parametrize("version", [4, 5])
def test_the_spelling_is_that_of_dwarfdump(version: int, tmp_path: Path) -> None:
    found = with_types(version)
    expected = spellings(found, tmp_path)
    assert len(expected) == len(LABELS)
    mine = {one.name: one.type for one in visible(found).variables}
    assert mine.pop("nothing") == "void"
    assert mine == expected


def test_spellings_known_by_heart() -> None:
    shown = {one.name: one.type for one in visible(with_types()).variables}
    assert {
        label: shown[label] for label in ("to giver", "to array", "of pointers", "to method", "const volatile int")
    } == {
        "to giver": "int (*(*)(float))(int *, ...)",
        "to array": "int (*)[3]",
        "of pointers": "int *const[3]",
        "to method": "int (ns::S::*)(float) const",
        "const volatile int": "const volatile int",
    }


ARRAYS = {
    "counted": dimension(*COUNT),
    "from 0": dimension(At("lower_bound", "data1", 0), *COUNT),
    "from 1": dimension(At("lower_bound", "data1", 1), *COUNT),
    "to 2": dimension(At("upper_bound", "data1", 2)),
    "from 1 to 2": dimension(At("lower_bound", "data1", 1), At("upper_bound", "data1", 2)),
}


def unit_of_language(language: int) -> Unit:
    """A function of 8 bytes at 8 * ``language`` with a variable of each array type."""
    labels = {text: f"{text} {language:#x}" for text in ARRAYS}
    arrays = [made("array_type", label, f"int {language}", ARRAYS[text]) for text, label in labels.items()]
    held = function(
        "f", *(variable(label, of(label)) for label in labels.values()), first=8 * language, after=8 * language + 8
    )
    number = Die(
        "base_type",
        [At("name", "string", "int"), At("encoding", "data1", 5), At("byte_size", "data1", 4)],
        label=f"int {language}",
    )
    top = [At("language", "data1", language), *span(8 * language, 8 * language + 8)]
    return Unit(Die("compile_unit", top, [number, held, *arrays]), version=5)


def test_the_first_index_of_every_language_is_that_of_dwarfdump(tmp_path: Path) -> None:
    """Up to 0x37; LLVM and the list of dwarfstd.org are not one beyond."""
    languages = range(0x38)
    found = with_sections(build_dwarf([unit_of_language(language) for language in languages]).sections)
    expected = spellings(found, tmp_path)
    assert len(expected) == len(languages) * len(ARRAYS)
    mine = {one.name: one.type for language in languages for one in visible(found, 8 * language).variables}
    assert mine == expected


def test_types_that_dwarfdump_abbreviates_are_written_out() -> None:
    variables = [variable(label, of(label)) for label in WRITTEN_OUT]
    found = visible(code(unit(function("f", *variables), *TYPES, *WRITTEN_OUT.values()), version=5))
    assert {one.name: one.type for one in found.variables} == {label: label for label in WRITTEN_OUT}
    by_text = {info.text: info for info in found.types}
    assert (by_text["character(5)"].kind, by_text["character(5)"].size) == ("string", 5)
    assert (by_text["int[0]"].counts, by_text["int[0]"].size) == ((0,), 0)
    assert (by_text["&[f32; 3]"].kind, by_text["&[f32; 3]"].size) == ("pointer", 8)


def test_the_fields_of_every_variant_are_members() -> None:
    """As rustc describes an enum: the field that tells its variants apart, and each variant with what that has there."""

    def member(name: str, kind: str, offset: int, *attributes: At) -> Die:
        called = [At("name", "string", name)] if name else []
        return Die("member", [*called, of(kind), At("data_member_location", "data1", offset), *attributes])

    parts = Die(
        "variant_part",
        [],
        [
            member("", "int", 0, At("artificial", "flag_present")),
            Die("variant", [At("discr_value", "data1", 0)], [member("Empty", "none", 0)]),
            Die("variant", [At("discr_value", "data1", 7)], [member("Circle", "circle", 0)]),
            Die("variant", [], [member("Others", "none", 0)]),
        ],
    )
    enum = Die("structure_type", [At("name", "string", "Shape"), At("byte_size", "data1", 8)], [parts], "Shape")
    none = Die("structure_type", [At("name", "string", "Empty")], [], "none")
    circle = Die("structure_type", [At("name", "string", "Circle")], [member("r", "float", 4)], "circle")
    found = visible(code(unit(function("f", variable("s", of("Shape"))), INT, FLOAT, enum, none, circle)))
    by_text = {info.text: info for info in found.types}
    told = [(one.name, found.types[one.type].text, one.offset, one.discriminant) for one in by_text["Shape"].members]
    assert told == [
        ("$discr$", "int", 0, None),
        ("Empty", "Empty", 0, 0),
        ("Circle", "Circle", 0, 7),
        ("Others", "Empty", 0, None),
    ]
    assert [one.name for one in by_text["Circle"].members] == ["r"]


STRUCTURE = unit(
    function("f", variable("list", of("list"))),
    INT,
    FLOAT,
    base_type("unsigned char", 8, 1),
    named(
        "structure_type",
        "list",
        Die("inheritance", [of("base"), At("data_member_location", "data1", 0)]),
        Die("member", [At("name", "string", "next"), of("to list"), At("data_member_location", "data1", 8)]),
        Die("member", [At("name", "string", "matrix"), of("matrix"), At("data_member_location", "block1", b"\x23\x10")]),
        Die("member", [At("name", "string", "flag"), of("unsigned char"), At("data_bit_offset", "data2", 0x143), At("bit_size", "data1", 2)]),
        Die("member", [At("name", "string", "old"), of("int"), At("data_member_location", "data1", 0x2C),
                       At("byte_size", "data1", 4), At("bit_offset", "data1", 4), At("bit_size", "data1", 3)]),
        Die("member", [At("name", "string", "shared"), of("int"), At("external", "flag_present"), At("declaration", "flag_present")]),
        attributes=(At("byte_size", "data1", 0x30),),
    ),
    named("structure_type", "base", attributes=(At("byte_size", "data1", 4),)),
    made("pointer_type", "to list", "const list", attributes=(At("address_class", "data1", 5),)),
    made("const_type", "const list", "list"),
    made("array_type", "matrix", "row type", dimension(At("count", "data1", 2)), dimension(At("upper_bound", "data1", 2))),
    named("typedef", "row type", attributes=(of("float"),)),
)  # fmt: skip


def test_a_structure_has_members_with_offsets_and_bits() -> None:
    """Bit fields: DWARF 5 counts from the start, 0x143 bits; DWARF 2 from the top of 4 bytes at 44: 8 * 48 - 4 - 3."""
    types = visible(code(STRUCTURE, vendor=Vendor.AMD)).types
    found = types[0]
    by_text = {info.text: number for number, info in enumerate(types)}
    assert (found.text, found.kind, found.size) == ("list", "structure", 48)
    assert found.members == (
        Member("", by_text["base"], 0),
        Member("next", by_text["const list *"], 8),
        Member("matrix", by_text["row type[2][3]"], 16),
        Member("flag", by_text["unsigned char"], 40, 0x143, 2),
        Member("old", by_text["int"], 44, 377, 3),
    )


def test_pointers_arrays_and_names_lead_to_what_they_are_made_from() -> None:
    types = visible(code(STRUCTURE, vendor=Vendor.AMD)).types
    by_text = {info.text: info for info in types}
    pointer = by_text["const list *"]
    assert (pointer.kind, pointer.size, pointer.address_space) == ("pointer", 8, "private")
    assert pointer.target is not None
    assert types[pointer.target].kind == "const"
    assert types[types[pointer.target].target or 0].text == "list"
    assert types[pointer.target].size == 48
    matrix = by_text["row type[2][3]"]
    assert (matrix.kind, matrix.counts, matrix.size) == ("array", (2, 3), 24)
    row = by_text["row type"]
    assert (row.kind, row.size) == ("typedef", 4)
    assert (by_text["float"].kind, by_text["float"].encoding, by_text["float"].size) == ("base", "float", 4)
    assert by_text["unsigned char"].encoding == "unsigned_char"


@pytest.mark.parametrize(("encoding", "expected"), [(6, -56), (8, 200)])
def test_a_constant_of_an_enumeration_has_the_sign_of_the_type_under_it(encoding: int, expected: int) -> None:
    """``enum class Level : unsigned char { TOP = 200 };``, and the same byte with a sign (DWARF 5, 5.7 and 7.8)."""
    stated = (At("byte_size", "data1", 1), of("alias"))
    root = unit(
        function("f", variable("level", of("Level"), At("const_value", "data1", 200))),
        named("enumeration_type", "Level", attributes=stated),
        named("typedef", "alias", attributes=(of("under"),)),
        base_type("under", encoding, 1),
    )
    found = only(code(root))
    assert found.location == f"constant {expected}"
    assert [piece.value for location in found.locations for piece in location.pieces] == [expected]


def test_vectors_functions_and_enumerations() -> None:
    found = visible(
        code(
            unit(
                function("f", variable("v", of("vector")), variable("p", of("function")), variable("e", of("colour"))),
                INT,
                FLOAT,
                made("array_type", "vector", "float", dimension(At("count", "data1", 4)), attributes=(At("GNU_vector", "flag_present"),)),
                made("subroutine_type", "function", "float", parameter("int"), parameter("float")),
                named(
                    "enumeration_type",
                    "colour",
                    Die("enumerator", [At("name", "string", "RED"), At("const_value", "sdata", -1)]),
                    Die("enumerator", [At("name", "string", "BLUE"), At("const_value", "data1", 7)]),
                    attributes=(At("byte_size", "data1", 4), of("int")),
                ),
            )
        )
    )  # fmt: skip
    vector, signature, colour = (found.types[one.type_number or 0] for one in found.variables)
    number = {info.text: place for place, info in enumerate(found.types)}
    assert (vector.kind, vector.counts, vector.size, vector.target) == ("vector", (4,), 16, number["float"])
    assert (signature.kind, signature.target, signature.parameters) == (
        "function",
        number["float"],
        (number["int"], number["float"]),
    )
    assert (colour.kind, colour.size, colour.enumerators) == ("enumeration", 4, (("RED", -1), ("BLUE", 7)))


def test_a_size_below_0_is_none_and_an_array_that_ends_before_it_begins_has_no_elements() -> None:
    """As LLVM, which takes no such DW_AT_byte_size, and GDB, for which the array has 0 bytes."""
    backwards = dimension(At("lower_bound", "sdata", 5), At("upper_bound", "sdata", 3))
    kinds = [
        Die("base_type", [At("encoding", "data1", 5), At("byte_size", "sdata", -1)], [], "below"),
        named("structure_type", "S", attributes=(At("byte_size", "sdata", -4),)),
        made("pointer_type", "to S", "S", attributes=(At("byte_size", "sdata", -8),)),
        made("array_type", "backwards", "int", backwards),
        made("array_type", "counted below", "int", dimension(At("count", "sdata", -3))),
    ]
    held = [variable(kind.label, of(kind.label)) for kind in kinds]
    found = visible(code(unit(function("f", *held), INT, *kinds)))
    types = [found.types[one.type_number or 0] for one in found.variables]
    assert [(one.size, one.counts) for one in types] == [(None, ()), (None, ()), (8, ()), (0, (0,)), (0, (0,))]


def test_types_that_only_name_each_other_end() -> None:
    found = code(
        unit(
            function("f", variable("x", of("a")), variable("y", of("p"))),
            named("typedef", "a", attributes=(of("b"),)),
            made("const_type", "b", "c"),
            made("const_type", "c", "b"),
            made("pointer_type", "p", "p"),
        )
    )
    x, y = visible(found).variables
    assert x.type == "a"
    assert y.type == "..." + "*" * (MAX_DEPTH + 1)
    assert {info.size for info in visible(found).types} == {None, 8}


def test_a_function_type_that_doubles_at_every_level_is_cut_short() -> None:
    levels = [made("subroutine_type", f"t{n}", f"t{n + 1}", *[parameter(f"t{n + 1}")] * 4) for n in range(60)]
    found = only(code(unit(function("f", variable("x", of("t0"))), *levels, made("pointer_type", "t60"))))
    assert found.type.endswith("...")
    assert len(found.type) == MAX_NAME_LENGTH + 3


def test_what_the_names_of_one_answer_take_is_not_taken_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_names, "MAX_TOTAL_LENGTH", 1)
    of_each = [
        function(name, variable("x", of(kind)), variable("y", of("char")), first=first, after=first + 0x40)
        for name, kind, first in (("f", "int", 0), ("g", "float", 0x40))
    ]
    reader = VariableReader(code(unit(*of_each, INT, FLOAT, base_type("char", 6, 1))))
    names = [[one.type for one in reader.at(TEXT, offset).variables] for offset in (0x10, 0x50, 0x10)]
    assert names == [["int", "..."], ["float", "..."], ["int", "..."]]

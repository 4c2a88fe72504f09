"""A code object made of DIEs, and short ways to ask about it."""

from __future__ import annotations

from collections.abc import Sequence

from symd.debuginfo.variables.visible import VariableReader
from symd.model.code import CodeObject, DebugScheme, Section, Vendor
from symd.model.variables import Variable, Visible
from tests.builders.dwarf import At, Die, Unit, build_dwarf

TEXT = 1
BASE, SIZE = 0x1000, 0x400
"""The text section's address and size."""


def code(
    root: Die,
    *,
    version: int = 4,
    vendor: Vendor = Vendor.AMD,
    dwarf64: bool = False,
    address_size: int = 8,
    sections: dict[str, bytes] | None = None,
) -> CodeObject:
    """A linked code object with one text section and one unit."""
    built = build_dwarf([Unit(root, version=version, dwarf64=dwarf64, address_size=address_size)]).sections
    return with_sections({**built, **(sections or {})}, vendor=vendor)


def with_sections(sections: dict[str, bytes], *, vendor: Vendor = Vendor.AMD) -> CodeObject:
    debug = tuple(
        Section(number, name, 1, 0, 0, len(data), data)
        for number, (name, data) in enumerate(sections.items(), TEXT + 1)
    )
    text = Section(TEXT, ".text", 1, 6, BASE, SIZE, bytes(SIZE))
    stored = SIZE + sum(map(len, sections.values()))
    return CodeObject("", "made", None, b"", (text, *debug), vendor=vendor, debug=DebugScheme.DWARF_4, stored=stored)


def unit(*children: Die, attributes: Sequence[At] = ()) -> Die:
    """A C unit over the whole text."""
    own = [
        At("name", "string", "k.c"),
        At("language", "data1", 12),
        At("low_pc", "addr", BASE),
        At("high_pc", "data4", SIZE),
    ]
    return Die("compile_unit", [*own, *attributes], children)


def span(first: int, after: int) -> list[At]:
    """The code range of a scope, in section offsets."""
    return [At("low_pc", "addr", BASE + first), At("high_pc", "data4", after - first)]


def function(name: str, *children: Die, attributes: Sequence[At] = (), first: int = 0, after: int = SIZE) -> Die:
    return Die("subprogram", [At("name", "string", name), *span(first, after), *attributes], children)


def variable(name: str, *attributes: At, tag: str = "variable") -> Die:
    return Die(tag, [At("name", "string", name), *attributes])


def base_type(name: str, encoding: int, size: int) -> Die:
    return Die(
        "base_type",
        [At("name", "string", name), At("encoding", "data1", encoding), At("byte_size", "data1", size)],
        label=name,
    )


INT = base_type("int", 5, 4)
FLOAT = base_type("float", 4, 4)


def visible(found: CodeObject, offset: int = 0x100) -> Visible:
    return VariableReader(found).at(TEXT, offset)


def names(found: CodeObject, offset: int) -> list[str]:
    return [one.name for one in visible(found, offset).variables]


def only(found: CodeObject, offset: int = 0x100) -> Variable:
    [one] = visible(found, offset).variables
    return one

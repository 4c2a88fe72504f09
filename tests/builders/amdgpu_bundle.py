"""AMD code objects with debug data: a text alone, and offload bundles of many, of any size."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cache

from .dwarf import At, Die, Ref, Unit, build_dwarf
from .elf import AX, ET_DYN, FUNC, GLOBAL, OBJECT, Section, Symbol, build_elf
from .line_program import File, Row, Shape, build_line_program

MACHINE, GFX900 = 224, 0x2C
BASE, RODATA = 0x1000, 0x100
STEP = 4
"""Bytes of an instruction."""
_NUMBER = b"#####"
"""Stands for the number of a code object in names."""


def bundle(objects: int, functions: int = 8, rows: int = 40) -> bytes:
    """So many code objects, each of which has names of its own and names that all have."""
    images = [code_object(number, functions, rows) for number in range(objects)]
    names = [f"hip-amdgcn-amd-amdhsa--gfx900-{number}".encode() for number in range(objects)]
    at = 32 + sum(24 + len(name) for name in names)
    table = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", objects)
    for image, name in zip(images, names, strict=True):
        table += struct.pack("<QQQ", at, len(image), len(name)) + name
        at += len(image)
    return b"".join([table, *images])


def code_object(number: int, functions: int, rows: int) -> bytes:
    """``functions`` of ``rows`` line rows each, with two inlined calls in each; every second one has no symbol, and the last
    has code but no debug data. The first is a kernel."""
    image = _image(functions, rows, helpers=number % 3 + 1)
    return image.replace(_NUMBER, f"{number:05}".encode())


@cache
def _image(functions: int, rows: int, helpers: int) -> bytes:
    size = rows * STEP
    names = [f"work_{_NUMBER.decode()}_{place}" for place in range(functions)]
    text = Section(".text", flags=AX, address=BASE, data=bytes(size * (functions + 1)), align=4)
    descriptor = struct.pack("<IIIIq", 0, 0, 0, 0, BASE - RODATA) + bytes(40)
    debug = build_dwarf([Unit(_unit(names, size, helpers), version=4)]).sections
    shape = Shape(version=4, min_inst_length=1)
    lines = build_line_program(
        [[*_rows(functions, rows), Row(BASE + functions * size, end_sequence=True)]],
        shape=shape,
        files=[File(f"work_{_NUMBER.decode()}.hip"), File("helpers.h"), File("unused.h")],
    )
    symbols = [
        Symbol(name, BASE + place * size, size, ".text", FUNC, GLOBAL)
        for place, name in enumerate([*names, f"bare_{_NUMBER.decode()}"])
        if place % 2 == 0
    ]
    symbols.append(Symbol(f"{names[0]}.kd", RODATA, 64, ".rodata", OBJECT, GLOBAL))
    return _elf(
        [
            text,
            Section(".rodata", flags=2, address=RODATA, data=descriptor, align=64),
            *(Section(name, data=data) for name, data in debug.items()),
            Section(".debug_line", data=lines.data),
        ],
        symbols,
    )


def text_alone(address: int, size: int, debug: Mapping[str, bytes]) -> bytes:
    """A code object that has so many bytes of text, no symbol, and these sections of debug data."""
    text = Section(".text", flags=AX, address=address, data=bytes(size), align=4)
    return _elf([text, *(Section(name, data=data) for name, data in debug.items())], [])


def _elf(sections: Sequence[Section], symbols: Sequence[Symbol]) -> bytes:
    return build_elf(
        machine=MACHINE, type=ET_DYN, flags=GFX900, osabi=64, abiversion=1, sections=sections, symbols=symbols
    )


def _rows(functions: int, rows: int) -> list[Row]:
    return [
        Row(
            BASE + (place * rows + number) * STEP,
            file=2 if _inlined(number, rows) else 1,
            line=place * 1000 + number + 1,
        )
        for place in range(functions)
        for number in range(rows)
    ]


def _inlined(number: int, rows: int) -> bool:
    return rows // 4 <= number < rows // 2


def _unit(names: list[str], size: int, helpers: int) -> Die:
    """Helpers are inlined into each other; those that an object has are not in the order of their names."""
    shared = [f"helper_{(place * 7) % helpers}_{helpers}" for place in range(helpers)]
    abstract = [
        Die("subprogram", [At("name", "string", name), At("inline", "data1", 1)], label=name) for name in shared
    ]
    concrete = [_function(name, BASE + place * size, size, shared) for place, name in enumerate(names)]
    root = [At("name", "string", "work.hip"), At("stmt_list", "sec_offset", 0), At("low_pc", "addr", 0)]
    return Die("compile_unit", root, [*abstract, *concrete])


def _function(name: str, start: int, size: int, helpers: list[str]) -> Die:
    inner: list[Die] = []
    for depth, helper in enumerate(reversed(helpers)):
        call = [At("call_file", "data1", 1), At("call_line", "data2", 10 + depth), At("call_column", "data1", depth)]
        inner = [
            Die(
                "inlined_subroutine",
                [At("abstract_origin", "ref4", Ref(helper)), *_span(start + size // 4, size // 4), *call],
                inner,
            )
        ]
    return Die("subprogram", [At("name", "string", name), *_span(start, size)], inner)


def _span(start: int, size: int) -> list[At]:
    return [At("low_pc", "addr", start), At("high_pc", "data4", size)]

"""An AMDGPU code object and the debug file that was taken out of it, as one image again: what the object has stays where it
is, byte for byte, and the debug sections follow it, with a new section table."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np

from symd.budget import Budget
from symd.containers.amd import code_object
from symd.containers.format import Part
from symd.elf import reader
from symd.elf.writer import Output
from symd.errors import InvalidInput, NoDebugData, Unsupported
from symd.model.code import CodeObject
from symd.split_debug import slim
from symd.split_debug.slim import raw_sections

_STRTAB = 3
_RESERVED = 0xFF00
_DEBUG = (".debug_", ".zdebug_")


def joined(data: bytes, debug: bytes, budget: Budget) -> bytes:
    """``data`` with the debug sections of ``debug``, and with its symbol table where ``data`` lost its own.

    Raises InvalidInput where ``data`` has debug sections already, NoDebugData where ``debug`` has none, HashMismatch where
    they are not of one build, Unsupported for what is no linked AMDGPU code object or has no section table.
    """
    slim.join(_code(data, budget, "the code object"), _code(debug, budget, "the debug file"))
    image, other = reader.parse(data, budget), reader.parse(debug, budget)
    if not image.sections:
        raise Unsupported("without a section table nothing says where debug sections belong")
    if any(section.name.startswith(_DEBUG) for section in image.sections):
        raise InvalidInput("the code object has debug sections of its own", hint="leave out --debug")
    added = [replace(one, link=0, info=0) for one in raw_sections(debug, other) if one.name.startswith(_DEBUG)]
    if not added:
        raise NoDebugData("the debug file has no debug sections")
    if ".symtab" not in image.by_name:
        added += _symbols(image, other, debug)
    return _appended(data, raw_sections(data, image), added)


def _code(data: bytes, budget: Budget, what: str) -> CodeObject:
    code = code_object.read(Part("", data), budget).object if code_object.claims(data) else None
    if code is None:
        raise Unsupported(f"{what} is no AMDGPU code object: only theirs have their debug data apart")
    return code


def _symbols(image: reader.Elf, other: reader.Elf, debug: bytes) -> list[Output]:
    """The debug file's symbol and string table, for the section numbers of ``image``."""
    table = other.by_name.get(".symtab")
    if table is None or not 0 < table.link < len(other.sections):
        return []
    raw = raw_sections(debug, other)
    number = {(one.name, one.address): one.index for one in image.sections if one.executable}
    lookup = np.arange(0x10000, dtype=np.uint16)
    lookup[1:_RESERVED] = 0
    for section in other.sections[:_RESERVED]:
        lookup[section.index] = number.get((section.name, section.address), 0)
    rows = other.symbol_columns(table).copy()
    rows["section"] = lookup[rows["section"]]
    link = len(image.sections) + sum(one.name.startswith(_DEBUG) for one in raw) + 1
    strings = raw[table.link]
    return [replace(raw[table.index], content=rows.tobytes(), link=link), replace(strings, name=".strtab")]


def _appended(data: bytes, kept: list[Output], added: list[Output]) -> bytes:
    """The file with more sections behind it: their content, the names of all, a new section table."""
    if len(kept) + len(added) + 1 >= _RESERVED:
        raise Unsupported(f"{len(kept) + len(added)} sections are more than one image is written with")
    (old_table,) = struct.unpack_from("<Q", data, 40)
    (old_size,) = struct.unpack_from("<H", data, 58)
    places = [struct.unpack_from("<Q", data, old_table + number * old_size + 24)[0] for number in range(len(kept))]
    body = bytearray(data)
    for section in added:
        body += bytes(-len(body) % max(section.align, 1))
        places.append(len(body))
        body += section.content
    names = bytearray(b"\0")
    starts = []
    for section in [*kept, *added]:
        starts.append(len(names) if section.name else 0)
        names += section.name.encode() + b"\0" if section.name else b""
    sections = [*kept, *added, Output(".shstrtab", _STRTAB, 0, 0, len(names) + 10, b"", 0, 0, 1, 0)]
    starts.append(len(names))
    places.append(len(body))
    body += names + b".shstrtab\0"
    body += bytes(-len(body) % 8)
    struct.pack_into("<Q", body, 40, len(body))
    struct.pack_into("<HHH", body, 58, 64, len(sections), len(sections) - 1)
    for section, place, start in zip(sections, places, starts, strict=True):
        body += struct.pack(
            "<IIQQQQIIQQ",
            *(start, section.kind, section.flags, section.address, place, section.size),
            *(section.link, section.info, section.align, section.unit),
        )
    return bytes(body)

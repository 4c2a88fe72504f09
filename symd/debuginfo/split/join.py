"""An AMDGPU code object and the debug file that was taken out of it, as one image again: what the object has stays where it
is, byte for byte, and the debug sections follow it, with a new section table."""

from __future__ import annotations

from dataclasses import replace

from symd.debuginfo.split import slim
from symd.debuginfo.split.slim import DEBUG_SECTIONS, renumbered
from symd.errors import InvalidInput, NoDebugData, Unsupported
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.amd import amdgpu
from symd.formats.containers.format import Element
from symd.formats.elf.writer import OutputSection, stored_sections, with_sections
from symd.model.code import CodeObject


def joined(data: bytes, debug: bytes, budget: Budget) -> bytes:
    """``data`` with the debug sections of ``debug``, and with its symbol table where ``data`` lost its own.

    Raises InvalidInput where ``data`` has debug sections already, NoDebugData where ``debug`` has none, HashMismatch where
    they are not of one build, Unsupported for what is no linked AMDGPU code object or has no section table.
    """
    _check(_code(data, budget, "the code object"), _code(debug, budget, "the debug file"))
    image, other = elf.parse(data, budget), elf.parse(debug, budget)
    if not image.sections:
        raise Unsupported("without a section table nothing says where debug sections belong")
    if any(section.name.startswith(DEBUG_SECTIONS) for section in image.sections):
        raise InvalidInput("the code object has debug sections of its own", hint="leave out --debug")
    stored = stored_sections(debug)
    added = [replace(one, link=0, info=0) for one in stored if one.name.startswith(DEBUG_SECTIONS)]
    if not added:
        raise NoDebugData("the debug file has no debug sections")
    if ".symtab" not in image.by_name:
        added += _symbols(image, other, stored, len(image.sections) + len(added))
    return with_sections(data, added)


def _code(data: bytes, budget: Budget, what: str) -> CodeObject:
    code = amdgpu.read(Element("", data), budget).code_object if amdgpu.claims(data) else None
    if code is None:
        raise Unsupported(f"{what} is no AMDGPU code object: only theirs have their debug data apart")
    return code


def _check(code: CodeObject, debug: CodeObject) -> None:
    if not (code.linked and debug.linked):
        raise Unsupported("debug data can be joined to linked code objects only")
    slim.check(code, debug)


def _symbols(image: elf.Elf, other: elf.Elf, stored: list[OutputSection], first: int) -> list[OutputSection]:
    """The debug file's symbol and string table for the section numbers of ``image``, to become its sections ``first`` and
    ``first + 1``."""
    table = other.by_name.get(".symtab")
    if table is None or not 0 < table.link < len(stored):
        return []
    number = {(one.name, one.address): one.index for one in image.sections if one.executable}
    mapping = {0: 0, **{one.index: number.get((one.name, one.address), 0) for one in other.sections}}
    rows = renumbered(stored[table.index].content, mapping)
    return [
        replace(stored[table.index], content=rows.tobytes(), link=first + 1),
        replace(stored[table.link], name=".strtab"),
    ]

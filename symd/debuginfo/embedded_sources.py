"""What stands of its source files in a code object: texts (SPIR-V's, DWARF's embedded source, PTX) and the MD5 sums by
which a file elsewhere can be told to be the same. Read when somebody asks; no index holds it."""

from __future__ import annotations

from collections.abc import Mapping

from symd.debuginfo import layout
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.line_table_texts import EmbeddedSource, table_entries
from symd.debuginfo.ptx_lines import PtxText
from symd.debuginfo.ptx_text import TEXT
from symd.debuginfo.relocation import relocated
from symd.debuginfo.spirv.sources import source_texts
from symd.errors import SymdError
from symd.model.code import CodeKind, CodeObject, DebugScheme


def embedded_sources(code: CodeObject) -> Mapping[str, EmbeddedSource]:
    """The source files that a code object carries texts or MD5 sums of, by path, as frames name files. Empty for a
    code object that cannot be read: its index says why."""
    try:
        return _embedded_sources(code)
    except SymdError:
        return {}


def _embedded_sources(code: CodeObject) -> dict[str, EmbeddedSource]:
    if code.kind is CodeKind.SPIRV:
        return {file: EmbeddedSource(text) for file, text in source_texts(code).items()}
    found: dict[str, EmbeddedSource] = {}
    if code.debug not in (DebugScheme.NONE, DebugScheme.SPIRV):
        found |= _from_line_tables(relocated(code, layout.assign(code)))
    for section in code.sections:
        if section.name == TEXT or section.name.startswith(f"{TEXT}."):
            ptx = PtxText.read(section.data)
            found[section.name] = EmbeddedSource("".join(f"{ptx.line(number)}\n" for number in range(1, len(ptx) + 1)))
    return found


def _from_line_tables(sections: DebugSections) -> dict[str, EmbeddedSource]:
    """The first table that names a file decides."""
    found: dict[str, EmbeddedSource] = {}
    for path, entry in table_entries(sections):
        found.setdefault(path, entry)
    return found

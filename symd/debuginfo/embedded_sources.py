"""What stands of its source files in a code object: texts (SPIR-V's, DWARF's embedded source, PTX) and the MD5 sums by
which a file elsewhere can be told to be the same. Read when somebody asks; no index holds it.

Sources: DWARF 5, 6.2.4.1 (DW_LNCT_MD5); LLVM's DW_LNCT_LLVM_source; and the modules that read the texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from symd.config import DEFAULT_LIMITS
from symd.debuginfo import layout
from symd.debuginfo.ptx_lines import TEXT, PtxText
from symd.debuginfo.relocation import relocated
from symd.debuginfo.spirv.sources import source_texts
from symd.dwarf import DebugSections, read_units
from symd.dwarf.line_header import file_details, read_headers
from symd.dwarf.paths import FilePaths
from symd.dwarf.strings import StringReader
from symd.dwarf.warnings import Warnings
from symd.errors import SymdError
from symd.model.code import CodeKind, CodeObject, DebugScheme

__all__ = ("EmbeddedSource", "embedded_sources")

_VERSION_5 = bytes([5, 0])
_MD5_BYTES = 16


@dataclass(frozen=True, slots=True)
class EmbeddedSource:
    """What one code object says of one file: its ``text``, None where it is not inside, and the ``md5`` of the file
    that the compiler read (16 bytes), None where it does not say."""

    text: str | None = None
    md5: bytes | None = None


def embedded_sources(code: CodeObject) -> Mapping[str, EmbeddedSource]:
    """By path, as frames name files. Nothing for a code object that cannot be read: its index says why."""
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
    """Of the tables of DWARF 5; earlier ones have neither. The first table that names a file decides."""
    if sections.lines.data.find(_VERSION_5) < 0:
        return {}
    folders = {unit.stmt_list: unit.comp_dir for unit in reversed(read_units(sections).units)}
    strings = StringReader(sections)
    found: dict[str, EmbeddedSource] = {}
    full = FilePaths(sections.lines.name, DEFAULT_LIMITS)
    for header in read_headers(sections.lines, strings, frozenset(), Warnings(), DEFAULT_LIMITS):
        paths = full.of(header, folders.get(header.offset, b""))
        for path, entry in zip(paths, file_details(sections.lines, strings, header), strict=header.version >= 5):
            text = entry.source.decode("utf-8", "replace") if entry.source else None
            md5 = entry.md5 if len(entry.md5) == _MD5_BYTES and any(entry.md5) else None
            found.setdefault(path.decode("utf-8", "replace"), EmbeddedSource(text, md5))
    return found

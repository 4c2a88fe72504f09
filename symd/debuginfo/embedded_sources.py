"""What stands of its source files in a code object: texts (SPIR-V's, DWARF's embedded source, PTX) and the MD5 sums by
which a file elsewhere can be told to be the same; and of cubins the second level of lines, from machine code to lines
of that PTX. Read when somebody asks; no index holds it.

.nv_debug_line_sass is a line table like .debug_line whose files are sections of this image: .nv_debug_ptx_txt, or
.nv_debug_ptx_txt.NUMBER where several translation units were linked. A file table without entries means the former.
Those sections hold the PTX as NUL-terminated lines, counted from 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import basename

import numpy as np

from symd.debuginfo import ptx_text
from symd.debuginfo.dwarf.columns import LineColumns, read_lines
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.line_table_texts import EmbeddedSource, table_entries
from symd.debuginfo.ptx_text import TEXT
from symd.debuginfo.relocation import LinearLayout, linear_layout, relocated
from symd.debuginfo.spirv import source_texts
from symd.debuginfo.text_ranges import section_of
from symd.errors import SymdError
from symd.model.code import CodeKind, CodeObject, DebugScheme
from symd.model.columns import U64
from symd.model.debug_info import LineRows


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
        found |= _from_line_tables(relocated(code, linear_layout(code)))
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


@dataclass(frozen=True, slots=True)
class PtxText:
    """The lines of one translation unit: ``ends`` holds where each ends in ``data`` (u64, one a line)."""

    data: bytes = field(repr=False)
    ends: U64 = field(repr=False)

    @classmethod
    def read(cls, data: bytes) -> PtxText:
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0).astype(np.uint64)
        if data and not data.endswith(b"\0"):
            ends = np.append(ends, np.uint64(len(data)))
        return cls(data, ends)

    def __len__(self) -> int:
        return len(self.ends)

    def line(self, number: int) -> str | None:
        """Line ``number``, counted from 1; None when there is none."""
        if not 1 <= number <= len(self.ends):
            return None
        start = int(self.ends[number - 2]) + 1 if number > 1 else 0
        return self.data[start : int(self.ends[number - 1])].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class PtxLines:
    """The lines of PTX that the machine code of an image was made from. ``rows`` as in ``DebugInfo`` (no columns, no
    inlining); ``files`` are names of text sections, entry 0 is ""; ``texts`` holds those that the image has, by that
    name."""

    rows: LineRows
    files: Sequence[str]
    texts: Mapping[str, PtxText]
    warnings: tuple[str, ...] = ()

    def text(self, file: int, line: int) -> str | None:
        """The PTX of a row's ``file`` and ``line``; None when the image does not carry it."""
        found = self.texts.get(self.files[file])
        return found.line(line) if found else None


def read(code: CodeObject, layout: LinearLayout) -> PtxLines | None:
    """The PTX lines of a cubin; None when it carries none. Rows of functions that the linker stripped are dropped.
    Raises Malformed, Unsupported."""
    sections = ptx_text.line_sections(code, layout)
    if sections is None:
        return None
    lines = read_lines(sections)
    texts = {section.name: PtxText.read(section.data) for section in ptx_text.sections(code)}
    return PtxLines(_rows(lines, layout), _files(lines), texts, lines.warnings)


def _rows(lines: LineColumns, layout: LinearLayout) -> LineRows:
    """Linear addresses as sections and offsets; what lies in no section is dropped."""
    section, offset, found = section_of(layout, lines.address)
    return LineRows(
        section=section[found],
        offset=offset[found],
        file=np.maximum(lines.file[found], 1) if len(lines.files) == 1 else lines.file[found],
        line=lines.line[found],
        column=lines.column[found],
        flags=lines.flags[found],
    )


def _files(lines: LineColumns) -> tuple[str, ...]:
    """The decoder joins a name to its directory; a section has none."""
    if len(lines.files) == 1:
        return ("", ptx_text.TEXT)
    return tuple(basename(file) for file in lines.files)

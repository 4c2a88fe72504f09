"""What stands of its source files in a code object: texts (SPIR-V's, DWARF's embedded source, PTX) and the MD5 sums by
which a file elsewhere can be told to be the same. Read when somebody asks; no index holds it. And which rows lie
outside of the texts.

Sources: DWARF 5, 6.2.4.1 (DW_LNCT_MD5); LLVM's DW_LNCT_LLVM_source; and the modules that read the texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from symd.core.line_header import LineHeaderReader
from symd.core.strings import StringReader
from symd.debuginfo import layout
from symd.debuginfo.dwarf.lines import FilePaths, read_headers
from symd.debuginfo.dwarf.sections import DebugSections, Warnings
from symd.debuginfo.dwarf.units import read_units
from symd.debuginfo.ptx_lines import PtxText
from symd.debuginfo.ptx_text import TEXT
from symd.debuginfo.relocation import relocated
from symd.debuginfo.spirv.sources import MOST_REPEATED, source_texts, widths_by_file
from symd.errors import Malformed, SymdError
from symd.model.code import CodeKind, CodeObject, DebugScheme
from symd.model.debug_info import LineRows, RowFlag, TextSpans
from symd.model.texts import counted, plural

__all__ = ("EmbeddedSource", "embedded_sources", "line_table_texts", "outside_of_texts")

_VERSION_5 = bytes([5, 0])
_MD5_BYTES = 16


@dataclass(frozen=True, slots=True)
class EmbeddedSource:
    """What one code object says of one file: its ``text``, None where it is not inside, and the ``md5`` of the file
    that the compiler read (16 bytes), None where it does not say."""

    text: str | None = None
    md5: bytes | None = None


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
    for path, entry in _table_entries(sections):
        found.setdefault(path, entry)
    return found


def line_table_texts(sections: DebugSections) -> Iterator[tuple[str, str]]:
    """Every text in line tables, with its file. Raises Malformed where texts are the same strings again and again."""
    left = MOST_REPEATED * (len(sections.lines.data) + len(sections.line_strings.data) + len(sections.strings.data))
    for path, entry in _table_entries(sections):
        if entry.text is not None:
            left -= len(entry.text)
            if left < 0:
                raise Malformed(f"its source texts are {MOST_REPEATED} times as long as their sections")
            yield path, entry.text


def _table_entries(sections: DebugSections) -> Iterator[tuple[str, EmbeddedSource]]:
    """What the tables of DWARF 5 say of files; earlier ones have neither sums nor texts."""
    if sections.lines.data.find(_VERSION_5) < 0:
        return
    folders = {unit.stmt_list: unit.comp_dir for unit in reversed(read_units(sections).units)}
    strings = StringReader(sections)
    full = FilePaths(sections.lines.name)
    again = LineHeaderReader(sections.lines.data, sections.lines.name, strings)
    for header in read_headers(sections.lines, strings, frozenset(), Warnings()):
        paths = full.of(header, folders.get(header.offset, b""))
        for path, (md5, source) in zip(paths, again.details(header), strict=header.version >= 5):
            text = source.decode("utf-8", "replace") if source else None
            sum_of_file = md5 if len(md5) == _MD5_BYTES and any(md5) else None
            yield path.decode("utf-8", "replace"), EmbeddedSource(text, sum_of_file)


def outside_of_texts(
    rows: LineRows, files: Sequence[str], texts: Iterable[tuple[str, str]]
) -> tuple[TextSpans, tuple[str, ...]]:
    """The code of rows whose lines or columns lie outside of the texts that the code object carries of their files, and
    a note for each of these files. Where directives move lines no text tells which there are."""
    widths = widths_by_file(texts)
    outside, notes = np.zeros(len(rows), np.bool_), []
    stated = np.flatnonzero((rows.line > 0) & (rows.flags & RowFlag.END_SEQUENCE == 0))
    stated = stated[np.argsort(rows.file[stated], kind="stable")]
    edges = np.searchsorted(rows.file[stated], np.arange(len(files) + 1)).tolist()
    for file, (first, last) in zip(files, pairwise(edges), strict=True):
        if file not in widths:
            continue
        at, lines = stated[first:last], len(widths[file]) - 1
        width = np.append(np.frombuffer(widths[file], np.int64), 0)[np.minimum(rows.line[at], lines + 1)]
        at = at[rows.column[at] > np.where(rows.line[at] > lines, -1, width)]
        outside[at] = True
        if len(at):
            place = ":".join(str(part) for part in (int(rows.line[at[0]]), int(rows.column[at[0]])) if part)
            notes.append(
                f"the text of {file} that it carries has {counted(lines, 'line')}, and {counted(len(at), 'line row')}"
                f" {plural(len(at), 'lies', 'lie')} outside of it, the first at {place}: answered as CONTRADICTORY"
            )
    at = np.flatnonzero(outside[:-1])
    return TextSpans(rows.section[at], rows.offset[at], rows.offset[at + 1]), tuple(notes)

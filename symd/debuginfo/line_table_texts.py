"""What line tables of DWARF 5 say of source files besides their names, texts and MD5 sums; and which rows lie outside
of the texts that a code object carries.

Sources: DWARF 5, 6.2.4.1 (DW_LNCT_MD5); LLVM's DW_LNCT_LLVM_source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from symd.core.byte_reader import StringReader
from symd.core.headers import LineHeaderReader
from symd.debuginfo.dwarf.lines import FilePaths, read_headers
from symd.debuginfo.dwarf.sections import DebugSections, Warnings
from symd.debuginfo.dwarf.units import read_units
from symd.debuginfo.text_widths import MAX_REPEATED, widths_by_file
from symd.errors import Malformed, SymdError
from symd.model.debug_info import DebugInfo, LineRows, RowFlag, TextSpans
from symd.model.light_typing import NamedTuple
from symd.model.texts import counted, plural

_VERSION_5 = bytes([5, 0])
_MD5_BYTES = 16


class EmbeddedSource(NamedTuple):
    """What one code object says of one file: its ``text``, None where it is not inside, and the ``md5`` of the file
    that the compiler read (16 bytes), None where it does not say."""

    text: str | None = None
    md5: bytes | None = None


def line_table_texts(sections: DebugSections) -> Iterator[tuple[str, str]]:
    """Every text in line tables, with its file. Raises Malformed where texts are the same strings again and again."""
    left = MAX_REPEATED * (len(sections.lines.data) + len(sections.line_strings.data) + len(sections.strings.data))
    for path, entry in table_entries(sections):
        if entry.text is not None:
            left -= len(entry.text)
            if left < 0:
                raise Malformed(f"its source texts are {MAX_REPEATED} times as long as their sections")
            yield path, entry.text


def table_entries(sections: DebugSections) -> Iterator[tuple[str, EmbeddedSource]]:
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


def doubting_rows_outside(info: DebugInfo, read_texts: Callable[[], Sequence[tuple[str, str]]]) -> DebugInfo:
    """What was decoded, with the rows doubted that lie outside of the texts that the code object carries of their
    files, where those can be read."""
    try:
        texts = read_texts()
    except SymdError:
        return info
    if not texts:
        return info
    outside, notes = outside_of_texts(info.rows, info.files, texts)
    both = info.doubted, outside
    doubted = TextSpans(*(np.concatenate([getattr(each, name) for each in both]) for name in TextSpans._fields))
    return replace(info, doubted=doubted, warnings=(*info.warnings, *notes))


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

"""The second level of lines that cubins carry: from machine code to PTX. It is read from the code object, not from an
index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from symd.debuginfo import layout, ptx_lines
from symd.debuginfo.ptx_lines import PtxLines
from symd.errors import ObjectNotFound
from symd.model.answers import TextSection
from symd.model.code import CodeObject, Function, Kernel
from symd.model.columns import U32
from symd.model.debug_info import LineRows, RowFlag
from symd.model.line_tables import LineTable


def ptx_tables(objects: Sequence[CodeObject], path: str | None) -> Iterator[LineTable]:
    """The tables of all ``objects`` that have this level, or of the one at ``path``. Raises ``ObjectNotFound``."""
    chosen = [code for code in objects if path in (None, code.path)]
    if path is not None and not chosen:
        raise ObjectNotFound.at(path, (code.path for code in objects))
    return (table for table in map(ptx_table, chosen) if table is not None)


def ptx_table(code: CodeObject) -> LineTable | None:
    """The table with the text of each PTX line; None when the code object has no such level. ``file`` is the name of
    the section that holds the PTX. Raises Malformed, Unsupported."""
    lines = ptx_lines.read(code, layout.assign(code))
    if lines is None or not len(lines.rows):
        return None
    return _Table(code, lines).made()


class _Table:
    def __init__(self, code: CodeObject, lines: PtxLines) -> None:
        self.code, self.lines = code, lines
        self.strings: dict[str, int] = {"": 0}

    def made(self) -> LineTable:
        rows, code = self.lines.rows, self.code
        texts = [section for section in code.sections if section.executable]
        slots = np.zeros(max((section.index for section in texts), default=0) + 2, np.uint32)
        slots[[section.index for section in texts]] = np.arange(len(texts))
        return LineTable(
            path=code.path,
            target=code.target,
            text_section=slots[rows.section],
            offset=rows.offset,
            kernel=self._owners(code.kernels),
            function=self._owners(code.functions),
            file=self._numbers(self.lines.files)[rows.file],
            line=rows.line,
            column=rows.column,
            flags=rows.flags,
            text_sections=[TextSection(code.path, section.name, section.index, section.address) for section in texts],
            text=self._texts(rows),
            strings=list(self.strings),
        )

    def _number(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _numbers(self, texts: Iterable[str]) -> U32:
        return np.array([self._number(text) for text in texts], np.uint32)

    def _owners(self, ranges: Sequence[Function | Kernel]) -> U32:
        """For each row the name of the smallest of ``ranges`` that covers it; an end_sequence row belongs to the byte
        before it."""
        rows = self.lines.rows
        closing = (rows.flags & RowFlag.END_SEQUENCE) != 0
        at = rows.offset - (closing & (rows.offset > 0))
        order = np.lexsort((at, rows.section))
        sections, sorted_at = rows.section[order], at[order]
        owner = np.zeros(len(rows), np.uint32)
        for one in sorted(ranges, key=lambda each: -each.size):
            first, last = np.searchsorted(sections, [one.section_index, one.section_index + 1])
            start, end = first + np.searchsorted(sorted_at[first:last], [one.offset, one.offset + one.size])
            owner[order[start:end]] = self._number(one.name)
        return owner

    def _texts(self, rows: LineRows) -> U32:
        """Each distinct line is looked up once. An end_sequence row has no text."""
        pairs, where = np.unique(np.stack([rows.file, rows.line]), axis=1, return_inverse=True)
        texts = self._numbers(self.lines.text(file, line) or "" for file, line in pairs.T.tolist())
        return np.where(rows.flags & RowFlag.END_SEQUENCE, 0, texts[where.reshape(-1)]).astype(np.uint32)

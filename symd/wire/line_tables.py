"""Line tables as a stream of chunks: a header, then places and strings, then rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.errors import InvalidInput, Malformed
from symd.model.line_tables import LineLevel, LineTable
from symd.v1 import line_table_pb2, symbol_service_pb2
from symd.wire.answers import from_place, to_place
from symd.wire.columns import pack, unpack
from symd.wire.text import utf8, utf8s

ROWS = 1 << 16
"""Rows in a chunk: below 2.5 MB whatever their width."""
PLACES = 1 << 12
"""Places in a chunk."""
TEXT = 1 << 20
"""Characters of strings in a chunk, give or take one string."""

COLUMNS: Mapping[str, type[np.unsignedinteger[Any]]] = {
    "text_section": np.uint32,
    "offset": np.uint64,
    "kernel": np.uint32,
    "function": np.uint32,
    "file": np.uint32,
    "line": np.uint32,
    "column": np.uint32,
    "flags": np.uint8,
}
_FIELDS = {"text_section": "place"}
"""Columns whose field has another name."""

LEVELS: Mapping[int, LineLevel] = {
    symbol_service_pb2.LINE_LEVEL_UNSPECIFIED: LineLevel.SOURCE,
    symbol_service_pb2.LINE_LEVEL_SOURCE: LineLevel.SOURCE,
    symbol_service_pb2.LINE_LEVEL_PTX: LineLevel.PTX,
}


def from_level(number: int) -> LineLevel:
    """The level that a request names. Raises ``InvalidInput`` for one that this version does not know."""
    level = LEVELS.get(number)
    if level is None:
        raise InvalidInput(f"level {number} is not known", hint="ask for LINE_LEVEL_SOURCE or LINE_LEVEL_PTX")
    return level


def to_level(level: LineLevel) -> symbol_service_pb2.LineLevel:
    return symbol_service_pb2.LINE_LEVEL_PTX if level is LineLevel.PTX else symbol_service_pb2.LINE_LEVEL_SOURCE


def to_chunks(table: LineTable) -> Iterator[symbol_service_pb2.GetLineTableResponse]:
    """The messages of one table."""
    header = line_table_pb2.LineTableHeader(object=utf8(table.path), target=utf8(table.target), row_count=len(table))
    yield symbol_service_pb2.GetLineTableResponse(header=header)
    for start in range(0, len(table.text_sections), PLACES):
        places = [to_place(place) for place in table.text_sections[start : start + PLACES]]
        yield symbol_service_pb2.GetLineTableResponse(places=places)
    for strings in _pieces(table.strings):
        yield symbol_service_pb2.GetLineTableResponse(strings=strings)
    for start in range(0, len(table), ROWS):
        yield symbol_service_pb2.GetLineTableResponse(rows=_rows(table, start, start + ROWS))


def from_chunks(chunks: Iterable[symbol_service_pb2.GetLineTableResponse]) -> Iterator[LineTable]:
    """The tables of a stream. Raises ``Malformed`` when chunks contradict their header."""
    group: list[symbol_service_pb2.GetLineTableResponse] = []
    for chunk in chunks:
        if chunk.HasField("header") and group:
            yield _table(group)
            group = []
        group.append(chunk)
    if group:
        yield _table(group)


def _pieces(strings: Sequence[str]) -> Iterator[list[str]]:
    piece: list[str] = []
    length = 0
    for string in utf8s(strings):
        piece.append(string)
        length += len(string) + 4
        if length >= TEXT:
            yield piece
            piece, length = [], 0
    if piece:
        yield piece


def _rows(table: LineTable, start: int, end: int) -> line_table_pb2.LineRows:
    columns = {_FIELDS.get(name, name): pack(getattr(table, name)[start:end]) for name in COLUMNS}
    if table.text is not None:
        columns["text"] = pack(table.text[start:end])
    return line_table_pb2.LineRows(count=min(end, len(table)) - start, **columns)


def _table(chunks: Sequence[symbol_service_pb2.GetLineTableResponse]) -> LineTable:
    header = chunks[0].header
    columns = {name: _column(chunks, name, kind) for name, kind in COLUMNS.items()}
    if any(chunk.rows.text for chunk in chunks):
        columns["text"] = _column(chunks, "text", np.uint32)
    if not chunks[0].HasField("header") or len(columns["offset"]) != header.row_count:
        raise Malformed("the rows of a line table are not as many as its header says")
    return LineTable(
        path=header.object,
        target=header.target if header.HasField("target") else None,
        text_sections=[from_place(place) for chunk in chunks for place in chunk.places],
        strings=[string for chunk in chunks for string in chunk.strings],
        **columns,
    )


def _column(
    chunks: Sequence[symbol_service_pb2.GetLineTableResponse], name: str, kind: type[np.unsignedinteger[Any]]
) -> NDArray[Any]:
    parts = [
        unpack(getattr(chunk.rows, _FIELDS.get(name, name)), chunk.rows.count, kind)
        for chunk in chunks
        if chunk.HasField("rows")
    ]
    return np.concatenate(parts) if parts else np.zeros(0, kind)

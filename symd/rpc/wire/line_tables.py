"""Line tables as a stream of chunks: a header, then text sections and strings, then rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery, Malformed
from symd.model.identities import ObjectPath
from symd.model.line_tables import MOST_AROUND, Around, CodePart, LineLevel, LineTable, RowsInParts
from symd.model.texts import utf8_size
from symd.rpc.wire.answers import from_range, from_text_section, to_range, to_text_section
from symd.rpc.wire.columns import check_below, pack, unpack
from symd.rpc.wire.fields import by_header, cuts, digest_and_path, module_name, utf8, utf8s, wrong_field
from symd.rpc.wire.queries import from_any_query, to_any_query
from symd.v1 import line_table_pb2, location_pb2, symbol_service_pb2

ROWS = 1 << 14
"""Rows in a chunk: below 640 KB whatever their width. A stream keeps some chunks until its client has taken them."""
SECTIONS = 1 << 12
"""Text sections in a chunk."""
TEXT = 1 << 20
"""Bytes of strings in a chunk, give or take one string."""

COLUMNS: Mapping[str, type[np.unsignedinteger[Any]]] = {
    "offset": np.uint64,
    "kernel": np.uint32,
    "function": np.uint32,
    "file": np.uint32,
    "line": np.uint32,
    "column": np.uint32,
    "flags": np.uint8,
}
_TEXTS = frozenset(("kernel", "function", "file", "text"))
"""Columns that number strings."""

LEVELS: Mapping[int, LineLevel] = {
    line_table_pb2.LINE_LEVEL_UNSPECIFIED: LineLevel.SOURCE,
    line_table_pb2.LINE_LEVEL_SOURCE: LineLevel.SOURCE,
    line_table_pb2.LINE_LEVEL_PTX: LineLevel.PTX,
}


def to_request(
    digest: str, path: str | None, level: LineLevel, within: CodePart | None
) -> symbol_service_pb2.GetLineTableRequest:
    request = symbol_service_pb2.GetLineTableRequest(
        module=module_name(digest), code_object=path, level=to_level(level)
    )
    write_within(request, within)
    return request


def from_request(
    request: symbol_service_pb2.GetLineTableRequest,
) -> tuple[str, str | None, LineLevel, CodePart | None]:
    """(the module's digest, the code object's path or None, the level, which rows). Raises ``InvalidInput``, also for a
    level that this version does not know."""
    level = LEVELS.get(request.level)
    if level is None:
        raise wrong_field("level", f"level {request.level} is not known", "ask for LINE_LEVEL_SOURCE or LINE_LEVEL_PTX")
    return *digest_and_path(request), level, from_within(request)


def to_level(level: LineLevel) -> line_table_pb2.LineLevel:
    return line_table_pb2.LINE_LEVEL_PTX if level is LineLevel.PTX else line_table_pb2.LINE_LEVEL_SOURCE


def to_chunks(table: RowsInParts) -> Iterator[symbol_service_pb2.GetLineTableResponse]:
    """The messages of one table."""
    header = line_table_pb2.LineTableHeader(
        code_object=utf8(table.path), target=utf8(table.target), row_count=len(table)
    )
    yield symbol_service_pb2.GetLineTableResponse(header=header)
    sections = [location_pb2.TextSection(), *map(to_text_section, table.text_sections)]
    for start in range(0, len(sections), SECTIONS):
        yield symbol_service_pb2.GetLineTableResponse(text_sections=sections[start : start + SECTIONS])
    strings = utf8s(table.strings)  # as they travel: what is escaped is longer
    for start, end in cuts((utf8_size(string) + 4 for string in strings), TEXT, TEXT):
        yield symbol_service_pb2.GetLineTableResponse(strings=strings[start:end])
    for start in range(0, len(table), ROWS):
        yield symbol_service_pb2.GetLineTableResponse(rows=_rows(table.part(start, start + ROWS)))


def from_chunks(chunks: Iterable[symbol_service_pb2.GetLineTableResponse]) -> Iterator[LineTable]:
    """The tables of a stream. Raises ``Malformed`` when chunks contradict their header, or a number stands for
    nothing."""
    for group in by_header(chunks):
        yield _table(group)


def _rows(part: LineTable) -> line_table_pb2.LineRows:
    columns = {name: pack(getattr(part, name)) for name in COLUMNS}
    columns["text_section"] = pack(part.text_section + np.uint32(1))
    if part.text is not None:
        columns["text"] = pack(part.text)
    return line_table_pb2.LineRows(count=len(part), **columns)


def _table(chunks: Sequence[symbol_service_pb2.GetLineTableResponse]) -> LineTable:
    header = chunks[0].header
    columns = {name: _column(chunks, name, kind) for name, kind in COLUMNS.items()}
    columns["text_section"] = _sections(chunks)
    if any(chunk.rows.text for chunk in chunks):
        columns["text"] = _column(chunks, "text", np.uint32)
    if not chunks[0].HasField("header") or len(columns["offset"]) != header.row_count:
        raise Malformed("the rows of a line table are not as many as its header says")
    sections = [from_text_section(section) for chunk in chunks for section in chunk.text_sections][1:]
    strings = [string for chunk in chunks for string in chunk.strings]
    check_below(columns["text_section"], len(sections), "text section")
    for name in columns.keys() & _TEXTS:
        check_below(columns[name], len(strings), f"string for the {name}")
    return LineTable(
        path=ObjectPath(header.code_object),
        target=header.target if header.HasField("target") else None,
        text_sections=sections,
        strings=strings,
        **columns,
    )


def _sections(chunks: Sequence[symbol_service_pb2.GetLineTableResponse]) -> NDArray[np.uint32]:
    """The column of text sections as ``LineTable`` numbers them: from 0, because every row lies in one."""
    numbers = _column(chunks, "text_section", np.uint32)
    if len(numbers) and not numbers.all():
        raise Malformed("a row of a line table lies in no text section")
    return numbers - np.uint32(1)


def _column(
    chunks: Sequence[symbol_service_pb2.GetLineTableResponse], name: str, kind: type[np.unsignedinteger[Any]]
) -> NDArray[Any]:
    parts = [unpack(getattr(chunk.rows, name), chunk.rows.count, kind) for chunk in chunks if chunk.HasField("rows")]
    return np.concatenate(parts) if parts else np.zeros(0, kind)


def write_within(request: Any, within: CodePart | None) -> None:
    """The part into a request that has none. Raises ``BadQuery`` for what does not fit its fields."""
    if isinstance(within, str):
        try:
            request.function = within
        except ValueError:  # also of Unicode
            raise BadQuery("this name is not UTF-8", where=within, hint="pass text that UTF-8 can say") from None
    elif isinstance(within, Around):
        request.around.CopyFrom(to_any_query(within.query))
        request.before, request.after = within.before, within.after
    elif within is not None:
        request.section_range.CopyFrom(to_range(within))


def from_within(request: Any) -> CodePart | None:
    """The part that a request names. Raises ``InvalidInput``."""
    kind = request.WhichOneof("within")
    if (request.before or request.after) and kind != "around":
        raise wrong_field("before" if request.before else "after", "before and after count from a place", "set around")
    if kind is None:
        return None
    if kind == "function":
        name: str = request.function
        return name
    if kind == "section_range":
        return from_range(request.section_range)
    for name, count in (("before", request.before), ("after", request.after)):
        if count > MOST_AROUND:
            raise wrong_field(name, f"{count} are asked for", f"ask for at most {MOST_AROUND}")
    return Around(from_any_query(request.around, "around"), request.before, request.after)

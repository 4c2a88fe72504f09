"""Line tables as a stream of chunks: a header, then text sections and strings, then rows. Listings likewise, a header
and then instructions with the locations that they come from; and texts of source files, a header a file and then its
text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery, LimitExceeded, Malformed
from symd.model.answers import Answers
from symd.model.arguments import is_in_memory
from symd.model.identities import ObjectPath
from symd.model.line_tables import (
    MOST_AROUND,
    Around,
    CodePart,
    LineLevel,
    LineTable,
    Listing,
    ListingPart,
    RowsInParts,
)
from symd.model.sources import SourceText, TextOrigin
from symd.model.texts import utf8_size
from symd.rpc.wire.answers import from_columns, from_range, from_text_section, to_columns, to_range, to_text_section
from symd.rpc.wire.columns import check_below, concatenated, pack, unpack
from symd.rpc.wire.fields import (
    by_header,
    chunks_of,
    cuts,
    digest_and_path,
    module_digest,
    module_name,
    optional_digest,
    optional_module_name,
    optional_path,
    utf8,
    utf8s,
    wrong_field,
)
from symd.rpc.wire.queries import from_any_query, to_any_query
from symd.v1 import line_table_pb2, location_pb2, symbol_service_pb2
from symd.v1 import listing_service_pb2 as listing_pb

ROWS = 1 << 14
"""Rows in a chunk: below 640 KB whatever their width. A stream keeps some chunks until its client has taken them."""
SECTIONS = 1 << 12
"""Text sections in a chunk."""
TEXT = 1 << 20
"""Bytes of strings, or of instructions' text, in a chunk, give or take one."""

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


INSTRUCTIONS = 8192
"""The most instructions in a chunk."""


def to_listing_request(digest: str, part: ListingPart) -> listing_pb.GetListingRequest:
    name = optional_module_name(digest)
    request = listing_pb.GetListingRequest(module=name, code_object=part.path, target=part.target)
    write_within(request, part.within)
    return request


def from_listing_request(request: listing_pb.GetListingRequest) -> tuple[str, ListingPart]:
    """(the module's digest or "", what of it). Raises ``InvalidInput``."""
    within = from_within(request)
    digest = optional_digest(request.module) if is_in_memory(within) else module_digest(request.module)
    target = request.target if request.HasField("target") else None
    return digest, ListingPart(optional_path(request), within, target)


MOST_TARGETS = 1 << 22
"""The most targets in a chunk."""
INSTRUCTION_BYTES = 200
"""About what an instruction takes beside its text: its place, its location, a Python object."""


def listing_bytes(listing: Listing) -> int:
    """About the bytes of memory that a listing takes."""
    return sum(map(utf8_size, listing.text)) + len(listing.text) * INSTRUCTION_BYTES


def to_listing_chunks(listing: Listing) -> Iterator[listing_pb.GetListingResponse]:
    """The messages of one code object's listing; its header comes with the first instructions."""
    header: listing_pb.ListingHeader | None = listing_pb.ListingHeader(
        code_object=utf8(listing.path),
        target=utf8(listing.target),
        disassembler=utf8(listing.disassembler),
        problem=utf8(listing.problem),
        instruction_count=len(listing),
        module=None if listing.module is None else module_name(listing.module),
        section_device_address=listing.section_device_address,
    )
    for start, end in cuts(map(utf8_size, listing.text), INSTRUCTIONS, TEXT):
        rows = listing_pb.ListingRows(
            answers=to_columns(_part(listing.answers, slice(start, end))),
            size_bytes=pack(listing.size[start:end]),
            texts=utf8s(listing.text[start:end]),
            code=b"".join(listing.code[start:end]),
            flags=pack(np.array(listing.flow[start:end], np.uint8)),
            target_counts=pack(np.array([len(each) for each in listing.targets[start:end]], np.uint32)),
            targets=pack(np.array([at for each in listing.targets[start:end] for at in each], np.uint64)),
        )
        yield listing_pb.GetListingResponse(header=header, rows=rows)
        header = None
    if header is not None:
        yield listing_pb.GetListingResponse(header=header)


def _part(answers: Answers, rows: slice) -> Answers:
    return Answers(
        answers.location[rows],
        answers.text_section[rows],
        answers.offset[rows],
        answers.locations,
        answers.text_sections,
    )


def from_listing_chunks(chunks: Iterable[listing_pb.GetListingResponse]) -> Iterator[Listing]:
    """The listings of a stream. Raises ``Malformed`` when chunks contradict their header."""
    for group in by_header(chunks):
        yield _listing(group)


def _listing(chunks: Sequence[listing_pb.GetListingResponse]) -> Listing:
    header = chunks[0].header
    rows = [chunk.rows for chunk in chunks if chunk.HasField("rows")] or [listing_pb.ListingRows()]
    text = [text for each in rows for text in each.texts]
    answers = concatenated([from_columns(each.answers) for each in rows])
    size = np.concatenate([_sizes(each) for each in rows])
    if not chunks[0].HasField("header") or not len(answers) == len(text) == header.instruction_count:
        raise Malformed("the instructions of a listing are not as many as its header says")
    code = [code for each in rows for code in _codes(each)]
    if len(code) not in (0, len(text)):
        raise Malformed("some instructions of a listing have no bytes")
    return Listing(
        path=ObjectPath(header.code_object),
        target=header.target if header.HasField("target") else None,
        disassembler=header.disassembler,
        answers=answers,
        size=size,
        text=text,
        problem=header.problem,
        code=code,
        flow=[flow for each in rows for flow in unpack(each.flags, each.answers.count, np.uint8).tolist()],
        targets=[targets for each in rows for targets in _targets(each)],
        module=module_digest(header.module) if header.module else None,
        section_device_address=header.section_device_address if header.HasField("section_device_address") else None,
    )


def _codes(rows: listing_pb.ListingRows) -> Iterator[bytes]:
    if not rows.code:
        return iter(())
    ends = np.cumsum(_sizes(rows), dtype=np.uint64).tolist()
    if len(rows.code) != (ends[-1] if ends else 0):
        raise Malformed("the bytes of instructions are not as many as their sizes say")
    return (rows.code[start:end] for start, end in zip([0, *ends], ends, strict=False))


def _targets(rows: listing_pb.ListingRows) -> Iterator[tuple[int, ...]]:
    counts = unpack(rows.target_counts, rows.answers.count, np.uint32)
    ends = np.cumsum(counts, dtype=np.uint64).tolist()
    if ends and ends[-1] > MOST_TARGETS:
        raise Malformed("the targets of instructions are more than a message holds")
    found = unpack(rows.targets, ends[-1] if ends else 0, np.uint64).tolist()
    return (tuple(found[start:end]) for start, end in zip([0, *ends], ends, strict=False))


def _sizes(rows: listing_pb.ListingRows) -> NDArray[Any]:
    return unpack(rows.size_bytes, rows.answers.count, np.uint32)


CHUNK = 1 << 20
"""Bytes of text in a message."""
FILES = 10_000
"""Files in one request."""


def from_sources_request(request: listing_pb.ReadSourcesRequest) -> tuple[str, Sequence[str], str | None]:
    """(the module's digest, the files, the code object's path or None). Raises ``LimitExceeded`` for too many files,
    and ``BadQuery``."""
    if len(request.files) > FILES:
        raise LimitExceeded(
            f"{len(request.files)} files are asked for, at most {FILES} are answered",
            hint="ask twice",
            metadata={"limit": "source_files", "value": str(FILES)},
        )
    digest, path = digest_and_path(request)
    return digest, request.files, path


def to_source_chunks(source: SourceText) -> Iterator[listing_pb.ReadSourcesResponse]:
    """The messages of one file; its header comes with the first text."""
    header: listing_pb.SourceFile | None = listing_pb.SourceFile(
        file=utf8(source.file),
        origin=int(source.origin),  # type: ignore[arg-type] # the enum's numbers are TextOrigin's own
        disk_path=utf8(source.path),
        md5=source.md5,
        problem=utf8(source.problem),
    )
    for chunk in chunks_of((source.text or "").encode("utf-8", "replace"), CHUNK):
        yield listing_pb.ReadSourcesResponse(source=header, chunk=chunk)
        header = None
    if header is not None:
        yield listing_pb.ReadSourcesResponse(source=header)


def from_source_chunks(chunks: Iterable[listing_pb.ReadSourcesResponse]) -> Iterator[SourceText]:
    """The files of a stream."""
    header: listing_pb.SourceFile | None = None
    text: list[bytes] = []
    for chunk in chunks:
        if chunk.HasField("source"):
            if header is not None:
                yield _source(header, b"".join(text))
            header, text = chunk.source, []
        text.append(chunk.chunk)
    if header is not None:
        yield _source(header, b"".join(text))


def _source(header: listing_pb.SourceFile, text: bytes) -> SourceText:
    origin = TextOrigin(header.origin)
    return SourceText(
        header.file,
        None if origin is TextOrigin.NONE else text.decode("utf-8", "replace"),
        origin,
        header.disk_path if header.HasField("disk_path") else None,
        header.md5 if header.HasField("md5") else None,
        header.problem,
    )

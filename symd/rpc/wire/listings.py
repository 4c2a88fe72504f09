"""Listings as a stream of chunks, a header and then instructions with the locations that they come from; and texts of
source files likewise, a header a file and then its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.errors import LimitExceeded, Malformed
from symd.model.answers import Answers
from symd.model.arguments import is_in_memory
from symd.model.identities import ObjectPath
from symd.model.line_tables import Listing, ListingPart
from symd.model.sources import SourceText, TextOrigin
from symd.model.texts import utf8_size
from symd.rpc.wire.answers import from_columns, to_columns
from symd.rpc.wire.columns import concatenated, pack, unpack
from symd.rpc.wire.fields import (
    by_header,
    chunks_of,
    cuts,
    digest_and_path,
    module_digest,
    module_name,
    optional_digest,
    optional_path,
    utf8,
    utf8s,
)
from symd.rpc.wire.line_tables import from_within, write_within
from symd.v1 import listing_service_pb2 as pb

ROWS = 8192
"""The most instructions in a chunk."""
TEXT = 1 << 20
"""The most bytes of instructions' text in a chunk, give or take one instruction."""


def to_request(digest: str, part: ListingPart) -> pb.GetListingRequest:
    name = module_name(digest) if digest else ""
    request = pb.GetListingRequest(module=name, code_object=part.path, target=part.target)
    write_within(request, part.within)
    return request


def from_request(request: pb.GetListingRequest) -> tuple[str, ListingPart]:
    """(the module's digest or "", what of it). Raises ``InvalidInput``."""
    within = from_within(request)
    digest = optional_digest(request.module) if is_in_memory(within) else module_digest(request.module)
    target = request.target if request.HasField("target") else None
    return digest, ListingPart(optional_path(request), within, target)


MOST_TARGETS = 1 << 22
"""The most targets in a chunk."""
INSTRUCTION_BYTES = 200
"""About what an instruction takes beside its text: its place, its location, a Python object."""


def size_of(listing: Listing) -> int:
    """About the bytes of memory that a listing takes."""
    return sum(map(utf8_size, listing.text)) + len(listing.text) * INSTRUCTION_BYTES


def to_chunks(listing: Listing) -> Iterator[pb.GetListingResponse]:
    """The messages of one code object's listing; its header comes with the first instructions."""
    header: pb.ListingHeader | None = pb.ListingHeader(
        code_object=utf8(listing.path),
        target=utf8(listing.target),
        disassembler=utf8(listing.disassembler),
        problem=utf8(listing.problem),
        instruction_count=len(listing),
        module=None if listing.module is None else module_name(listing.module),
        section_device_address=listing.section_device_address,
    )
    for start, end in cuts(map(utf8_size, listing.text), ROWS, TEXT):
        rows = pb.ListingRows(
            answers=to_columns(_part(listing.answers, slice(start, end))),
            size_bytes=pack(listing.size[start:end]),
            texts=utf8s(listing.text[start:end]),
            code=b"".join(listing.code[start:end]),
            flags=pack(np.array(listing.flow[start:end], np.uint8)),
            target_counts=pack(np.array([len(each) for each in listing.targets[start:end]], np.uint32)),
            targets=pack(np.array([at for each in listing.targets[start:end] for at in each], np.uint64)),
        )
        yield pb.GetListingResponse(header=header, rows=rows)
        header = None
    if header is not None:
        yield pb.GetListingResponse(header=header)


def _part(answers: Answers, rows: slice) -> Answers:
    return Answers(
        answers.location[rows],
        answers.text_section[rows],
        answers.offset[rows],
        answers.locations,
        answers.text_sections,
    )


def from_chunks(chunks: Iterable[pb.GetListingResponse]) -> Iterator[Listing]:
    """The listings of a stream. Raises ``Malformed`` when chunks contradict their header."""
    for group in by_header(chunks):
        yield _listing(group)


def _listing(chunks: Sequence[pb.GetListingResponse]) -> Listing:
    header = chunks[0].header
    rows = [chunk.rows for chunk in chunks if chunk.HasField("rows")] or [pb.ListingRows()]
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


def _codes(rows: pb.ListingRows) -> Iterator[bytes]:
    if not rows.code:
        return iter(())
    ends = np.cumsum(_sizes(rows), dtype=np.uint64).tolist()
    if len(rows.code) != (ends[-1] if ends else 0):
        raise Malformed("the bytes of instructions are not as many as their sizes say")
    return (rows.code[start:end] for start, end in zip([0, *ends], ends, strict=False))


def _targets(rows: pb.ListingRows) -> Iterator[tuple[int, ...]]:
    counts = unpack(rows.target_counts, rows.answers.count, np.uint32)
    ends = np.cumsum(counts, dtype=np.uint64).tolist()
    if ends and ends[-1] > MOST_TARGETS:
        raise Malformed("the targets of instructions are more than a message holds")
    found = unpack(rows.targets, ends[-1] if ends else 0, np.uint64).tolist()
    return (tuple(found[start:end]) for start, end in zip([0, *ends], ends, strict=False))


def _sizes(rows: pb.ListingRows) -> NDArray[Any]:
    return unpack(rows.size_bytes, rows.answers.count, np.uint32)


CHUNK = 1 << 20
"""Bytes of text in a message."""
FILES = 10_000
"""Files in one request."""


def from_sources_request(request: pb.ReadSourcesRequest) -> tuple[str, Sequence[str], str | None]:
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


def to_source_chunks(source: SourceText) -> Iterator[pb.ReadSourcesResponse]:
    """The messages of one file; its header comes with the first text."""
    header: pb.SourceFile | None = pb.SourceFile(
        file=utf8(source.file),
        origin=int(source.origin),  # type: ignore[arg-type] # the enum's numbers are TextOrigin's own
        disk_path=utf8(source.path),
        md5=source.md5,
        problem=utf8(source.problem),
    )
    for chunk in chunks_of((source.text or "").encode("utf-8", "replace"), CHUNK):
        yield pb.ReadSourcesResponse(source=header, chunk=chunk)
        header = None
    if header is not None:
        yield pb.ReadSourcesResponse(source=header)


def from_source_chunks(chunks: Iterable[pb.ReadSourcesResponse]) -> Iterator[SourceText]:
    """The files of a stream."""
    header: pb.SourceFile | None = None
    text: list[bytes] = []
    for chunk in chunks:
        if chunk.HasField("source"):
            if header is not None:
                yield _source(header, b"".join(text))
            header, text = chunk.source, []
        text.append(chunk.chunk)
    if header is not None:
        yield _source(header, b"".join(text))


def _source(header: pb.SourceFile, text: bytes) -> SourceText:
    origin = TextOrigin(header.origin)
    return SourceText(
        header.file,
        None if origin is TextOrigin.NONE else text.decode("utf-8", "replace"),
        origin,
        header.disk_path if header.HasField("disk_path") else None,
        header.md5 if header.HasField("md5") else None,
        header.problem,
    )

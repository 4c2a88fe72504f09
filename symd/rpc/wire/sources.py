"""Texts of source files as a stream of chunks: a header a file, then its text in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from symd.errors import LimitExceeded
from symd.model.sources import SourceText, TextOrigin
from symd.rpc.wire.fields import chunks_of, digest_and_path, utf8
from symd.v1 import listing_service_pb2 as pb

CHUNK = 1 << 20
"""Bytes of text in a message."""
FILES = 10_000
"""Files in one request."""


def from_request(request: pb.ReadSourcesRequest) -> tuple[str, Sequence[str], str | None]:
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


def to_chunks(source: SourceText) -> Iterator[pb.ReadSourcesResponse]:
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


def from_chunks(chunks: Iterable[pb.ReadSourcesResponse]) -> Iterator[SourceText]:
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

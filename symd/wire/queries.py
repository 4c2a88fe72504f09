"""Queries one by one, and packed columns of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from symd.errors import BadQuery
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, Query, SectionOffset
from symd.model.columns import U64
from symd.v1 import query_pb2
from symd.v1.symbol_service_pb2 import SymbolizeRequest
from symd.wire.columns import WIDTHS

TOP = 1 << 64
NARROW = 1 << 32


class Column(NamedTuple):
    """Many addresses of one kind: kernel offsets when ``kernel`` is given, section offsets when ``section`` is,
    object addresses otherwise."""

    values: U64
    kernel: str | None = None
    section: str | int | None = None


def to_query(query: Query) -> query_pb2.Query:
    """Raises ``BadQuery`` for a number outside 64 bits."""
    return add_query(SymbolizeRequest().queries, query)


def add_query(queries: Any, query: Query) -> query_pb2.Query:
    """The same, appended to a field of queries, where it need not be copied."""
    try:
        if isinstance(query, ByAddress):
            message: query_pb2.Query = queries.add(address=query.address)
        elif isinstance(query, ByKernel):
            message = queries.add(kernel_offset=query_pb2.KernelOffset(kernel=query.kernel, offset=query.offset))
        elif isinstance(query.section, str):
            place = query_pb2.SectionOffset(section_name=query.section, offset=query.offset)
            message = queries.add(section_offset=place)
        else:
            place = query_pb2.SectionOffset(section_index=int(query.section), offset=query.offset)
            message = queries.add(section_offset=place)
    except ValueError:
        raise BadQuery(f"{query} does not fit", hint="addresses have 64 bits, section numbers 32") from None
    return message


def from_query(message: query_pb2.Query) -> Query:
    """Raises ``BadQuery`` when no kind of address is set."""
    kind = message.WhichOneof("kind")
    if kind == "address":
        return ByAddress(ObjectAddress(message.address))
    if kind == "kernel_offset":
        in_kernel = message.kernel_offset
        return ByKernel(in_kernel.kernel, KernelOffset(in_kernel.offset))
    if kind == "section_offset":
        in_section = message.section_offset
        return BySection(from_section(in_section), SectionOffset(in_section.offset))
    raise BadQuery("a query has no address", hint="set address, kernel_offset or section_offset")


def from_queries(messages: Iterable[query_pb2.Query]) -> list[Query]:
    return [from_query(message) for message in messages]


def from_section(message: query_pb2.SectionOffset | query_pb2.SectionOffsetColumn) -> str | int:
    match message.WhichOneof("section"):
        case "section_name":
            return message.section_name
        case "section_index":
            return message.section_index
    raise BadQuery("a section offset names no section", hint="set section_name or section_index")


def write_column(message: query_pb2.QueryColumn, column: Column) -> None:
    """The packed column into an empty message, in 4 bytes a number where they fit. Raises ``BadQuery`` for a name or number
    that cannot be."""
    width = 4 if not len(column.values) or column.values.max() < NARROW else 8
    packed = column.values.astype(WIDTHS[width], copy=False).tobytes()
    message.width = width
    kernel, section = column.kernel, column.section
    try:
        if kernel is not None:
            message.kernel_offsets.kernel = kernel
            message.kernel_offsets.offsets = packed
        elif section is not None:
            name, index = (section, None) if isinstance(section, str) else (None, section)
            part = query_pb2.SectionOffsetColumn(section_name=name, section_index=index)
            message.section_offsets.MergeFrom(part)
            message.section_offsets.offsets = packed
        else:
            message.addresses = packed
    except ValueError:
        raise BadQuery(f"{kernel or section!r} names no kernel or section") from None


def from_column(message: query_pb2.QueryColumn) -> Column:
    """Raises ``BadQuery`` when nothing is set, the width is none, or the bytes are no multiple of it."""
    match message.WhichOneof("kind"):
        case "addresses":
            return Column(numbers(message.addresses, message.width))
        case "kernel_offsets":
            part = message.kernel_offsets
            return Column(numbers(part.offsets, message.width), kernel=part.kernel)
        case "section_offsets":
            offsets = numbers(message.section_offsets.offsets, message.width)
            return Column(offsets, section=from_section(message.section_offsets))
    raise BadQuery("a column has no addresses", hint="set addresses, kernel_offsets or section_offsets")


def column_length(message: query_pb2.QueryColumn) -> int:
    """How many numbers a column has, without looking at them."""
    kind = message.WhichOneof("kind")
    if kind is None:
        return 0
    part = getattr(message, kind)
    return len(part if kind == "addresses" else part.offsets) // (message.width or 8)


def numbers(packed: bytes, width: int) -> U64:
    """The numbers of a packed column. Raises ``BadQuery`` when the bytes are no multiple of the width."""
    kind = WIDTHS.get(width or 8)
    if kind is None or len(packed) % kind.itemsize:
        raise BadQuery(
            f"{len(packed)} bytes are not a column of {width or 8}-byte numbers",
            hint="width is 1, 2, 4 or 8 (0 means 8), and the bytes a multiple of it",
        )
    column: U64 = np.frombuffer(packed, kind).astype(np.uint64, copy=False)
    return column

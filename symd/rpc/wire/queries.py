"""Queries one by one, and columns of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from symd.errors import BadQuery
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, Query, SectionOffset
from symd.model.arguments import wrong_query
from symd.model.columns import U64
from symd.rpc.wire.columns import KINDS, WIDTHS, column_width
from symd.rpc.wire.fields import bad_field
from symd.v1 import query_pb2
from symd.v1.symbol_service_pb2 import SymbolizeRequest

NARROW = 1 << 32
"""Numbers below this travel in 4 bytes."""


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
        elif not isinstance(query, BySection):
            raise wrong_query(query)
        elif isinstance(query.section, str):
            where = query_pb2.SectionOffset(section_name=query.section, offset=query.offset)
            message = queries.add(section_offset=where)
        else:
            where = query_pb2.SectionOffset(section_index=int(query.section), offset=query.offset)
            message = queries.add(section_offset=where)
    except UnicodeEncodeError as error:
        raise BadQuery("this name is not UTF-8", where=error.object, hint="pass text that UTF-8 can say") from None
    except ValueError:
        raise BadQuery(f"{query} does not fit", hint="addresses have 64 bits, section numbers 32") from None
    return message


def from_query(message: query_pb2.Query, field: str = "queries") -> Query:
    """Raises ``BadQuery`` when no kind of address is set in the query, which stands in the request's ``field``."""
    kind = message.WhichOneof("kind")
    if kind == "address":
        return ByAddress(ObjectAddress(message.address))
    if kind == "kernel_offset":
        in_kernel = message.kernel_offset
        return ByKernel(in_kernel.kernel, KernelOffset(in_kernel.offset))
    if kind == "section_offset":
        in_section = message.section_offset
        return BySection(_section(in_section, field), SectionOffset(in_section.offset))
    raise bad_field(field, "a query has no address", "set address, kernel_offset or section_offset")


def from_queries(messages: Iterable[query_pb2.Query]) -> list[Query]:
    return [from_query(message) for message in messages]


def _section(message: query_pb2.SectionOffset, field: str) -> str | int:
    match message.WhichOneof("section"):
        case "section_name":
            return message.section_name
        case "section_index":
            return message.section_index
    raise bad_field(field, "a section offset names no section", "set section_name or section_index")


def write_column(message: query_pb2.QueryColumn, column: Column) -> None:
    """The column into an empty message, in 4 bytes a number where they fit. Raises ``BadQuery`` for a name or number that
    cannot be."""
    width = 4 if not len(column.values) or column.values.max() < NARROW else 8
    message.count = len(column.values)
    message.values = column.values.astype(WIDTHS[width], copy=False).tobytes()
    try:
        if column.kernel is not None:
            message.kernel = column.kernel
        elif isinstance(column.section, str):
            message.section_name = column.section
        elif column.section is not None:
            message.section_index = column.section
    except ValueError:
        raise BadQuery(f"{column.kernel or column.section!r} names no kernel or section") from None


def from_column(message: query_pb2.QueryColumn) -> Column:
    """Raises ``BadQuery`` when the bytes are no column of so many numbers."""
    values = from_numbers(message.values, message.count, "column.values")
    match message.WhichOneof("origin"):
        case "kernel":
            return Column(values, kernel=message.kernel)
        case "section_name":
            return Column(values, section=message.section_name)
        case "section_index":
            return Column(values, section=message.section_index)
    return Column(values)


def from_numbers(packed: bytes, count: int, field: str) -> U64:
    """The ``count`` numbers of a column that a request has in ``field``. Raises ``BadQuery``."""
    if not packed:
        return np.zeros(count, np.uint64)
    width = column_width(packed, count)
    if width is None:
        raise bad_field(
            field,
            f"{len(packed)} bytes are not a column of {count} numbers",
            "count says how many numbers there are; each has 1, 2, 4 or 8 bytes",
        )
    numbers: U64 = np.frombuffer(packed, WIDTHS[width]).astype(KINDS[np.uint64], copy=False)
    return numbers

"""Queries one by one, and columns of them.

A handful of answers that came as rows, as a batch of answers.

Batches of addresses as they are asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from symd.errors import BadQuery, LimitExceeded
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, Query, SectionOffset
from symd.model.answers import Answer, Answers, Candidate, Frame, Locations, TextSection
from symd.model.arguments import wrong_query
from symd.model.columns import U32, U64
from symd.model.identities import ObjectPath
from symd.rpc.wire.columns import KINDS, WIDTHS, column_width
from symd.rpc.wire.fields import bad_field, digest_and_path, wrong_field
from symd.v1 import query_pb2
from symd.v1.symbol_service_pb2 import ANSWER_FORM_COLUMNS, ANSWER_FORM_ROWS, SymbolizeRequest

NARROW = 1 << 32
"""Numbers below this travel in 4 bytes."""


class AddressColumn(NamedTuple):
    """Many addresses of one kind: kernel offsets when ``kernel`` is given, section offsets when ``section`` is,
    object addresses otherwise."""

    values: U64
    kernel: str | None = None
    section: str | int | None = None


def to_query(query: Query) -> query_pb2.Query:
    """Raises ``BadQuery`` for a number outside 64 bits."""
    return add_query(SymbolizeRequest().queries, query)


def add_query(queries: Any, query: Query) -> query_pb2.Query:
    """Append a query to a field of queries, where it need not be copied. Raises ``BadQuery`` for a number outside 64 bits and a name that is not UTF-8."""
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


def write_column(message: query_pb2.QueryColumn, column: AddressColumn) -> None:
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


def from_column(message: query_pb2.QueryColumn) -> AddressColumn:
    """Raises ``BadQuery`` when the bytes are no column of so many numbers."""
    values = from_numbers(message.values, message.count, "column.values")
    match message.WhichOneof("origin"):
        case "kernel":
            return AddressColumn(values, kernel=message.kernel)
        case "section_name":
            return AddressColumn(values, section=message.section_name)
        case "section_index":
            return AddressColumn(values, section=message.section_index)
    return AddressColumn(values)


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


class RowAnswers(Answers):
    """A handful of answers that came as rows. Most who ask one question want its answer: columns are made for who
    asks for columns."""

    __slots__ = ("_answers", "_columns")
    _answers: Sequence[Answer]
    _columns: Answers

    def __init__(self, answers: Sequence[Answer]) -> None:
        object.__setattr__(self, "_answers", answers)

    def __len__(self) -> int:
        return len(self._answers)

    def __getitem__(self, at: Any) -> Any:
        return self._answers[at]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def __reduce__(self) -> tuple[type[RowAnswers], tuple[Sequence[Answer]]]:
        return RowAnswers, (self._answers,)

    @property
    def columns(self) -> Answers:
        if not hasattr(self, "_columns"):
            object.__setattr__(self, "_columns", as_columns(self._answers))
        return self._columns

    @property
    def location(self) -> U32:
        return self.columns.location

    @property
    def text_section(self) -> U32:
        return self.columns.text_section

    @property
    def offset(self) -> U64:
        return self.columns.offset

    @property
    def locations(self) -> Locations:
        return self.columns.locations

    @property
    def text_sections(self) -> Sequence[TextSection]:
        return self.columns.text_sections

    @property
    def candidates(self) -> Mapping[int, tuple[Candidate, ...]]:
        return self.columns.candidates


def as_columns(answers: Sequence[Answer]) -> Answers:
    """A few answers as a batch of answers, in columns; a location that several have is there several times. It works one by one."""
    table = _Table()
    sections: dict[TextSection, int] = {}
    location = [table.add(answer) for answer in answers]
    section = [
        sections.setdefault(_text_section(answer), len(sections) + 1) if answer.address is not None else 0
        for answer in answers
    ]
    offset = [answer.section_offset or 0 for answer in answers]
    candidates = {number: answer.candidates for number, answer in enumerate(answers) if answer.candidates}
    columns = np.array(location, np.uint32), np.array(section, np.uint32), np.array(offset, np.uint64)
    return Answers(*columns, table.locations(), list(sections), candidates)


def _text_section(answer: Answer) -> TextSection:
    start = (answer.address or 0) - (answer.section_offset or 0)
    return TextSection(answer.path or ObjectPath(""), answer.section, answer.section_index or 0, start)


class _Table:
    """Locations while they are gathered: a row holds the columns of ``Locations`` in their order."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = [(0,) * 10]
        self._strings: dict[str, int] = {"": 0}

    def add(self, answer: Answer) -> int:
        """The number of the answer's location; those around it come before it."""
        reason, kernel = int(answer.reason), self._string(answer.kernel)
        if not answer.frames:
            return self._add((reason, kernel, 0, 0, 0, 0, 0, 0, 0, 0))
        number = 0
        for frame in reversed(answer.frames):
            number = self._add((reason, kernel, *self._frame(frame), number))
        return number

    def _frame(self, frame: Frame) -> tuple[int, ...]:
        names = self._string(frame.function), self._string(frame.linkage_name), self._string(frame.file)
        return (*names, frame.line, frame.column, int(frame.inlined), frame.start_line)

    def _add(self, row: tuple[int, ...]) -> int:
        self._rows.append(row)
        return len(self._rows) - 1

    def _string(self, text: str | None) -> int:
        return self._strings.setdefault(text or "", len(self._strings))

    def locations(self) -> Locations:
        reason, kernel, function, linkage, file, line, column, inlined, start_line, parent = np.array(
            self._rows, np.uint32
        ).T
        strings = list(self._strings)
        bits = inlined.astype(np.uint8)
        columns = reason.astype(np.uint8), kernel, function, linkage, file, line, column, bits, parent
        return Locations(*columns, strings, start_line=start_line)


class Batch(NamedTuple):
    """Addresses in the module ``digest``, or in its code object at ``path``: one by one as ``queries`` or, where that is not
    None, as a ``column``. ``as_columns`` says how the answers are wanted. ``known_tables`` are the names of the tables that
    the client has kept; None: it keeps none. ``as_written``: what rows and scopes say, unreconciled."""

    digest: str
    path: str | None
    queries: Sequence[Query]
    column: AddressColumn | None
    as_columns: bool
    known_tables: Collection[bytes] | None
    as_written: bool


def from_request(request: SymbolizeRequest, most: int) -> Batch:
    """Raises ``LimitExceeded`` for more than ``most`` addresses before it looks at them, and ``InvalidInput``."""
    digest, path = digest_and_path(request)
    form = request.form
    known = request.known_tables if request.keeps_tables else None
    if not request.HasField("column"):
        check_count(len(request.queries), most)
        queries, as_columns = from_queries(request.queries), form == ANSWER_FORM_COLUMNS
        return Batch(digest, path, queries, None, as_columns, known, request.as_written)
    if request.queries:
        raise wrong_field("queries", "a batch has both queries and a column", "send one of them")
    check_count(request.column.count, most)
    column, as_columns = from_column(request.column), form != ANSWER_FORM_ROWS
    return Batch(digest, path, (), column, as_columns, known, request.as_written)


def check_count(count: int, most: int) -> None:
    """Raises ``LimitExceeded`` for a batch of more than ``most`` addresses."""
    if count > most:
        raise LimitExceeded(
            f"the batch has {count} addresses, at most {most} are taken",
            hint="send several batches",
            metadata={"limit": "batch", "value": str(most)},
        )

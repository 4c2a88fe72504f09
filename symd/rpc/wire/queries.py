"""Queries and address columns to messages and back, and few answers that came as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from symd.errors import BadQuery, LimitExceeded
from symd.model.addresses import (
    LATEST_TIME,
    ByAddress,
    ByDevice,
    ByKernel,
    BySection,
    DeviceAddress,
    KernelOffset,
    ObjectAddress,
    Query,
    SectionOffset,
    wrong_query,
)
from symd.model.answers import Answer, Answers, Frame, Locations, TextSection
from symd.model.arguments import ColumnQuestion
from symd.model.columns import U64
from symd.model.contexts import WHOLE_ADDRESS, AddressForm, Origin, Times
from symd.model.identities import Digest, ObjectPath, checked_digest
from symd.rpc.wire.columns import KINDS, WIDTHS, column_width, pack
from symd.rpc.wire.fields import (
    bad_field,
    context_id,
    context_name,
    module_digest,
    module_name,
    optional_digest,
    optional_path,
    wrong_field,
)
from symd.v1 import query_pb2
from symd.v1.symbol_service_pb2 import ANSWER_FORM_PACKED, ANSWER_FORM_ROWS, SymbolizeRequest


def to_query(query: Query) -> query_pb2.Query:
    """Raises ``BadQuery`` for a number outside 64 bits."""
    return add_query(SymbolizeRequest().queries, query)


def add_query(queries: Any, query: Query) -> query_pb2.Query:
    """Append a query to a field of queries, where it need not be copied. Raises ``BadQuery`` for a number outside 64
    bits and a name that is not UTF-8."""
    try:
        if isinstance(query, ByAddress):
            message: query_pb2.Query = queries.add(address=query.address)
        elif isinstance(query, ByKernel):
            message = queries.add(function_offset=query_pb2.FunctionOffset(function=query.kernel, offset=query.offset))
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
    """Raises ``BadQuery`` when no kind of address is set in the query, which is in the request's ``field``."""
    kind = message.WhichOneof("kind")
    if kind == "address":
        return ByAddress(ObjectAddress(message.address))
    if kind == "function_offset":
        in_function = message.function_offset
        return ByKernel(in_function.function, KernelOffset(in_function.offset))
    if kind == "section_offset":
        in_section = message.section_offset
        return BySection(_section(in_section, field), SectionOffset(in_section.offset))
    if kind == "device_address":
        raise bad_field(
            field, "a device address cannot be asked for here", "ask by address, function_offset or section_offset"
        )
    raise bad_field(field, "a query has no address", "set address, function_offset, section_offset or device_address")


def from_any_query(message: query_pb2.Query, field: str = "queries") -> Query | ByDevice:
    """A query of any kind, also of a device address, which is in the request's ``field``. Raises ``BadQuery`` when
    no kind is set."""
    if message.WhichOneof("kind") != "device_address":
        return from_query(message, field)
    device = message.device_address
    context = context_id(device.context, f"{field}.device_address.context")
    return ByDevice(context, DeviceAddress(device.address), device.time_ns if device.HasField("time_ns") else None)


def to_any_query(query: Query | ByDevice) -> query_pb2.Query:
    """A query, also of a device address. Raises ``BadQuery`` for a number outside 64 bits."""
    return add_any_query(SymbolizeRequest().queries, query)


def add_any_query(queries: Any, query: Query | ByDevice) -> query_pb2.Query:
    """Append a query, also of a device address, to a field of queries. Raises ``BadQuery`` for a number outside 64 bits
    and a name that is not UTF-8."""
    if not isinstance(query, ByDevice):
        return add_query(queries, query)
    context = context_name(query.context.removeprefix("contexts/"))
    try:
        where = query_pb2.DeviceAddress(context=context, address=query.address, time_ns=query.time)
        message: query_pb2.Query = queries.add(device_address=where)
    except ValueError:
        raise BadQuery(f"{query} does not fit", hint="addresses and times have 64 bits") from None
    return message


def _section(message: query_pb2.SectionOffset, field: str) -> str | int:
    match message.WhichOneof("section"):
        case "section_name":
            return message.section_name
        case "section_index":
            return message.section_index
    raise bad_field(field, "a section offset names no section", "set section_name or section_index")


def write_column(message: query_pb2.PackedQueries, question: ColumnQuestion) -> None:
    """A column with its origins into an empty message, its numbers as narrow as they go. Raises ``BadQuery`` for a name
    or number that cannot be."""
    message.count = len(question.values)
    message.values = pack(question.values)
    if list(question.origins) != [Origin()]:
        for origin in question.origins:
            _write_origin(message.origins.add(), origin)
    if question.origin is not None:
        message.origin = pack(question.origin)
    if isinstance(question.times, np.ndarray):
        message.times_ns = question.times.astype("<u8").tobytes()
    elif question.times is not None:
        try:
            message.time_ns = question.times
        except ValueError:
            raise BadQuery(f"{question.times} is not a time", hint="times are nanoseconds from 0 on") from None


def _write_origin(message: query_pb2.Origin, origin: Origin) -> None:
    try:
        if origin.module:
            message.module = module_name(checked_digest(origin.module))
        if origin.path is not None:
            message.code_object = origin.path
        if origin.context:
            message.context = context_name(origin.context)
        elif origin.kernel is not None:
            message.function = origin.kernel
        elif isinstance(origin.section, str):
            message.section_name = origin.section
        elif origin.section is not None:
            message.section_index = origin.section
        message.shift = origin.form.shift
        message.known_bits = 0 if origin.form.known_bits == WHOLE_ADDRESS.known_bits else origin.form.known_bits
    except ValueError:
        raise BadQuery(f"{origin} does not fit", hint="names are UTF-8, numbers have 32 bits") from None


def from_column(message: query_pb2.PackedQueries, digest: str = "", path: ObjectPath | None = None) -> ColumnQuestion:
    """The column of a request that names the module ``digest`` ("": none) and its code object at ``path``. Raises
    ``BadQuery`` when the bytes are no column of so many numbers, or a number has no origin."""
    values = from_numbers(message.values, message.count, "packed_queries.values")
    origins = [_from_origin(each, digest, path) for each in message.origins] or [Origin(digest, path)]
    origin = None
    if message.origin:
        origin = from_numbers(message.origin, message.count, "packed_queries.origin").astype(np.uint32)
        top = int(origin.max()) if len(origin) else 0
        if top >= len(origins):
            raise bad_field(
                "packed_queries.origin", f"there is no origin {top}: there are {len(origins)}", "number them from 0"
            )
    return ColumnQuestion(values, origins, origin if len(origins) > 1 else None, _times(message))


def _times(message: query_pb2.PackedQueries) -> Times:
    match message.WhichOneof("as_of"):
        case "time_ns":
            return message.time_ns
        case "times_ns":
            times = from_numbers(message.times_ns, message.count, "packed_queries.times_ns").view(np.int64)
            if len(times) and int(times.min()) < 0:
                raise bad_field(
                    "packed_queries.times_ns", "a time is above 2^63 - 1", "times are nanoseconds, up to 2^63 - 2"
                )
            return times
    return None


def _from_origin(message: query_pb2.Origin, digest: str, path: ObjectPath | None) -> Origin:
    kind = message.WhichOneof("kind")
    if kind == "context":
        form = AddressForm(message.shift, message.known_bits or WHOLE_ADDRESS.known_bits)
        return Origin(context=context_id(message.context, "packed_queries.origins.context"), form=form)
    within = optional_path(message)
    if message.module:
        module = module_digest(message.module, "packed_queries.origins.module")
    elif not digest:
        raise wrong_field(
            "module", "the request names no module, and an origin neither a module nor a context", "name one"
        )
    else:
        module, within = Digest(digest), path if within is None else within
    if kind is None:
        return Origin(module, within)
    if kind == "function":
        return Origin(module, within, kernel=message.function)
    return Origin(module, within, section=message.section_name if kind == "section_name" else message.section_index)


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
    _columns: Answers | None

    def __init__(self, answers: Sequence[Answer]) -> None:
        object.__setattr__(self, "_answers", answers)
        object.__setattr__(self, "_columns", None)

    def __len__(self) -> int:
        return len(self._answers)

    def __getitem__(self, at: Any) -> Any:
        return self._answers[at]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def __reduce__(self) -> tuple[type[RowAnswers], tuple[Sequence[Answer]]]:
        return RowAnswers, (self._answers,)

    def __getattr__(self, name: str) -> Any:
        """A field of ``Answers``, none of which is set here, of the columns that are made when the first is asked
        for."""
        if self._columns is None:
            object.__setattr__(self, "_columns", as_columns(self._answers))
        return getattr(self._columns, name)


def as_columns(answers: Sequence[Answer]) -> Answers:
    """A few answers as a batch of answers, in columns; a location that several have is there several times. It works
    one by one."""
    table = _Table()
    sections: dict[TextSection, int] = {}
    location = [table.add(answer) for answer in answers]
    section = [
        sections.setdefault(_text_section(answer), len(sections) + 1) if answer.address is not None else 0
        for answer in answers
    ]
    offset = [answer.section_offset or 0 for answer in answers]
    candidates = {number: answer.candidates for number, answer in enumerate(answers) if answer.candidates}
    ranges = {number: answer.ranges for number, answer in enumerate(answers) if answer.ranges is not None}
    columns = np.array(location, np.uint32), np.array(section, np.uint32), np.array(offset, np.uint64)
    return Answers(*columns, table.locations(), list(sections), candidates, ranges)


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
    """Addresses in the module ``digest`` ("": none is named), or in its code object at ``path``: ``queries`` one by
    one, or where that is not None, the ``column``, which may also be made of queries for device addresses. ``asked``
    are the queries as they came. ``as_columns`` says how the answers are wanted. ``known_tables`` are the names of the
    tables that the client has kept; None: it keeps none.
    ``as_written``: what rows and scopes say, unreconciled. ``with_ranges``: answers say how far they hold."""

    digest: str
    path: ObjectPath | None
    queries: Sequence[Query]
    column: ColumnQuestion | None
    as_columns: bool
    known_tables: Collection[bytes] | None
    as_written: bool
    asked: Sequence[Query | ByDevice] = ()
    with_ranges: bool = False

    @property
    def one(self) -> Origin | None:
        """What all values of the column count from, where that is in the module that the request names."""
        first = self.column.origins[0] if self.column is not None and len(self.column.origins) == 1 else None
        return first if first is not None and first.module and first.module == self.digest else None


def from_request(request: SymbolizeRequest, most: int) -> Batch:
    """Raises ``LimitExceeded`` for more than ``most`` addresses before it looks at them, and ``InvalidInput``."""
    digest, path = optional_digest(request.module), optional_path(request)
    form, with_ranges = request.form, request.with_ranges
    known = frozenset(request.known_table_ids) if request.keeps_tables else None
    if not request.HasField("packed_queries"):
        check_count(len(request.queries), most)
        asked = [from_any_query(message, f"queries[{number}]") for number, message in enumerate(request.queries)]
        plain = [query for query in asked if not isinstance(query, ByDevice)]
        if not digest and (plain or not asked):
            digest = module_digest(request.module)  # which says what is wrong
        column = None if len(plain) == len(asked) else of_queries(asked, digest, path)
        queries, packed = plain if column is None else (), form == ANSWER_FORM_PACKED
        batch = Batch(digest, path, queries, column, packed, known, request.as_written, asked, with_ranges)
    else:
        if request.queries:
            raise wrong_field("queries", "a batch has both queries and packed_queries", "send one of them")
        check_count(request.packed_queries.count, most)
        if not digest and not request.packed_queries.origins:
            digest = module_digest(request.module)
        column, packed = from_column(request.packed_queries, digest, path), form != ANSWER_FORM_ROWS
        batch = Batch(digest, path, (), column, packed, known, request.as_written, (), with_ranges)
    if with_ranges and packed:
        raise wrong_field("with_ranges", "packed answers say no ranges", "ask for ANSWER_FORM_ROWS")
    return batch


def of_queries(queries: Sequence[Query | ByDevice], digest: str, path: str | None) -> ColumnQuestion:
    """Queries of several kinds as a column."""
    numbers: dict[Origin, int] = {}
    columns = [_as_value(query, digest, path) for query in queries]
    origin = np.array([numbers.setdefault(each, len(numbers)) for each, _, _ in columns], np.uint32)
    values = np.array([value for _, value, _ in columns], np.uint64)
    times = np.array([LATEST_TIME if time is None else min(time, LATEST_TIME) for _, _, time in columns], np.int64)
    return ColumnQuestion(values, list(numbers), origin, times)


def _as_value(query: Query | ByDevice, digest: str, path: str | None) -> tuple[Origin, int, int | None]:
    """(what its number counts from, the number, as of when)."""
    match query:
        case ByDevice(context, address, time):
            return Origin(context=context), address, time
        case ByKernel(kernel, offset):
            return Origin(digest, path, kernel), offset, None
        case BySection(section, offset):
            return Origin(digest, path, None, section), offset, None
        case ByAddress(address):
            return Origin(digest, path), address, None


def check_count(count: int, most: int) -> None:
    """Raises ``LimitExceeded`` for a batch of more than ``most`` addresses."""
    if count > most:
        raise LimitExceeded(
            f"the batch has {count} addresses, at most {most} are taken",
            hint="send several batches",
            metadata={"limit": "batch", "value": str(most)},
        )


MAX_ADDRESSES_PER_CALL: Final = 1 << 16
"""The most addresses of a column that go in one unary call. More travel as a stream of batches."""
MAX_ADDRESSES_PER_BATCH: Final = 1 << 20
"""The most addresses in one batch of a stream, where the daemon takes as many."""
MIN_BATCHES: Final = 4
"""The batches that a stream has at least, so that one side packs and unpacks while the other looks up."""
MAX_QUERIES_PER_CALL: Final = 100_000
"""The most queries in one call when they are not a column."""


def symbolize_request(name: str, queries: Sequence[Query], path: str | None, *, as_written: bool) -> SymbolizeRequest:
    ask = SymbolizeRequest(module=name, code_object=path, as_written=as_written)
    for query in queries:
        add_query(ask.queries, query)
    return ask


def addresses_of(queries: Sequence[Query]) -> U64:
    try:
        return np.fromiter((query.address for query in queries if isinstance(query, ByAddress)), np.uint64)
    except OverflowError:
        raise BadQuery("an address does not fit 64 bits") from None

"""A batch of addresses answered: shared by the unary call and the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from symd.config import Limits
from symd.engine.contexts.device import without_repeats
from symd.errors import LimitExceeded
from symd.index.format import Strings
from symd.model.addresses import ByAddress, ByDevice, ByKernel, BySection, Query
from symd.model.answers import Answer, Answers, Candidate, Frame, Locations, TextSection, used_strings
from symd.model.arguments import ColumnQuestion
from symd.model.columns import U32
from symd.model.contexts import DeviceAnswers, DeviceCandidate
from symd.model.texts import utf8_size
from symd.rpc.wire.answers import PLAIN_PYTHON_ANSWERS, add_answer, add_device_answer, used_text_sections, write_columns
from symd.rpc.wire.queries import Batch, from_request
from symd.server.call import Call
from symd.server.guard import cancelled_with_call
from symd.server.logs import note_request
from symd.server.messages import TakenOnce, parsed
from symd.server.service_context import ServiceContext
from symd.v1.symbol_service_pb2 import SymbolizeRequest, SymbolizeResponse

INLINE_QUERIES = 4
"""Queries that may be answered on the event loop."""
INLINE_FRAMES = 32
"""Frames of an answer that may be written there."""
INLINE_TEXT = 64 << 10
"""Bytes of their texts: such an answer is counted nowhere."""
ROW_BYTES, FRAME_BYTES, CANDIDATE_BYTES, SECTION_BYTES, RANGE_BYTES = 32, 16, 8, 8, 16
"""About what an answer, a frame, a candidate, a text section and a range of one take beside their texts."""
DEVICE_CANDIDATE_BYTES = 96
"""About what a candidate of a device address takes, which names its module too."""


def reply_from_open_index(service: ServiceContext, data: bytes, call: Call) -> bytes | None:
    """The answers to the few queries of a small request, where each is one search in an open index; None where it may
    take longer. Raises as ``from_request`` does, and ``Malformed``."""
    request = parsed(SymbolizeRequest, data, SymbolizeRequest.DESCRIPTOR.full_name)
    note_request(call, request)
    batch = from_request(request, service.config.limits.batch)
    queries = _row_queries(batch)
    if not 0 < len(queries) <= INLINE_QUERIES:
        return None
    return _small_reply(service.engine.answer_from_open_index, batch.digest, batch.path, queries)


def reply_from_index_file(service: ServiceContext, data: bytes, _call: Call) -> bytes | None:
    """The answer to a request for one address of a module that is asked about for the first time and whose index is not
    open; None where only an open index has it. What ``reply_from_open_index`` noted of the request stands."""
    request = parsed(SymbolizeRequest, data, SymbolizeRequest.DESCRIPTOR.full_name)
    batch = from_request(request, service.config.limits.batch)
    queries = _row_queries(batch)
    if batch.path is not None or len(queries) != 1 or not isinstance(queries[0], ByAddress):
        return None
    return _small_reply(service.engine.answer_from_index_file, batch.digest, None, queries)


def _row_queries(batch: Batch) -> Sequence[Query]:
    """The queries of a request for plain rows; none if it asks for columns, for answers as written or with ranges."""
    plain = batch.column is None and not (batch.as_columns or batch.as_written or batch.with_ranges)
    return batch.queries if plain else ()


def _small_reply(
    one: Callable[[str, Query, str | None], Answer | None], digest: str, path: str | None, queries: Sequence[Query]
) -> bytes | None:
    """The serialized response with the answers that ``one`` gives; None where it gives none to a query, or one with
    many frames or long texts."""
    response = SymbolizeResponse()
    rows = response.answers
    for query in queries:
        found = one(digest, query, path)
        if found is None or len(found.frames) > INLINE_FRAMES or _text_size(found) > INLINE_TEXT:
            return None
        add_answer(rows, found)
    return response.SerializeToString()


def symbolize_into(
    response: SymbolizeResponse, service: ServiceContext, asked: TakenOnce[SymbolizeRequest], call: Call
) -> None:
    """Take the request and write its answers into the empty ``response``, in the form that was asked for. Raises
    ``LimitExceeded`` before it looks at too large a batch."""
    with (
        service.addresses_at_work.acquired(_query_count(asked.peek())),
        cancelled_with_call(call, service.config.limits),
    ):
        _dispatch(service, from_request(asked.take(), service.config.limits.batch), response, call.tables)


def _query_count(request: SymbolizeRequest) -> int:
    return request.packed_queries.count if request.HasField("packed_queries") else len(request.queries)


def _dispatch(service: ServiceContext, batch: Batch, response: SymbolizeResponse, sent: set[bytes]) -> None:
    """Answer a batch in the way that what it asks for takes."""
    queries = _row_queries(batch)
    if 0 < len(queries) <= PLAIN_PYTHON_ANSWERS:
        rows, one = response.answers, service.engine.symbolize_one
        budget = ResponseSizeLimit(service.config.limits)
        for query in queries:
            add_answer(rows, budget.count_answer(one(batch.digest, query, batch.path)))
    elif batch.column is not None and batch.one is None:
        _answer_device_or_several_modules(service, batch, batch.column, response, sent)
    elif batch.as_columns:
        _write_columns(service, batch, response, _answers_of_one_module(service, batch), sent)
    else:
        check_rows(batch)
        _write_rows(response, _answers_of_one_module(service, batch), ResponseSizeLimit(service.config.limits))


def _answer_device_or_several_modules(
    service: ServiceContext, batch: Batch, column: ColumnQuestion, response: SymbolizeResponse, sent: set[bytes]
) -> None:
    """Answer what is in device memory, or in several modules."""
    if not batch.as_columns:
        check_rows(batch)
    elif _wrote_each_place_once(service, batch, column, response, sent):
        return
    answers = service.engine.answers(column, batch.digest, as_written=batch.as_written, with_ranges=batch.with_ranges)
    if batch.as_columns:
        check_device_candidates(answers, service.config.limits)
        _write_columns(service, batch, response, answers, sent)
        return
    budget = ResponseSizeLimit(service.config.limits)
    for number, each in enumerate(answers):
        budget.count_answer(each.answer)
        budget.count_device_candidates(each.candidates)
        if batch.asked and not isinstance(batch.asked[number], ByDevice):
            add_answer(response.answers, each.answer)
        else:
            add_device_answer(response.answers, each)


def _wrote_each_place_once(
    service: ServiceContext, batch: Batch, column: ColumnQuestion, response: SymbolizeResponse, sent: set[bytes]
) -> bool:
    """Whether the question has few enough places to answer each once, and none has candidates, which are counted by
    query; the answers are written then."""
    once = None if batch.asked else without_repeats(column)
    if once is None:
        return False
    question, number = once
    answers = service.engine.answers(question, batch.digest, as_written=batch.as_written)
    if answers.candidates or answers.answers.candidates:
        return False
    _write_columns(service, batch._replace(column=question), response, answers, sent, number)
    return True


def _answers_of_one_module(service: ServiceContext, batch: Batch) -> Answers:
    digest, path, column, one = batch.digest, batch.path, batch.column, batch.one
    if column is None or one is None:
        return service.engine.symbolize(
            digest, batch.queries, path, as_written=batch.as_written, with_ranges=batch.with_ranges
        )
    if batch.with_ranges:
        return service.engine.answers(column, digest, as_written=batch.as_written, with_ranges=True).answers
    return service.engine.symbolize_column(
        digest, column.values, kernel=one.kernel, section=one.section, path=one.path, as_written=batch.as_written
    )


class ResponseSizeLimit:
    """How much of the largest response is left for answers and candidates that are spelled out, counted before they
    are."""

    def __init__(self, limits: Limits) -> None:
        self._most = self._left = limits.response_bytes

    def count_answer(self, answer: Answer) -> Answer:
        """The answer. Raises ``LimitExceeded`` where there is no room for it."""
        self._add(ROW_BYTES + FRAME_BYTES * len(answer.frames) + _text_size(answer), "answers")
        self.count_candidates(answer.candidates)
        for each in answer.ranges.frames if answer.ranges is not None else ():
            self._add(RANGE_BYTES * len(each.code) + utf8_size(each.declared_file), "ranges")
        return answer

    def count_frames(self, frames: Sequence[Frame]) -> None:
        """Count frames. Raises ``LimitExceeded`` where the response has no room for them."""
        self._add(FRAME_BYTES * len(frames) + _frames_text_size(frames), "frames")

    def count_variables(self, size: int) -> None:
        """Count the bytes that what is in scope at one place takes. Raises ``LimitExceeded`` where there is no room for
        them."""
        self._add(size, "variables")

    def count_candidates(self, candidates: Iterable[Candidate]) -> None:
        """Count candidates. Raises ``LimitExceeded`` where the response has no room for them."""
        for each in candidates:
            texts = each.path, each.section, each.kernel, each.function
            self._add(CANDIDATE_BYTES + sum(map(utf8_size, texts)), "candidates")

    def count_texts(self, table: Locations, numbers: U32) -> None:
        """Count the texts of the locations with these numbers, each of which is there once. Raises
        ``LimitExceeded`` where there is no room for them."""
        assert isinstance(table.strings, Strings)  # noqa: S101 - ``_is_long``
        self._add(table.strings.sizes(used_strings(table, numbers)), "texts")

    def count_text_sections(self, sections: Iterable[TextSection]) -> None:
        """Count the text sections that columns name. Raises ``LimitExceeded`` where there is no room for them."""
        for each in sections:
            self._add(SECTION_BYTES + utf8_size(each.path) + utf8_size(each.section), "text sections")

    def count_device_candidates(self, candidates: Iterable[DeviceCandidate]) -> None:
        """Count what device addresses could mean. Raises ``LimitExceeded`` where there is no room for it."""
        for each in candidates:
            size = DEVICE_CANDIDATE_BYTES + utf8_size(each.path)
            match each.query:
                case ByKernel(name) | BySection(str(name)):
                    size += utf8_size(name)
            self._add(size, "candidates")

    def _add(self, size: int, what: str) -> None:
        self._left -= size
        if self._left < 0:
            raise LimitExceeded(
                f"the {what} spelled out have more than {self._most} bytes",
                hint="ask for fewer at a time, or for columns",
                metadata={"limit": "response_bytes", "value": str(self._most)},
            )


def _text_size(answer: Answer) -> int:
    """Bytes of its texts: a module may make them of any length."""
    own = utf8_size(answer.path) + utf8_size(answer.kernel) + utf8_size(answer.section)
    return own + _frames_text_size(answer.frames)


def _frames_text_size(frames: Iterable[Frame]) -> int:
    """Bytes of the texts of frames."""
    size = 0
    for frame in frames:
        size += utf8_size(frame.function) + utf8_size(frame.linkage_name) + utf8_size(frame.file)
    return size


ROW_ANSWERS = 400_000
"""Answers of one response that are spelled out; columns have ``batch``."""


def check_rows(batch: Batch) -> None:
    """Raises ``LimitExceeded`` for more answers than are spelled out in one response."""
    count = len(batch.queries) if batch.column is None else len(batch.column.values)
    if count > ROW_ANSWERS:
        raise LimitExceeded(
            f"{count} answers are wanted spelled out, at most {ROW_ANSWERS} are",
            hint="ask for columns, or send several batches",
            metadata={"limit": "row_answers", "value": str(ROW_ANSWERS)},
        )


def check_device_candidates(answers: DeviceAnswers, limits: Limits) -> None:
    """Raises ``LimitExceeded`` where a response has no room for what its ambiguous addresses could mean."""
    budget = ResponseSizeLimit(limits)
    for candidates in answers.candidates.values():
        budget.count_device_candidates(candidates)


def check_columns(answers: Answers, limits: Limits) -> None:
    """Raises ``LimitExceeded`` where a response has no room for the texts, the text sections and the candidates of
    columns."""
    budget = ResponseSizeLimit(limits)
    if _is_long(answers.locations, limits):
        budget.count_texts(answers.locations, answers.location)
    budget.count_text_sections(answers.text_sections[number - 1] for number in used_text_sections(answers).tolist())
    for candidates in answers.candidates.values():
        budget.count_candidates(candidates)


def _is_long(table: Locations, limits: Limits) -> bool:
    """Whether the texts of a whole table have no room in a response, so that what a part of it takes is worth a
    look."""
    return isinstance(table.strings, Strings) and table.strings.text_bytes > limits.response_bytes


def _write_rows(response: SymbolizeResponse, answers: Iterable[Answer], budget: ResponseSizeLimit) -> None:
    rows = response.answers
    for each in answers:
        add_answer(rows, budget.count_answer(each))


def _write_columns(
    service: ServiceContext,
    batch: Batch,
    response: SymbolizeResponse,
    answers: Answers | DeviceAnswers,
    sent: set[bytes],
    number: U32 | None = None,
) -> None:
    """Write answers as columns; ``number`` has for each query that of its answer, where those are fewer."""
    found = answers.answers if isinstance(answers, DeviceAnswers) else answers
    check_columns(found, service.config.limits)
    table, known = None, batch.known_tables
    if known is not None and not _is_long(found.locations, service.config.limits):
        count = len(found) if number is None else len(number)
        table = service.tables.message(found.locations, count, known, sent)
    write_columns(response.packed_answers, answers, None if batch.asked else batch.column, table, number)

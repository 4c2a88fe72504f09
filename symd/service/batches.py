"""A batch of addresses answered: shared by the unary call and the stream."""

from __future__ import annotations

from collections.abc import Iterable

from symd.errors import InvalidInput, LimitExceeded
from symd.model import U64, Answer, Answers
from symd.service.parts import Parts
from symd.v1.answer_pb2 import AnswerColumns
from symd.v1.symbol_service_pb2 import ANSWER_FORM_COLUMNS, ANSWER_FORM_ROWS, SymbolizeRequest, SymbolizeResponse
from symd.wire.answers import FEW, add_answer, to_columns
from symd.wire.names import module_digest
from symd.wire.queries import column_length, from_column, from_queries


def answer(parts: Parts, request: SymbolizeRequest, sent: set[bytes] | None = None) -> SymbolizeResponse:
    """The answers in the form that was asked for; ``sent`` names the tables that the stream has brought already.

    Raises ``LimitExceeded`` before it looks at too large a batch."""
    digest = module_digest(request.name)
    path = request.object if request.HasField("object") else None
    if not request.HasField("column"):
        check_size(len(request.queries), parts.config.limits.batch)
        if request.form == ANSWER_FORM_COLUMNS:
            answers = parts.engine.symbolize(digest, from_queries(request.queries), path)
            return SymbolizeResponse(columns=_columns(parts, request, answers, None, sent))
        return _rows(_spelled_out(parts, request, digest, path))
    if request.queries:
        raise InvalidInput("a batch has both queries and a column", hint="send one of them")
    check_size(column_length(request.column), parts.config.limits.batch)
    values, kernel, section = from_column(request.column)
    answers = parts.engine.symbolize_column(digest, values, kernel=kernel, section=section, path=path)
    if request.form == ANSWER_FORM_ROWS:
        return _rows(answers)
    return SymbolizeResponse(columns=_columns(parts, request, answers, values, sent))


def _spelled_out(parts: Parts, request: SymbolizeRequest, digest: str, path: str | None) -> list[Answer] | Answers:
    queries = from_queries(request.queries)
    if 0 < len(queries) <= FEW:
        return [parts.engine.symbolize_one(digest, query, path) for query in queries]
    return parts.engine.symbolize(digest, queries, path)


def _rows(answers: Iterable[Answer]) -> SymbolizeResponse:
    response = SymbolizeResponse()
    rows = response.answers
    for each in answers:
        add_answer(rows, each)
    return response


def _columns(
    parts: Parts, request: SymbolizeRequest, answers: Answers, values: U64 | None, sent: set[bytes] | None
) -> AnswerColumns:
    table = None
    if request.keeps_tables:
        sent = set() if sent is None else sent
        table = parts.tables.message(answers.locations, len(answers), request.known_tables, sent)
    return to_columns(answers, values, table)


def check_size(count: int, most: int) -> None:
    """Raises ``LimitExceeded`` for a batch of more than ``most``."""
    if count > most:
        raise LimitExceeded(
            f"the batch has {count} addresses, at most {most} are taken",
            hint="send several batches",
            metadata={"limit": "batch", "value": str(most)},
        )

"""A batch of addresses answered: shared by the unary call and the stream."""

from __future__ import annotations

from collections.abc import Iterable

from symd.errors import InvalidInput, LimitExceeded
from symd.model.answers import Answer, Answers
from symd.model.columns import U64
from symd.service.parts import Parts
from symd.v1.symbol_service_pb2 import ANSWER_FORM_COLUMNS, ANSWER_FORM_ROWS, SymbolizeRequest, SymbolizeResponse
from symd.wire.answers import FEW, add_answer, write_columns
from symd.wire.names import module_digest
from symd.wire.queries import column_length, from_column, from_queries, from_query


def answer(parts: Parts, request: SymbolizeRequest, response: SymbolizeResponse, sent: set[bytes]) -> None:
    """Write the answers into the empty ``response``, in the form that was asked for. ``sent`` names the tables that the
    call has brought already.

    Raises ``LimitExceeded`` before it looks at too large a batch."""
    digest = module_digest(request.name)
    path = request.object if request.HasField("object") else None
    if request.HasField("column"):
        _answer_column(parts, request, response, digest, path, sent)
        return
    count = len(request.queries)
    check_size(count, parts.config.limits.batch)
    if request.form == ANSWER_FORM_COLUMNS:
        answers = parts.engine.symbolize(digest, from_queries(request.queries), path)
        _write_columns(parts, request, response, answers, None, sent)
    elif 0 < count <= FEW:
        rows, one = response.answers, parts.engine.symbolize_one
        for message in request.queries:
            add_answer(rows, one(digest, from_query(message), path))
    else:
        _write_rows(response, parts.engine.symbolize(digest, from_queries(request.queries), path))


def _answer_column(
    parts: Parts,
    request: SymbolizeRequest,
    response: SymbolizeResponse,
    digest: str,
    path: str | None,
    sent: set[bytes],
) -> None:
    if request.queries:
        raise InvalidInput("a batch has both queries and a column", hint="send one of them")
    check_size(column_length(request.column), parts.config.limits.batch)
    values, kernel, section = from_column(request.column)
    answers = parts.engine.symbolize_column(digest, values, kernel=kernel, section=section, path=path)
    if request.form == ANSWER_FORM_ROWS:
        _write_rows(response, answers)
    else:
        _write_columns(parts, request, response, answers, values, sent)


def _write_rows(response: SymbolizeResponse, answers: Iterable[Answer]) -> None:
    rows = response.answers
    for each in answers:
        add_answer(rows, each)


def _write_columns(
    parts: Parts,
    request: SymbolizeRequest,
    response: SymbolizeResponse,
    answers: Answers,
    values: U64 | None,
    sent: set[bytes],
) -> None:
    table = None
    if request.keeps_tables:
        table = parts.tables.message(answers.locations, len(answers), request.known_tables, sent)
    write_columns(response.columns, answers, values, table)


def check_size(count: int, most: int) -> None:
    """Raises ``LimitExceeded`` for a batch of more than ``most``."""
    if count > most:
        raise LimitExceeded(
            f"the batch has {count} addresses, at most {most} are taken",
            hint="send several batches",
            metadata={"limit": "batch", "value": str(most)},
        )

"""A batch of addresses answered: shared by the unary call and the stream."""

from __future__ import annotations

from collections.abc import Iterable

from symd.model.answers import Answer, Answers
from symd.service.service_context import ServiceContext
from symd.v1.symbol_service_pb2 import SymbolizeRequest, SymbolizeResponse
from symd.wire.answers import PLAIN_PYTHON_ANSWERS, add_answer, write_columns
from symd.wire.batches import Batch, from_request

QUERIES_AT_ONCE = 4
"""Queries that may be answered on the event loop."""


def answer_at_once(service: ServiceContext, request: SymbolizeRequest) -> SymbolizeResponse | None:
    """The answers to a few queries where each is one search in an open index; None where it may take longer."""
    digest, path, queries, column, as_columns, _ = from_request(request, service.config.limits.batch)
    if column is not None or as_columns or len(queries) > QUERIES_AT_ONCE:
        return None
    response, one = SymbolizeResponse(), service.engine.answer_at_once
    for query in queries:
        found = one(digest, query, path)
        if found is None:
            return None
        add_answer(response.answers, found)
    return response if queries else None


def answer(service: ServiceContext, request: SymbolizeRequest, response: SymbolizeResponse, sent: set[bytes]) -> None:
    """Write the answers into the empty ``response``, in the form that was asked for. ``sent`` names the tables that the
    call has brought already. Raises ``LimitExceeded`` before it looks at too large a batch."""
    batch = from_request(request, service.config.limits.batch)
    if batch.column is None and not batch.as_columns and 0 < len(batch.queries) <= PLAIN_PYTHON_ANSWERS:
        rows, one = response.answers, service.engine.symbolize_one
        for query in batch.queries:
            add_answer(rows, one(batch.digest, query, batch.path))
    elif batch.as_columns:
        _write_columns(service, batch, response, _answers(service, batch), sent)
    else:
        _write_rows(response, _answers(service, batch))


def _answers(service: ServiceContext, batch: Batch) -> Answers:
    digest, path, column = batch.digest, batch.path, batch.column
    if column is None:
        return service.engine.symbolize(digest, batch.queries, path)
    return service.engine.symbolize_column(
        digest, column.values, kernel=column.kernel, section=column.section, path=path
    )


def _write_rows(response: SymbolizeResponse, answers: Iterable[Answer]) -> None:
    rows = response.answers
    for each in answers:
        add_answer(rows, each)


def _write_columns(
    service: ServiceContext, batch: Batch, response: SymbolizeResponse, answers: Answers, sent: set[bytes]
) -> None:
    table, known = None, batch.known_tables
    if known is not None:
        table = service.tables.message(answers.locations, len(answers), known, sent)
    write_columns(response.columns, answers, batch.column.values if batch.column else None, table)

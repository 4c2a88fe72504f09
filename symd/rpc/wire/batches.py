"""Batches of addresses as they are asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from symd.errors import LimitExceeded
from symd.model.addresses import Query
from symd.rpc.wire.fields import wrong_field
from symd.rpc.wire.queries import Column, from_column, from_queries
from symd.rpc.wire.resource_names import digest_and_path
from symd.v1.symbol_service_pb2 import ANSWER_FORM_COLUMNS, ANSWER_FORM_ROWS, SymbolizeRequest


class Batch(NamedTuple):
    """Addresses in the module ``digest``, or in its code object at ``path``: one by one as ``queries`` or, where that is not
    None, as a ``column``. ``as_columns`` says how the answers are wanted. ``known_tables`` are the names of the tables that
    the client has kept; None: it keeps none. ``as_written``: what rows and scopes say, unreconciled."""

    digest: str
    path: str | None
    queries: Sequence[Query]
    column: Column | None
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

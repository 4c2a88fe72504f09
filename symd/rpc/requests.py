"""What both clients send, where a message takes more than its fields, and how much goes in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from symd.config import MIB
from symd.errors import BadQuery
from symd.model.addresses import ByAddress, Query
from symd.model.columns import U64
from symd.model.contexts import ALIAS_HINT, Alias
from symd.model.texts import of_kind
from symd.rpc.wire.fields import chunks_of
from symd.rpc.wire.queries import add_query
from symd.v1.module_service_pb2 import UploadHeader, UploadModuleRequest
from symd.v1.symbol_service_pb2 import SymbolizeRequest

MAX_NAMES_PER_CALL: Final = 10_000
"""The most modules asked for in one FindMissingModules."""
MAX_ADDRESSES_PER_CALL: Final = 1 << 16
"""The most addresses of a column that go in one unary call. More travel as a stream of batches."""
MAX_ADDRESSES_PER_BATCH: Final = 1 << 20
"""The most addresses in one batch of a stream, where the daemon takes as many."""
MIN_BATCHES: Final = 4
"""The batches that a stream has at least, so that one side packs and unpacks while the other looks up."""
MAX_QUERIES_PER_CALL: Final = 100_000
"""The most queries in one call when they are not a column."""


def upload_requests(header: UploadHeader, data: bytes) -> Iterator[UploadModuleRequest]:
    yield UploadModuleRequest(header=header)
    for chunk in chunks_of(data, MIB):
        yield UploadModuleRequest(chunk=chunk)


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


def alias_key(alias: Alias) -> tuple[str, str, str]:
    """What aliases are listed by."""
    of_kind(alias, Alias, ALIAS_HINT)
    return alias.context, alias.kind, alias.key

"""What callers of the verbs hand over, held against what the verbs take: whoever passes something else reads what it should
have been, in the field's words, instead of an error of the interpreter."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from symd.errors import BadQuery, InvalidInput
from symd.model.addresses import Query
from symd.model.breakpoints import SourceLine
from symd.model.columns import U64
from symd.model.names import NameQuery

_QUERY_HINT = "pass ByKernel(name, offset), ByAddress(address) or BySection(section, offset); parse_query reads text"


def checked_name(digest: str) -> str:
    """A module's digest, if it is text. Raises InvalidInput."""
    if not isinstance(digest, str):
        raise InvalidInput(f"a module is named by its SHA-256, not by {_kind(digest)}", hint="pass module.sha256")
    return digest


def checked_bytes(data: bytes) -> bytes:
    """Raises InvalidInput for what is not a module's bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidInput(f"a module is its bytes, not {_kind(data)}", hint="pass open(path, 'rb').read()")
    return data


def wrong_query(query: object) -> BadQuery:
    """The error for what is no query."""
    return BadQuery(f"{_kind(query)} is not a query", hint=_QUERY_HINT)


def checked_queries(queries: Any) -> Any:
    """Raises BadQuery where one query, or text, stands for the sequence of them."""
    if isinstance(queries, (str, bytes, *Query.__args__)):
        raise BadQuery(f"{_kind(queries)} is not a sequence of queries", hint=_QUERY_HINT)
    return queries


def checked_column(values: Any) -> U64:
    """A column of offsets or addresses from any sequence of numbers. Raises BadQuery for other things, and for numbers that
    are not whole or have no 64 bits."""
    if isinstance(values, np.ndarray) and values.dtype == np.uint64 and values.ndim == 1:
        return values
    try:
        return np.array([_number(value) for value in values], np.uint64)
    except (TypeError, OverflowError):
        what = "the column is no sequence of whole numbers of 64 bits"
        raise BadQuery(what, hint="pass a NumPy array of uint64") from None


def _number(value: Any) -> int:
    number = index(value)
    if not 0 <= number < 1 << 64:
        raise OverflowError
    return number


def checked_line(where: SourceLine) -> SourceLine:
    """Raises BadQuery for what is not a source line."""
    if not isinstance(where, SourceLine):
        raise BadQuery(f"{_kind(where)} is not a source line", hint='pass SourceLine("kernel.cl", 12)')
    return where


def checked_names(wanted: NameQuery) -> NameQuery:
    """Raises BadQuery for what is not a question for names."""
    if not isinstance(wanted, NameQuery):
        raise BadQuery(f"{_kind(wanted)} is not a question for names", hint='pass NameQuery("vadd*")')
    return wanted


def _kind(value: object) -> str:
    return f"the text {value[:80]!r}" if isinstance(value, str) else f"a {type(value).__name__}"

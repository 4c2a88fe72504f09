"""How people write a query, for whoever asks an index: ``symd.model.query_syntax`` under the name that it has had."""

from symd.model.query_syntax import parse_query

__all__ = ("parse_query",)

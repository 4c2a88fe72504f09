"""How people write a query, for whoever asks an index: ``symd.model.addresses`` under the name that it has had."""

from symd.model.addresses import parse_query

__all__ = ("parse_query",)

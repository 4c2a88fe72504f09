"""What a request's decoder says of a field that cannot be: the caller gets it as a violation of a google.rpc.BadRequest.
A field is named by its path in the request, such as "column.values"."""

from __future__ import annotations

from symd.errors import BadQuery, InvalidInput

FIELD = "field"
"""The key of an error's metadata under which the field stands."""


def bad_field(field: str, message: str, hint: str = "") -> BadQuery:
    """The error that blames a field for an invalid address, name or number."""
    return BadQuery(message, hint=hint, metadata={FIELD: field})


def wrong_field(field: str, message: str, hint: str = "") -> InvalidInput:
    """The error that blames a field for what it asks: it is missing, too much, or not among the choices."""
    return InvalidInput(message, hint=hint, metadata={FIELD: field})

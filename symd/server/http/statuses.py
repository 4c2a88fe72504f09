"""Errors of symd over HTTP: the status and a JSON object with the same facts that gRPC's details have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from symd.errors import SymdError
from symd.server.http.site import Reply, json_reply

STATUSES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "INVALID_ARGUMENT": 400,
        "OUT_OF_RANGE": 400,
        "FAILED_PRECONDITION": 409,
        "UNAUTHENTICATED": 401,
        "PERMISSION_DENIED": 403,
        "NOT_FOUND": 404,
        "RESOURCE_EXHAUSTED": 429,
        "DEADLINE_EXCEEDED": 504,
        "UNAVAILABLE": 503,
        "UNIMPLEMENTED": 501,
        "DATA_LOSS": 500,
        "INTERNAL": 500,
    }
)
"""By gRPC's name of the status (google/rpc/code.proto has the same table)."""


def error_reply(error: SymdError) -> Reply:
    """The answer in place of what was asked for."""
    headers = {}
    if error.retry_seconds is not None:
        headers["retry-after"] = str(max(1, round(error.retry_seconds)))
    body = {
        "error": {
            "reason": error.reason,
            "message": error.message,
            "where": error.where,
            "hint": error.hint,
            "metadata": error.metadata,
        }
    }
    return json_reply(body, STATUSES[error.status])._replace(headers=headers)

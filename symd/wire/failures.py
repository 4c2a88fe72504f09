"""Errors as google.rpc.Status with ErrorInfo, as Failure messages, and back as the same class."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from symd import errors
from symd.errors import SymdError
from symd.v1 import failure_pb2

DOMAIN = "symd"

TEXT = 700
"""Bytes of UTF-8 of the status message, and"""
METADATA = 2400
"""of all metadata: trailers must stay below the 8 KiB that gRPC libraries accept by default, where a message is
percent-encoded (threefold at worst) and details are in base64."""
VALUE = 800
"""Bytes of one metadata value."""

BY_CODE: Mapping[str, type[SymdError]] = {
    "INVALID_ARGUMENT": errors.InvalidInput,
    "RESOURCE_EXHAUSTED": errors.LimitExceeded,
    "UNIMPLEMENTED": errors.Unsupported,
    "NOT_FOUND": errors.NotFound,
    "FAILED_PRECONDITION": errors.FailedPrecondition,
    "DEADLINE_EXCEEDED": errors.DeadlineExceeded,
    "UNAVAILABLE": errors.Unavailable,
    "CANCELLED": errors.Unavailable,
    "DATA_LOSS": errors.DataLoss,
}
"""What a status without ErrorInfo means."""


def to_status(error: SymdError) -> status_pb2.Status:
    """The status: code, the error's whole sentence, and its parts in an ErrorInfo."""
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=_metadata(error))
    detail = any_pb2.Any()
    detail.Pack(info)
    return status_pb2.Status(code=code_pb2.Code.Value(error.status), message=clip(str(error), TEXT), details=[detail])


def from_status(status: status_pb2.Status) -> SymdError:
    """The error that the status stands for."""
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info) and info.domain == DOMAIN:
            return rebuilt(status.code, status.message, info.reason, info.metadata)
    return rebuilt(status.code, status.message, "", {})


def to_failure(error: SymdError) -> failure_pb2.Failure:
    return failure_pb2.Failure(
        code=code_pb2.Code.Value(error.status),
        message=clip(str(error), TEXT),
        reason=error.reason,
        metadata=_metadata(error),
    )


def from_failure(failure: failure_pb2.Failure) -> SymdError:
    return rebuilt(failure.code, failure.message, failure.reason, failure.metadata)


def rebuilt(code: int, message: str, reason: str, metadata: Mapping[str, str]) -> SymdError:
    """An error of the class that ``reason`` names, or where nobody has that reason, one that fits the code."""
    facts = dict(metadata)
    cls = errors.by_reason(reason) or BY_CODE.get(_code_name(code), SymdError)
    sentence, where, hint = facts.pop("message", message), facts.pop("where", ""), facts.pop("hint", "")
    build_log = facts.pop("build_log", "")
    error = cls(sentence, where=where, hint=hint, metadata=facts)
    if isinstance(error, errors.BuildFailed):
        error.build_log = build_log
    return error


def clip(text: str, size: int) -> str:
    """``text`` if it has at most ``size`` bytes of UTF-8, else its beginning and "..."."""
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= size else data[: size - 3].decode(errors="ignore") + "..."


def _metadata(error: SymdError) -> dict[str, str]:
    """What the error knows, its own sentence first, as far as a trailer has room."""
    log = {"build_log": error.build_log} if isinstance(error, errors.BuildFailed) else {}
    wanted = {"message": error.message, "where": error.where, "hint": error.hint, **error.metadata, **log}
    kept: dict[str, str] = {}
    room = METADATA
    for key, value in wanted.items():
        clipped = clip(value, min(VALUE, max(room - len(key), 3))) if value else ""
        if clipped and len(key) < room:
            kept[key] = clipped
            room -= len(key) + len(clipped.encode())
    return kept


def _code_name(code: int) -> str:
    return code_pb2.Code.Name(code) if code in code_pb2.Code.values() else "UNKNOWN"

"""Errors as google.rpc.Status with details, and back as the same class."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from symd import errors
from symd.errors import SymdError
from symd.rpc.wire.fields import FIELD, to_duration

DOMAIN = "symd"

# Trailers must stay below the 8 KiB that gRPC libraries accept by default. There the status message is percent-encoded,
# which makes it three times as long at worst, and details are in base64.
TEXT = 600
"""The most bytes of UTF-8 in a status message."""
METADATA = 2400
"""The most bytes of an ErrorInfo's metadata, keys and values together."""
VALUE = 800
"""The most bytes of one metadata value."""
DESCRIPTION = 300
"""The most bytes of what a BadRequest says of a field."""

BY_CODE: Mapping[str, type[SymdError]] = {
    "INVALID_ARGUMENT": errors.InvalidInput,
    "RESOURCE_EXHAUSTED": errors.LimitExceeded,
    "UNIMPLEMENTED": errors.Unsupported,
    "NOT_FOUND": errors.NotFound,
    "FAILED_PRECONDITION": errors.FailedPrecondition,
    "UNAUTHENTICATED": errors.Unauthenticated,
    "PERMISSION_DENIED": errors.PermissionDenied,
    "DEADLINE_EXCEEDED": errors.DeadlineExceeded,
    "UNAVAILABLE": errors.Unavailable,
    "CANCELLED": errors.Unavailable,
    "DATA_LOSS": errors.DataLoss,
    "OUT_OF_RANGE": errors.PositionLost,
}
"""What a status without ErrorInfo means."""


def to_status(error: SymdError) -> status_pb2.Status:
    """The status: code, the error's whole sentence, and as details its parts in an ErrorInfo, the field that is to
    blame (BadRequest) and when to try again (RetryInfo)."""
    details = [_packed(_info(error.reason, _metadata(error)))]
    if error.status == "INVALID_ARGUMENT":
        details.append(_packed(_bad_request(error)))
    if error.retry_seconds is not None:
        details.append(_packed(error_details_pb2.RetryInfo(retry_delay=to_duration(error.retry_seconds))))
    return status_pb2.Status(code=code_pb2.Code.Value(error.status), message=clip(str(error), TEXT), details=details)


def from_status(status: status_pb2.Status) -> SymdError:
    """The error that the status stands for."""
    info = _error_info(status)
    return rebuilt(status.code, status.message, info.reason, info.metadata)


def reason_status(reason: str) -> status_pb2.Status:
    """A failure of which no more is known than its reason."""
    cls = errors.by_reason(reason) or SymdError
    return status_pb2.Status(code=code_pb2.Code.Value(cls.status), message=reason, details=[_packed(_info(reason, {}))])


def status_reason(status: status_pb2.Status) -> str:
    """The reason in a status of symd's; "" in any other."""
    return str(_error_info(status).reason)


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


def _error_info(status: status_pb2.Status) -> error_details_pb2.ErrorInfo:
    """Symd's own; an empty one where there is none."""
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info) and info.domain == DOMAIN:
            return info
    return error_details_pb2.ErrorInfo()


def _info(reason: str, metadata: Mapping[str, str]) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)


def _bad_request(error: SymdError) -> error_details_pb2.BadRequest:
    violation = error_details_pb2.BadRequest.FieldViolation(
        field=clip(error.metadata.get(FIELD, ""), VALUE),
        description=clip(error.message, DESCRIPTION),
        reason=error.reason,
    )
    return error_details_pb2.BadRequest(field_violations=[violation])


def _packed(detail: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed


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

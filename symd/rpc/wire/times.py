"""Seconds ↔ google.protobuf.Timestamp and Duration."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

_NANO = 1_000_000_000


def to_timestamp(seconds: float) -> Timestamp:
    """A time in seconds since 1970, to the nanosecond."""
    return Timestamp(**_parts(seconds))


def to_duration(seconds: float) -> Duration:
    """A length of time that is not negative, to the nanosecond."""
    return Duration(**_parts(seconds))


def from_time(message: Timestamp | Duration) -> float:
    """The seconds of either."""
    return message.seconds + message.nanos / _NANO


def _parts(seconds: float) -> dict[str, int]:
    """The fraction is rounded by itself: seconds since 1970 and nanoseconds do not fit a float together."""
    whole = int(seconds // 1)
    carry, nanos = divmod(round((seconds - whole) * _NANO), _NANO)
    return {"seconds": whole + carry, "nanos": nanos}

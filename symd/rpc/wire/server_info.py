"""What a daemon is and what it takes."""

from __future__ import annotations

from collections.abc import Mapping

from symd.config import Limits
from symd.rpc.wire.fields import to_duration
from symd.v1 import server_service_pb2 as pb

_SECONDS = "_seconds"
"""How the names of limits of time end."""


def to_limits(limits: Limits, further: Mapping[str, int]) -> list[pb.Limit]:
    """Every limit of ``limits``, then the ``further`` ones, by the names that errors give them."""
    return [_to_limit(name, value) for name, value in {**limits._asdict(), **further}.items()]


def _to_limit(name: str, value: float) -> pb.Limit:
    if not name.endswith(_SECONDS):
        return pb.Limit(name=name, amount=int(value))
    return pb.Limit(name=name, time=to_duration(value))

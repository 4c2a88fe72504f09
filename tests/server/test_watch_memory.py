"""What a watch's breakpoints take counts among the bytes of its client until the watch ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from symd.config import Limits
from symd.errors import Busy
from symd.model.breakpoints import Breakpoint, FunctionName
from symd.server.call import Call
from symd.server.config import Right
from symd.server.messages import BytesInFlight
from symd.server.rpc.question_services import keep_breakpoints


def named(letter: str, size: int) -> Breakpoint:
    return Breakpoint(letter * size, FunctionName("vadd"))


def test_breakpoints_count_until_the_call_ends():
    flight, call = BytesInFlight(Limits(client_bytes_in_flight=300_000)), Call("Watch", Right.READ, "somebody", None)
    service: Any = SimpleNamespace(flight=flight)
    assert keep_breakpoints(service, call, [named("a", 100_000)]) == 0
    before = flight.total
    assert 100_000 < before < 110_000
    with pytest.raises(Busy):
        keep_breakpoints(service, call, [named("b", 250_000)])
    assert flight.total == before
    few = keep_breakpoints(service, call, [named("c", 40_000)])
    assert flight.total == before
    assert keep_breakpoints(service, call, [named("d", 40_000)], few) == 0
    assert 80_000 < flight.total - before < 90_000
    call.end()
    assert flight.total == 0

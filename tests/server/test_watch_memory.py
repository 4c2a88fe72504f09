"""What a watch's breakpoints take counts among the bytes of its client, also where a change of them is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from symd.config import Limits
from symd.errors import Busy
from symd.model.breakpoints import Breakpoint, FunctionName
from symd.model.watches import BreakpointChange
from symd.server.messages import BytesInFlight
from symd.server.rpc.breakpoint_service import _Held


def named(letter: str, size: int) -> Breakpoint:
    return Breakpoint(letter * size, FunctionName("vadd"))


def test_a_refused_change_counts_nothing():
    flight = BytesInFlight(Limits(client_bytes_in_flight=300_000))
    service, call = SimpleNamespace(flight=flight), SimpleNamespace(client="somebody")
    with _Held(service, call, [named("a", 100_000)]) as held:
        before = flight.total
        assert 100_000 < before < 110_000
        with pytest.raises(Busy):
            held.change(BreakpointChange(add=(named("b", 250_000),)))
        held.acknowledge(is_made=False)
        assert flight.total == before
        held.change(BreakpointChange(add=(named("b", 250_000),), remove=("a" * 100_000,)))
        assert 250_000 < flight.total < 260_000
        held.acknowledge(is_made=False)  # the watch refused it, which has it already
        assert flight.total == before
        held.change(BreakpointChange(add=(named("c", 100_000),)))
        held.acknowledge(is_made=True)
        held.change(BreakpointChange(remove=("a" * 100_000,)))
        held.acknowledge(is_made=True)
        assert 100_000 < flight.total < 110_000
    assert flight.total == 0

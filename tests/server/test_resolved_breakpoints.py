"""A breakpoint is resolved while its caller waits, and for no longer than ``question_seconds``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import LimitExceeded
from symd.server.call import Call, CallEnded
from symd.server.config import Right
from symd.server.rpc.question_services import resolve_breakpoint
from symd.store import Store
from symd.v1.breakpoint_service_pb2 import ResolveBreakpointRequest

SAMPLE = Path(__file__).parents[2] / "samples/kernels/bin/vadd/dg2-opt.zebin"


@pytest.fixture
def asked(tmp_path):
    """What asks, by the seconds that a question may take and a call."""
    with Engine(Store(tmp_path)) as engine:
        digest = engine.add(SAMPLE.read_bytes()).sha256
        request = ResolveBreakpointRequest(module=f"modules/{digest}")
        request.breakpoint.line.file, request.breakpoint.line.line = "vadd.cl", 5

        def ask(seconds: float, call: Call) -> int:
            config = SimpleNamespace(limits=Limits(question_seconds=seconds))
            return len(resolve_breakpoint(SimpleNamespace(engine=engine, config=config), request, call).locations)

        yield ask


def call() -> Call:
    return Call("ResolveBreakpoint", Right.READ, "peer", None)


def test_nothing_is_looked_through_for_a_caller_who_has_left(asked):
    left = call()
    assert asked(1000, left) == 1
    left.end()
    with pytest.raises(CallEnded):
        asked(1000, left)


def test_it_takes_no_longer_than_a_question_may(asked):
    with pytest.raises(LimitExceeded) as caught:
        asked(-1, call())
    assert caught.value.metadata["limit"] == "question_seconds"

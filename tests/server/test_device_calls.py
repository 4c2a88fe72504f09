"""A batch of device addresses ends when its caller has left, and after ``question_seconds``."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import LimitExceeded
from symd.model.contexts import Context
from symd.server.call import Call, CallEnded
from symd.server.config import Right
from symd.server.rpc.question_services import symbolize
from symd.store import Store
from symd.v1.query_pb2 import Origin, PackedQueries
from symd.v1.symbol_service_pb2 import SymbolizeRequest


@pytest.fixture
def asked(tmp_path):
    """What asks, by the seconds that a question may take and a call."""
    with Store(tmp_path) as store:
        engine = Engine(store)
        origin = Origin(context=f"contexts/{engine.contexts.add(Context(host='here'))}")
        request = SymbolizeRequest(packed_queries=PackedQueries(origins=[origin], values=bytes(8), count=1))

        def ask(seconds: float, call: Call) -> int:
            service = SimpleNamespace(
                engine=engine,
                config=SimpleNamespace(limits=Limits(question_seconds=seconds)),
                addresses_at_work=SimpleNamespace(acquired=lambda _: nullcontext()),
            )
            return symbolize(service, request, call).packed_answers.count

        yield ask


def call() -> Call:
    return Call("Symbolize", Right.READ, "peer", None)


def test_nothing_is_looked_up_for_a_caller_who_has_left(asked):
    left = call()
    assert asked(1000, left) == 1
    left.end()
    with pytest.raises(CallEnded):
        asked(1000, left)


def test_a_question_takes_no_longer_than_others_may(asked):
    with pytest.raises(LimitExceeded) as caught:
        asked(-1, call())
    assert caught.value.metadata["limit"] == "question_seconds"

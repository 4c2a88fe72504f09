"""ReadCore: few answers are made at a time, and none for a caller who has left."""

from __future__ import annotations

import threading
import time

import grpc
import pytest

from symd.config import Limits
from symd.model.answers import Answer, Frame, Reason
from symd.model.cores import CoreDump, CoreFrame, CoreStack
from symd.model.variables import InScope
from symd.rpc.wire import cores, variables
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.server.work_queues import Work
from symd.v1.core_service_pb2 import ReadCoreRequest
from symd.v1.core_service_pb2_grpc import CoreServiceStub
from symd.v1.query_pb2 import Query
from symd.v1.variable_service_pb2 import GetVariablesRequest
from symd.v1.variable_service_pb2_grpc import VariableServiceStub
from tests.server.fakes import FakeEngine

REQUEST = ReadCoreRequest(module="modules/" + "1" * 64)


class Reading(FakeEngine):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.let = threading.Event()
        self.asked = 0

    def core(self, _digest: str, _modules: object = ()) -> CoreDump:
        self.asked += 1
        self.begun.release()
        assert self.let.wait(60)
        return CoreDump("cuda-core")


@pytest.fixture
def reading(tmp_path, monkeypatch):
    monkeypatch.setattr("symd.server.work_queues.LARGE_ANSWERS", 1)
    engine = Reading()
    config = Config(store=tmp_path, address=f"unix:{tmp_path}/s", workers=4, streams=4, grace=1.0)
    daemon = build_daemon(engine, config)
    with listening(daemon.server, config.address) as address:
        daemon.server.start()
        with grpc.insecure_channel(address) as channel:
            yield engine, CoreServiceStub(channel), daemon.work_queues
        engine.let.set()
        daemon.stop(0.2)


def test_one_at_a_time_and_none_for_who_has_left(reading):
    engine, stub, work_queues = reading
    first = stub.ReadCore(REQUEST, timeout=60)
    assert engine.begun.acquire(timeout=30)
    others = [stub.ReadCore(REQUEST, timeout=60) for _ in range(3)]
    assert not engine.begun.acquire(timeout=0.5)
    others[0].cancel()
    others[1].cancel()
    deadline = time.monotonic() + 30
    while work_queues[Work.STREAM].running > 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    engine.let.set()
    assert len(list(first)) == 1
    assert len(list(others[2])) == 1
    assert engine.asked == 2


def test_a_stack_of_long_names_is_not_written(tmp_path, monkeypatch):
    """Each of its calls may be of a function whose name is as long as whoever made the module liked."""
    call = CoreFrame("return", 0, None, Reason.EXACT, (Frame("n" * 1000, None, "f", 1, 0, False),))
    stack = CoreStack(0, None, None, None, True, 0, None, (call,) * 20, ())
    monkeypatch.setattr(cores, "to_parts", lambda _dump: pytest.fail("written"))
    engine = FakeEngine()
    engine.core = lambda *_: CoreDump("cuda-core", stacks=(stack,))
    config = Config(limits=Limits(response_bytes=10_000), store=tmp_path, address=f"unix:{tmp_path}/s")
    daemon = build_daemon(engine, config)
    with listening(daemon.server, config.address) as address, grpc.insecure_channel(address) as channel:
        daemon.server.start()
        with pytest.raises(grpc.RpcError) as caught:
            list(CoreServiceStub(channel).ReadCore(REQUEST, timeout=60))
        daemon.stop(0.2)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_an_answer_of_long_names_beside_variables_is_not_written(tmp_path, monkeypatch):
    at = Answer(Reason.EXACT, frames=(Frame("n" * 1000, None, "f", 1, 0, False),) * 20)
    monkeypatch.setattr(variables, "to_place", lambda _found: pytest.fail("written"))
    engine = FakeEngine()
    engine.variables = lambda *_, **_options: [InScope(at)]
    config = Config(limits=Limits(response_bytes=10_000), store=tmp_path, address=f"unix:{tmp_path}/s")
    daemon = build_daemon(engine, config)
    request = GetVariablesRequest(module=REQUEST.module, queries=[Query(address=0x150)])
    with listening(daemon.server, config.address) as address, grpc.insecure_channel(address) as channel:
        daemon.server.start()
        with pytest.raises(grpc.RpcError) as caught:
            VariableServiceStub(channel).GetVariables(request, timeout=60)
        daemon.stop(0.2)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

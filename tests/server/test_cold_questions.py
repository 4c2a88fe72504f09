"""Questions about a module whose index takes long: they hold no threads that others need."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import grpc
import pytest

from symd.client import Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.reading.questions import InProcessReader, MakeIndex
from symd.model.addresses import ByAddress, ObjectAddress
from symd.server import answering, work_queues
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.server.work_queues import Work
from symd.store import Store
from symd.v1 import context_service_pb2 as c
from symd.v1 import query_pb2 as q
from symd.v1 import symbol_service_pb2 as s
from symd.v1.context_pb2 import Context, Load, MapEvent
from symd.v1.context_service_pb2_grpc import ContextServiceStub
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.server.test_budgets import eventually

SAMPLES = Path(__file__).parents[2] / "samples"
BIN = SAMPLES / "kernels" / "bin"
SHADE = SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co"
SLOW, QUICK = ((BIN / name / "dg2-opt.dbg").read_bytes() for name in ("raycast", "vadd"))
SECONDS = 60
"""Against hanging."""


class Held(InProcessReader):
    """Reads one module only when it is let."""

    def __init__(self, digest: str) -> None:
        super().__init__(Limits())
        self.digest = digest
        self.began, self.go_on = threading.Event(), threading.Event()

    def ask(self, module, question):
        if isinstance(question, MakeIndex) and module.digest == self.digest:
            self.began.set()
            assert self.go_on.wait(SECONDS)
        return super().ask(module, question)


def question(data: bytes) -> s.SymbolizeRequest:
    name = f"modules/{hashlib.sha256(data).hexdigest()}"
    return s.SymbolizeRequest(module=name, queries=[q.Query(address=0x10)])


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A reader, a daemon with four threads for such questions, and a channel to it; both modules are stored and neither is indexed."""
    monkeypatch.setattr(work_queues, "COLD_QUESTIONS", 4)
    reader = Held(hashlib.sha256(SLOW).hexdigest())
    config = Config(store=tmp_path, address=f"unix:{tmp_path}/s", grace=1.0)
    store = Store(tmp_path / "store")
    for data in (SLOW, QUICK):
        store.put(data)
    with Engine(store, reader=reader) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, grpc.insecure_channel(address) as channel:
            daemon.server.start()
            yield reader, daemon, channel
            reader.go_on.set()
            daemon.stop(0.2)


def test_those_who_wait_for_one_index_hold_one_thread(slow) -> None:
    reader, daemon, channel = slow
    symbols = SymbolServiceStub(channel)
    queue = daemon.work_queues[Work.COLD_QUESTION]
    calls = [symbols.Symbolize.future(question(SLOW), timeout=SECONDS) for _ in range(20)]
    assert reader.began.wait(SECONDS)
    assert eventually(lambda: (queue.running, queue.waiting) == (1, 19))
    assert len(symbols.Symbolize(question(QUICK), timeout=SECONDS).answers) == 1
    assert not any(call.done() for call in calls)
    reader.go_on.set()
    assert {len(call.result(SECONDS).answers) for call in calls} == {1}


def test_those_who_leave_wait_no_longer(slow) -> None:
    _, daemon, channel = slow
    symbols = SymbolServiceStub(channel)
    queue = daemon.work_queues[Work.COLD_QUESTION]
    calls = [symbols.Symbolize.future(question(SLOW), timeout=SECONDS) for _ in range(20)]
    assert eventually(lambda: (queue.running, queue.waiting) == (1, 19))
    for call in calls:
        call.cancel()
    assert eventually(lambda: (queue.running, queue.waiting) == (1, 0))


def test_loads_that_wait_for_an_index_hold_no_thread_of_the_writes(slow) -> None:
    reader, daemon, channel = slow
    contexts, queue = ContextServiceStub(channel), daemon.work_queues[Work.WRITE]
    made = contexts.CreateContext(c.CreateContextRequest(context=Context(host="gpu1")), timeout=SECONDS)
    asked = SymbolServiceStub(channel).Symbolize.future(question(SLOW), timeout=SECONDS)
    assert reader.began.wait(SECONDS)
    load = Load(module=f"modules/{hashlib.sha256(SLOW).hexdigest()}", load_base=0x1000)
    request = c.RecordEventsRequest(context=made.context.name, events=[MapEvent(load=load)])
    calls = [contexts.RecordEvents.future(request, timeout=SECONDS) for _ in range(20)]
    assert eventually(lambda: (queue.running, queue.waiting) == (0, 20))
    reader.go_on.set()
    assert {len(call.result(SECONDS).keys) for call in calls} == {1}
    assert len(asked.result(SECONDS).answers) == 1


def test_the_first_question_about_a_stored_index_takes_no_message_and_opens_nothing(tmp_path, monkeypatch) -> None:
    with Engine(Store(tmp_path / "store")) as engine:
        digest = engine.add(SHADE.read_bytes()).sha256
        said = engine.symbolize_one(digest, ByAddress(ObjectAddress(0x1978)))
    config = Config(store=tmp_path, address=f"unix:{tmp_path}/s", grace=1.0)
    with Engine(Store(tmp_path / "store")) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address) as client:
            daemon.server.start()
            with monkeypatch.context() as patch:
                patch.setattr(answering, "_run_handler", None)
                assert client.symbolize_one(digest, ByAddress(ObjectAddress(0x1978))) == said
                assert not engine.is_open(digest)
            assert client.symbolize_one(digest, ByAddress(ObjectAddress(0x1978))) == said
            assert engine.is_open(digest)
        daemon.stop(0.2)

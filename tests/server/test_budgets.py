"""Clients that keep the daemon waiting, or send more than they may: they are ended by the name of the limit, and a neighbour is
answered meanwhile."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from symd.config import Limits
from symd.errors import DeadlineExceeded, LimitExceeded
from symd.index.format import Strings
from symd.model.addresses import ByAddress, SectionOffset
from symd.model.answers import Answer, Candidate, Frame, Reason, TextSection
from symd.model.cancellation import check_cancelled
from symd.model.identities import ObjectPath
from symd.rpc.wire.fields import utf8
from symd.server import batches, waiting
from symd.server.call import Call, CallEnded
from symd.server.config import Config, Right
from symd.server.guard import cancelled_with_call
from symd.server.listening import listening
from symd.server.messages import BytesInFlight
from symd.server.server import build_daemon, methods
from symd.server.work_queues import Work
from symd.v1 import module_service_pb2 as m
from symd.v1 import query_pb2 as q
from symd.v1 import symbol_service_pb2 as s
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.builders.index_file import encode_strings
from tests.server.fakes import AMBIGUOUS, DIGEST, GOOD, FakeEngine
from tests.server.fixed_bounds import bounded
from tests.server.http2 import Connection, message
from tests.server.test_calls import refusal, upload

NAME = f"modules/{DIGEST}"
ONE = s.SymbolizeRequest(module=NAME, queries=[q.Query(address=0x150)])
SYMBOLIZE, STREAM = "symd.v1.SymbolService.Symbolize", "symd.v1.SymbolService.SymbolizeStream"
UPLOAD, LINES = "symd.v1.ModuleService.UploadModule", "symd.v1.SymbolService.GetLineTable"


ENOUGH = {"daemon_memory": 1 << 40}
"""The daemon shares this process with whatever other tests have left in its memory."""


@contextmanager
def served(tmp_path, streams=3, **limits):
    """(address, daemon) over the fake engine."""
    address, engine = f"unix:{tmp_path}/s", FakeEngine()
    engine.add(GOOD)
    with bounded(**ENOUGH | limits) as limits:
        config = Config(limits=limits, store=tmp_path, address=address, workers=4, streams=streams, grace=1.0)
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address:
            daemon.server.start()
            yield address, daemon
            engine.hold.set()
            daemon.stop(0.2)


ANSWERED_WITHIN = 60
"""Seconds: against hanging. Client, neighbour and daemon share this process, and it may share its processors."""


@contextmanager
def neighbour(address):
    """Another client, which is answered all the time: at the beginning, until the end, and then. Where the daemon is short of memory
    it may be told to ask again."""
    with grpc.insecure_channel(address, (("grpc.use_local_subchannel_pool", 1),)) as channel:
        symbols, health = SymbolServiceStub(channel), health_pb2_grpc.HealthStub(channel)

        def ask():
            assert symbols.Symbolize(ONE, timeout=ANSWERED_WITHIN, wait_for_ready=True).answers[0].frames
            assert health.Check(health_pb2.HealthCheckRequest(), timeout=ANSWERED_WITHIN).status == 1

        over, failures = threading.Event(), []

        def go_on():
            while not over.wait(0.01):
                try:
                    ask()
                except grpc.RpcError as error:
                    if "daemon_memory" not in error.details():
                        failures.append(error)

        asking = threading.Thread(target=go_on)
        ask()
        asking.start()
        try:
            yield channel
        finally:
            over.set()
            asking.join()
        ask()
        assert failures == []


def eventually(true, seconds=ANSWERED_WITHIN):
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


@pytest.mark.parametrize("method", [SYMBOLIZE, STREAM, UPLOAD, "grpc.health.v1.Health.Check"])
def test_calls_without_a_message_hold_nobody_up_and_are_ended(tmp_path, method):
    with served(tmp_path, message_seconds=1.0) as (address, _), neighbour(address), ExitStack() as stack:
        connections = [stack.enter_context(Connection(address)) for _ in range(3)]
        for connection in connections:
            for _ in range(100):
                connection.call(method)
        endings = [each for connection in connections for each in connection.endings(100).values()]
        assert all(b"no message came" in each for each in endings)


def test_of_too_many_calls_without_a_message_the_oldest_are_ended(tmp_path):
    limits = {"message_seconds": 600.0, "waiting_calls": 50}
    with served(tmp_path, **limits) as (address, _), neighbour(address), Connection(address) as connection:
        oldest = {connection.call(SYMBOLIZE) for _ in range(100)}
        endings = connection.endings(50)
        for _ in range(100):  # gRPC hands calls that come together over in any order
            connection.call(SYMBOLIZE)
        while len(endings) < 150:  # of an ended call a RST_STREAM may follow
            endings = connection.endings(1) | endings
        assert oldest <= set(endings)
        assert all(b"has waited longest" in each for each in endings.values())


def test_a_connection_has_so_many_calls_at_a_time(tmp_path):
    limits = {"message_seconds": 600.0, "calls_per_connection": 20}
    with served(tmp_path, **limits) as (address, _), neighbour(address), Connection(address) as connection:
        connection.read_frame()  # the daemon's settings, and our word that we have seen them
        connection.read_frame()
        for _ in range(30):
            connection.call(SYMBOLIZE)
        assert set(connection.endings(10).values()) == {b"RST"}


def test_idle_streams_leave_room_for_uploads_and_are_ended(tmp_path):
    with served(tmp_path, idle_seconds=1.0) as (address, daemon), neighbour(address) as channel:
        modules, symbols = ModuleServiceStub(channel), SymbolServiceStub(channel)
        over = threading.Event()

        def idle():
            yield s.SymbolizeStreamRequest(id=1, request=ONE)
            over.wait(60)

        calls = [symbols.SymbolizeStream(idle()) for _ in range(3)]
        assert [next(call).id for call in calls] == [1, 1, 1]
        assert modules.UploadModule(upload(GOOD)).module.name == NAME
        for call in calls:
            code, reason, metadata = refusal(lambda call=call: next(call))
            assert (code, reason, metadata["limit"]) == (
                grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", "idle_seconds",
            )  # fmt: skip
        over.set()
        assert eventually(lambda: daemon.work_queues[Work.STREAM].running == 0)


def test_a_stream_is_not_idle_while_the_daemon_works(tmp_path):
    with served(tmp_path, idle_seconds=0.4) as (address, daemon), grpc.insecure_channel(address) as channel:
        engine = daemon.engine

        def batches():
            yield s.SymbolizeStreamRequest(id=1, request=ONE)
            assert engine.hold.wait(ANSWERED_WITHIN)

        engine.hold.clear()
        threading.Timer(1.5, engine.hold.set).start()
        answers = SymbolServiceStub(channel).SymbolizeStream(batches())
        assert next(answers).id == 1  # whether the client then says in time that nothing more comes is another question
        answers.cancel()


COLUMN = q.PackedQueries(values=np.full(10_000, 0x150, "<u8").tobytes(), count=10_000)
LARGE = s.SymbolizeRequest(module=NAME, packed_queries=COLUMN)
"""More than 64 KiB: a large batch."""
STREAMS = 40


@contextmanager
def held_batches(daemon):
    """Batches of columns wait until what is given here is set; it counts those that are at work."""
    at_work, go_on, symbolize = [], threading.Event(), daemon.engine.symbolize_column

    def held(*asked, **options):
        at_work.append(1)
        assert go_on.wait(ANSWERED_WITHIN)
        return symbolize(*asked, **options)

    daemon.engine.symbolize_column = held
    try:
        yield at_work, go_on
    finally:
        go_on.set()


def test_batches_of_streams_take_their_turns_among_those_of_calls(tmp_path):
    with served(tmp_path, streams=STREAMS + 1) as (address, daemon), grpc.insecure_channel(address) as channel:
        symbols, queue = SymbolServiceStub(channel), daemon.work_queues[Work.BATCH]
        with held_batches(daemon) as (at_work, go_on):
            streams = [
                symbols.SymbolizeStream(iter([s.SymbolizeStreamRequest(id=number, request=LARGE)]))
                for number in range(STREAMS)
            ]
            assert eventually(lambda: (queue.running, queue.waiting) == (2, STREAMS - 2), 20)
            call = symbols.Symbolize.future(LARGE)
            assert eventually(lambda: queue.waiting == STREAMS - 1)
            assert symbols.Symbolize(ONE, timeout=ANSWERED_WITHIN).answers[0].frames
            lines = symbols.GetLineTable(s.GetLineTableRequest(module=NAME))
            assert eventually(lambda: queue.waiting == STREAMS)
            assert len(at_work) == 2
            lines.cancel()
            streams.pop().cancel()
            assert eventually(lambda: queue.waiting == STREAMS - 2)  # whoever has left gives the place back
            go_on.set()
            answers = [next(stream) for stream in streams]
        assert [each.id for each in answers] == list(range(STREAMS - 1))
        assert all(each.HasField("response") for each in answers)
        assert call.result(ANSWERED_WITHIN).HasField("packed_answers")
        assert eventually(lambda: (queue.running, queue.waiting) == (0, 0))


def test_a_batch_of_a_stream_that_finds_no_room_is_refused_and_the_stream_goes_on(tmp_path):
    limits = {"batches": 1, "queued_calls": 1}
    with served(tmp_path, **limits) as (address, daemon), grpc.insecure_channel(address) as channel:
        symbols, queue, again = SymbolServiceStub(channel), daemon.work_queues[Work.BATCH], threading.Event()

        def twice():
            yield s.SymbolizeStreamRequest(id=1, request=LARGE)
            assert again.wait(ANSWERED_WITHIN)
            yield s.SymbolizeStreamRequest(id=2, request=LARGE)

        with held_batches(daemon) as (_, go_on):
            calls = [symbols.Symbolize.future(LARGE) for _ in range(2)]
            assert eventually(lambda: (queue.running, queue.waiting) == (1, 1))
            stream = symbols.SymbolizeStream(twice())
            refused = next(stream)
            go_on.set()
            assert [call.result(ANSWERED_WITHIN).HasField("packed_answers") for call in calls] == [True, True]
            again.set()
            answered = next(stream)
        assert (refused.id, refused.failure.code) == (1, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
        assert (answered.id, answered.WhichOneof("outcome")) == (2, "response")


def test_an_upload_that_stops_half_way_is_ended_and_leaves_its_place(tmp_path):
    with served(tmp_path, idle_seconds=1.0, uploads=1) as (address, _), neighbour(address) as channel:
        over = threading.Event()

        def half():
            yield from list(upload(GOOD, chunk=1000))[:3]
            over.wait(60)

        modules = ModuleServiceStub(channel)
        code, _, metadata = refusal(lambda: modules.UploadModule(half()))
        over.set()
        assert (code, metadata["limit"]) == (grpc.StatusCode.DEADLINE_EXCEEDED, "idle_seconds")
        assert modules.UploadModule(upload(GOOD)).module.name == NAME


def test_uploads_beyond_the_bound_are_refused_while_streams_go_on(tmp_path):
    with served(tmp_path, uploads=1) as (address, daemon), neighbour(address) as channel:
        over = threading.Event()

        def half():
            yield from list(upload(GOOD, chunk=1000))[:3]
            over.wait(60)
            yield from list(upload(GOOD, chunk=1000))[3:]

        modules = ModuleServiceStub(channel)
        first = modules.UploadModule.future(half())
        assert eventually(lambda: daemon.work_queues[Work.UPLOAD].running == 1)
        code, reason, metadata = refusal(lambda: modules.UploadModule(upload(GOOD)))
        assert (code, reason, metadata["limit"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "BUSY", "uploads")
        stream = SymbolServiceStub(channel).SymbolizeStream(iter([s.SymbolizeStreamRequest(id=7, request=ONE)]))
        assert [each.id for each in stream] == [7]
        over.set()
        assert first.result(ANSWERED_WITHIN).module.name == NAME


@pytest.mark.parametrize("method", [SYMBOLIZE, "grpc.health.v1.Health.Check"])
def test_a_message_that_comes_byte_by_byte_is_not_waited_for(tmp_path, method):
    with served(tmp_path, message_seconds=1.0) as (address, _), neighbour(address), Connection(address) as connection:
        stream = connection.call(method)
        data = message(bytes(1 << 20))
        over = threading.Event()

        def drip():
            for byte in data:
                if over.wait(0.1):
                    return
                connection.send(stream, bytes([byte]))

        dripping = threading.Thread(target=drip)
        dripping.start()
        ending = connection.endings(1)[stream]
        over.set()
        dripping.join()
        assert b"no message came" in ending


def test_a_client_that_takes_no_response_leaves_its_place(tmp_path):
    with (
        served(tmp_path, write_seconds=1.0) as (address, daemon),
        neighbour(address),
        Connection(address, window=0) as connection,
    ):
        request = message(s.GetLineTableRequest(module=NAME).SerializeToString())
        for _ in range(3):
            connection.send(connection.call(LINES), request, end=True)
        assert eventually(lambda: daemon.work_queues[Work.STREAM].running == 3)
        assert eventually(lambda: daemon.work_queues[Work.STREAM].running == 0)


def test_a_connection_that_says_nothing_is_closed(tmp_path):
    with served(tmp_path, handshake_seconds=1.0) as (address, _), neighbour(address), ExitStack() as stack:
        silent = [stack.enter_context(Connection(address, speak=False)) for _ in range(50)]
        assert all(each.is_closed() for each in silent)


def test_a_connection_without_calls_is_closed(tmp_path):
    with (
        served(tmp_path, connection_idle_seconds=1.0) as (address, _),
        neighbour(address),
        Connection(address) as connection,
    ):
        assert connection.is_closed()


def test_connections_beyond_the_bound_are_closed(tmp_path):
    with served(tmp_path, connections=20) as (address, _), neighbour(address), ExitStack() as stack:
        connections = [stack.enter_context(Connection(address)) for _ in range(30)]
        assert eventually(lambda: sum(each.is_closed(0.05) for each in connections) >= 10)


def test_compressed_messages_are_refused_before_they_are_expanded(tmp_path):
    options = (("grpc.max_send_message_length", -1),)
    with served(tmp_path) as (address, _), neighbour(address), grpc.insecure_channel(address, options) as channel:
        call = channel.unary_unary("/symd.v1.SymbolService/Symbolize")
        for size in (1 << 10, 256 << 20):
            with pytest.raises(grpc.RpcError) as caught:
                call(bytes(size), compression=grpc.Compression.Gzip, timeout=60)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert "gzip" in caught.value.details()


def test_bytes_that_are_not_http2_close_the_connection(tmp_path):
    with served(tmp_path) as (address, _), neighbour(address), Connection(address, speak=False) as connection:
        connection.socket.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        assert connection.is_closed()


def test_a_unary_call_without_a_message_is_an_invalid_request(tmp_path):
    with served(tmp_path) as (address, _), neighbour(address), Connection(address) as connection:
        stream = connection.call("symd.v1.ModuleService.ListModules")
        connection.send(stream, b"", end=True)
        assert b"no message" in connection.endings(1)[stream]


def test_questions_that_wait_for_an_index_hold_no_other_up(tmp_path):
    with served(tmp_path, cold_questions=5) as (address, daemon), grpc.insecure_channel(address) as channel:
        daemon.engine.is_open = lambda _digest: False
        daemon.engine.hold.clear()
        symbols, modules = SymbolServiceStub(channel), ModuleServiceStub(channel)
        calls = [symbols.Symbolize.future(ONE) for _ in range(20)]
        assert eventually(lambda: daemon.work_queues[Work.COLD_QUESTION].running == 3)  # a client's share
        assert modules.ListModules(m.ListModulesRequest(), timeout=ANSWERED_WITHIN).modules[0].name == NAME
        daemon.engine.hold.set()
        assert all(call.result(ANSWERED_WITHIN).answers for call in calls)


def test_no_question_waits_behind_changes_of_the_catalogue(tmp_path):
    with served(tmp_path, writes=2) as (address, daemon), grpc.insecure_channel(address) as channel:
        lock = threading.Event()
        daemon.engine.remove = lambda _digest: lock.wait(ANSWERED_WITHIN)
        modules, large = (
            ModuleServiceStub(channel),
            s.SymbolizeRequest(module=NAME, queries=[q.Query(address=0x150)] * 9_000),
        )
        calls = [modules.DeleteModule.future(m.DeleteModuleRequest(module=NAME)) for _ in range(20)]
        assert eventually(lambda: daemon.work_queues[Work.WRITE].running == 1)  # a client's share
        assert modules.ListModules(m.ListModulesRequest(), timeout=ANSWERED_WITHIN).modules[0].name == NAME
        assert SymbolServiceStub(channel).Symbolize(large, timeout=ANSWERED_WITHIN).answers
        lock.set()
        assert all(call.result(ANSWERED_WITHIN) is not None for call in calls)


def test_all_small_changes_of_the_catalogue_have_a_work_queue_of_their_own():
    changing = {name for name, method in methods().items() if method.work is Work.WRITE}
    assert {name.rpartition(".")[2] for name in changing} == {
        "CreateAliases", "CreateContext", "DeleteAlias", "DeleteContext", "DeleteModule", "RecordEvents", "UpdateModule"
    }  # fmt: skip


def test_many_questions_beyond_the_queue_are_refused_by_name(tmp_path):
    with served(tmp_path, queued_calls=5) as (address, daemon), grpc.insecure_channel(address) as channel:
        daemon.engine.hold.clear()
        symbols = SymbolServiceStub(channel)
        calls = [symbols.Symbolize.future(ONE) for _ in range(30)]
        assert eventually(lambda: sum(call.done() for call in calls) == 21)  # 4 threads have one, 5 wait
        daemon.engine.hold.set()
        codes = [call.exception(ANSWERED_WITHIN) and call.code() for call in calls]
        assert codes.count(None) == 9
        assert set(codes) == {None, grpc.StatusCode.RESOURCE_EXHAUSTED}


def test_bytes_in_flight_are_bounded_and_given_back(tmp_path):
    values = bytes(4_000_000)
    batch = s.SymbolizeRequest(module=NAME, packed_queries=q.PackedQueries(values=values, count=1_000_000))
    limits = {"bytes_in_flight": 10_000_000}
    with served(tmp_path, **limits) as (address, daemon), neighbour(address) as channel:
        daemon.engine.symbolize_column = lambda *_, **__: (
            daemon.engine.hold.wait(ANSWERED_WITHIN) and daemon.engine.symbolize(DIGEST, [])
        )
        symbols = SymbolServiceStub(channel)
        assert symbols.Symbolize(batch, timeout=ANSWERED_WITHIN)
        busy = threading.Event()
        daemon.engine.symbolize_column = lambda *_, **__: (
            busy.wait(ANSWERED_WITHIN) and daemon.engine.symbolize(DIGEST, [])
        )
        calls = [symbols.Symbolize.future(batch) for _ in range(5)]
        assert eventually(lambda: sum(call.done() for call in calls) == 3)
        for call in calls:
            if call.done():
                code, reason, metadata = refusal(call.result)
                assert (code, reason, metadata["limit"]) == (
                    grpc.StatusCode.RESOURCE_EXHAUSTED, "BUSY", "bytes_in_flight",
                )  # fmt: skip
        busy.set()
        assert sum(call.exception(ANSWERED_WITHIN) is None for call in calls) == 2
        assert eventually(lambda: daemon.flight.total == 0)
        assert symbols.Symbolize(batch, timeout=ANSWERED_WITHIN)


def test_a_streams_bytes_are_given_back(tmp_path):
    column = q.PackedQueries(values=bytes(400_000), count=100_000)
    batch = s.SymbolizeRequest(module=NAME, packed_queries=column)
    with served(tmp_path, bytes_in_flight=1_000_000) as (address, daemon), grpc.insecure_channel(address) as channel:
        daemon.engine.symbolize_column = lambda *_, **__: daemon.engine.symbolize(DIGEST, [])
        requests = (s.SymbolizeStreamRequest(id=number, request=batch) for number in range(20))
        assert len(list(SymbolServiceStub(channel).SymbolizeStream(requests))) == 20
        assert eventually(lambda: daemon.flight.total == 0)
    with (
        served(tmp_path, client_bytes_in_flight=300_000) as (address, daemon),
        grpc.insecure_channel(address) as channel,
    ):
        stream = SymbolServiceStub(channel).SymbolizeStream(iter([s.SymbolizeStreamRequest(id=1, request=batch)]))
        assert refusal(lambda: next(stream))[2]["limit"] == "client_bytes_in_flight"


def test_cancelled_uploads_give_their_bytes_back(tmp_path):
    content = b"x" * (1 << 20)
    header = m.UploadModuleRequest(header=m.UploadHeader(sha256="0" * 64, size_bytes=20 * len(content)))
    with served(tmp_path) as (address, daemon):
        for _ in range(40):
            sent = threading.Event()

            def parts(sent=sent):
                yield header
                for number in range(20):
                    if number == 8:
                        sent.set()
                    yield m.UploadModuleRequest(chunk=content)

            with grpc.insecure_channel(address, (("grpc.use_local_subchannel_pool", 1),)) as channel:
                call = ModuleServiceStub(channel).UploadModule.future(parts())
                assert sent.wait(ANSWERED_WITHIN)
                call.cancel()
        assert eventually(lambda: daemon.flight.total == 0)


@pytest.mark.parametrize(
    ("limits", "request_", "name"),
    [
        ({"request_fields": 1000}, s.SymbolizeRequest(module=NAME, queries=[q.Query(address=1 << 60)] * 110_000), "request_fields"),
        ({"row_answers": 9}, s.SymbolizeRequest(module=NAME, queries=[q.Query(address=1)] * 10), "row_answers"),
        ({"response_bytes": 400}, s.SymbolizeRequest(module=NAME, queries=[q.Query(address=0x150)] * 7), "response_bytes"),
        ({"response_bytes": 4000}, s.SymbolizeRequest(module=NAME, queries=[q.Query(address=0x150)] * 70), "response_bytes"),
        (
            {"response_bytes": 100},
            s.SymbolizeRequest(module=NAME, form=s.ANSWER_FORM_PACKED, queries=[q.Query(address=at) for at in range(99)]),
            "response_bytes",
        ),
    ],
)  # fmt: skip
def test_what_one_call_may_ask_for_is_bounded_by_name(tmp_path, limits, request_, name):
    with served(tmp_path, **limits) as (address, _), neighbour(address) as channel:
        code, reason, metadata = refusal(
            lambda: SymbolServiceStub(channel).Symbolize(request_, timeout=ANSWERED_WITHIN)
        )
        assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")
        assert (metadata["limit"], metadata["value"]) == (name, str(limits[name]))


def test_candidates_are_counted_before_they_are_written(tmp_path, monkeypatch):
    several = (Candidate(ObjectPath("inner"), ".text", 1, SectionOffset(0), "k" * 600),)
    with served(tmp_path, response_bytes=1000) as (address, daemon), grpc.insecure_channel(address) as channel:
        answers = daemon.engine.symbolize(DIGEST, [ByAddress(AMBIGUOUS)] * 2)
        ambiguous = replace(answers, candidates=dict.fromkeys(range(2), several))
        daemon.engine.symbolize_column = lambda *_, **__: ambiguous
        monkeypatch.setattr(batches, "write_columns", lambda *_: pytest.fail("written"))
        request = s.SymbolizeRequest(module=NAME, packed_queries=q.PackedQueries(values=bytes(16), count=2))
        code, _, metadata = refusal(lambda: SymbolServiceStub(channel).Symbolize(request, timeout=ANSWERED_WITHIN))
        assert (code, metadata["limit"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "response_bytes")
    budget = batches.ResponseSizeLimit(Limits(response_bytes=1000))
    budget.count_answer(ambiguous[0])
    with pytest.raises(LimitExceeded):
        budget.count_answer(ambiguous[1])


@pytest.mark.parametrize("name", ["n" * 70_000, "\u4e00" * (70_000 // 3)], ids=["ascii", "three bytes"])
@pytest.mark.parametrize("text", ["path", "kernel", "section", "function", "linkage_name", "file"])
def test_every_text_of_an_answer_counts(text, name):
    """A module's names are as long as whoever made it liked, in bytes, and each answer spells them out."""
    answer = Answer(Reason.EXACT, ObjectPath(""), None, None, 1, 0, 0)
    if text in answer._fields:
        answer = answer._replace(**{text: name})
    else:
        answer = answer._replace(frames=(Frame(None, None, None, 0, 0, False)._replace(**{text: name}),))
    budget = batches.ResponseSizeLimit(Limits(response_bytes=100_000))
    budget.count_answer(answer)
    with pytest.raises(LimitExceeded):
        budget.count_answer(answer)


@pytest.mark.parametrize("letter", ["n", "\u00e9", "\u4e00", "\U0001f600", "\udcff"])
def test_what_is_counted_is_what_a_message_carries(letter):
    """Names in other scripts take up to four bytes a character."""
    name = letter * 1000
    carried = s.SymbolizeRequest(module=utf8(name)).ByteSize() - 3  # a tag, and two bytes of length
    candidates = (Candidate(ObjectPath(""), None, 1, SectionOffset(0), name),)
    batches.ResponseSizeLimit(Limits(response_bytes=carried + 100)).count_candidates(candidates)
    sections = (TextSection(ObjectPath(""), name, 1, 0),)
    batches.ResponseSizeLimit(Limits(response_bytes=carried + 100)).count_text_sections(sections)
    budget = batches.ResponseSizeLimit(Limits(response_bytes=carried - 1))
    with pytest.raises(LimitExceeded):
        budget.count_candidates(candidates)
    budget = batches.ResponseSizeLimit(Limits(response_bytes=carried - 1))
    with pytest.raises(LimitExceeded):
        budget.count_text_sections(sections)


@pytest.mark.parametrize("text", ["path", "kernel", "section", "frames"])
def test_an_answer_of_long_texts_is_not_written_on_the_loop(tmp_path, monkeypatch, text):
    """There nothing counts it."""
    counted = []
    with served(tmp_path) as (address, daemon), grpc.insecure_channel(address) as channel:
        (answer,) = daemon.engine.symbolize(DIGEST, [ByAddress(0x150)])
        long = "n" * 70_000
        longer = answer._replace(**{text: (answer.frames[0]._replace(function=long),) if text == "frames" else long})
        daemon.engine.answer_from_open_index = daemon.engine.symbolize_one = lambda *_, **__: longer
        hold = BytesInFlight.hold
        monkeypatch.setattr(BytesInFlight, "hold", lambda *held: counted.append(held[-1]) or hold(*held))
        request = s.SymbolizeRequest(module=NAME, queries=[q.Query(address=0x150)])
        SymbolServiceStub(channel).Symbolize(request, timeout=ANSWERED_WITHIN)
    assert max(counted) > 70_000


def test_text_sections_are_counted_before_they_are_written(tmp_path):
    """Each names its code object, of which one may have tens of thousands."""
    with served(tmp_path) as (_, daemon):
        answers = daemon.engine.symbolize(DIGEST, [ByAddress(0x150)] * 9)
    sections = [TextSection(ObjectPath("p" * 600), ".text", number, 0) for number in range(9)]
    several = replace(answers, text_section=np.arange(1, 10, dtype=np.uint32), text_sections=sections)
    batches.check_columns(several, Limits(response_bytes=6_000))
    with pytest.raises(LimitExceeded) as caught:
        batches.check_columns(several, Limits(response_bytes=5_000))
    assert caught.value.metadata["limit"] == "response_bytes"
    batches.check_columns(replace(several, text_section=several.text_section * 0), Limits(response_bytes=1))


def test_texts_of_columns_are_counted_before_they_are_read(tmp_path):
    """Compressed debug data is a thousandth of its names."""
    with served(tmp_path) as (_, daemon):
        answers = daemon.engine.symbolize(DIGEST, [ByAddress(0x150)] * 9)
    texts = ["", *(f"{number}" * 1000 for number in range(1, 7))]
    long = replace(answers.locations, strings=Strings(*encode_strings(texts)))
    several = replace(answers, locations=long)
    used = {
        number
        for at in (answers.location[0], 2)
        for number in (long.function[at], long.file[at], long.linkage_name[at])
    }
    used = (used | {long.kernel[1]}) - {0}
    assert 0 < len(used) < 6
    batches.check_columns(several, Limits(response_bytes=1000 * len(used) + 100))
    with pytest.raises(LimitExceeded) as caught:
        batches.check_columns(several, Limits(response_bytes=1000 * len(used) - 1))
    assert caught.value.metadata["limit"] == "response_bytes"


def test_a_search_for_names_ends_with_its_call_and_its_time():
    call = Call("FindNames", Right.READ, "peer", None)
    with cancelled_with_call(call, Limits()):
        check_cancelled()
    with pytest.raises(LimitExceeded) as caught, cancelled_with_call(call, Limits(question_seconds=-1)):
        check_cancelled()
    assert caught.value.metadata["limit"] == "question_seconds"
    with cancelled_with_call(call, Limits()):
        check_cancelled()
        call.end()
        with pytest.raises(CallEnded):
            check_cancelled()
    check_cancelled()
    with pytest.raises(DeadlineExceeded), cancelled_with_call(Call("FindNames", Right.READ, "peer", 0.0), Limits()):
        check_cancelled()


def look_for_names(*_given, **_how):
    while True:
        check_cancelled()
        time.sleep(0.001)


ONE_COLUMN = s.SymbolizeRequest(module=NAME, packed_queries=q.PackedQueries(values=bytes(8), count=1))


def test_a_batch_that_looks_for_names_takes_so_long_at_most(tmp_path):
    with served(tmp_path, question_seconds=0.3) as (address, daemon), neighbour(address) as channel:
        daemon.engine.symbolize_column = look_for_names
        code, _, metadata = refusal(lambda: SymbolServiceStub(channel).Symbolize(ONE_COLUMN, timeout=60))
        assert (code, metadata["limit"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "question_seconds")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_batch_that_looks_for_names_ends_with_its_call(tmp_path, streamed):
    with served(tmp_path, question_seconds=600.0) as (address, daemon), neighbour(address) as channel:
        daemon.engine.symbolize_column = look_for_names
        symbols, queue = SymbolServiceStub(channel), daemon.work_queues[Work.STREAM if streamed else Work.QUESTION]
        one = s.SymbolizeStreamRequest(id=1, request=ONE_COLUMN)
        call = symbols.SymbolizeStream(iter([one])) if streamed else symbols.Symbolize.future(ONE_COLUMN)
        assert eventually(lambda: queue.running == 1)
        call.cancel()
        assert eventually(lambda: queue.running == 0)


def test_a_large_request_that_is_no_batch_is_refused_before_it_is_read(tmp_path):
    with served(tmp_path, request_bytes=100_000) as (address, _), neighbour(address) as channel:
        request = m.FindMissingModulesRequest(modules=["modules/" + "0" * 64] * 2000)
        code, _, metadata = refusal(lambda: ModuleServiceStub(channel).FindMissingModules(request))
        assert (code, metadata["limit"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "request_bytes")


def test_half_sent_messages_that_take_memory_are_ended(tmp_path, monkeypatch):
    """All of them, and nobody else's question. What messages take of a daemon's real memory: tests/daemon/test_own_memory.py."""
    memory, looks = [100 << 20], []
    monkeypatch.setattr(waiting, "own_bytes", lambda: looks.append(memory[-1]) or memory[-1])
    body = message(bytes(1 << 20))[:-1]
    limits = {"message_seconds": 600.0, "daemon_memory": 1}
    with served(tmp_path, **limits) as (address, _), neighbour(address) as channel, ExitStack() as stack:
        begun = [stack.enter_context(Connection(address)) for _ in range(4)]
        streams = [connection.call(SYMBOLIZE) for connection in begun]
        for connection, stream in zip(begun, streams, strict=True):
            connection.push(stream, body)
        looks.clear()
        assert eventually(lambda: len(looks) > 3)
        assert not any(connection.ending for connection in begun)
        memory.append(170 << 20)
        for connection, stream in zip(begun, streams, strict=True):
            assert b"daemon_memory" in connection.endings(1, ANSWERED_WITHIN)[stream]
        memory.append(
            100 << 20
        )  # what they took; while it is short a question whose message comes late is told to ask again
        assert SymbolServiceStub(channel).Symbolize(ONE, timeout=60)


def test_memory_that_something_else_keeps_ends_no_message(tmp_path):
    with served(tmp_path, daemon_memory=1) as (address, _), Connection(address) as connection:
        stream = connection.call(SYMBOLIZE)
        time.sleep(1)
        connection.send(stream, message(ONE.SerializeToString()), end=True)
        assert b"daemon_memory" not in connection.endings(1)[stream]


def test_what_is_free_in_the_heap_ends_no_message(tmp_path, monkeypatch):
    memory, trimmed, looks = [100 << 20], threading.Event(), []
    monkeypatch.setattr(waiting, "own_bytes", lambda: looks.append(memory[-1]) or memory[-1])
    monkeypatch.setattr(waiting, "trim_heap", lambda: memory.append(101 << 20) or trimmed.set())
    limits = {"message_seconds": 600.0, "daemon_memory": 300 << 20}
    with served(tmp_path, **limits) as (address, _), Connection(address) as connection:
        stream = connection.call(SYMBOLIZE)
        assert eventually(lambda: len(looks) > 3)
        memory.append(400 << 20)
        assert trimmed.wait(ANSWERED_WITHIN)
        assert eventually(lambda: looks.count(101 << 20) > 3)
        connection.send(stream, message(ONE.SerializeToString()), end=True)
        assert b"daemon_memory" not in connection.endings(1, ANSWERED_WITHIN)[stream]

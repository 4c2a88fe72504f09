"""What a slow client's answers take is counted as bytes in flight, until it has taken them or its call has ended."""

from __future__ import annotations

from contextlib import ExitStack

import grpc
import numpy as np
import pytest

from symd.model.line_tables import Listing
from symd.model.sources import SourceText, TextOrigin
from symd.v1 import listing_service_pb2 as ls
from symd.v1 import query_pb2 as q
from symd.v1 import symbol_service_pb2 as s
from symd.v1.listing_service_pb2_grpc import ListingServiceStub
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.server.fakes import DIGEST
from tests.server.http2 import Connection, message
from tests.server.test_budgets import NAME, ONE, eventually, served
from tests.server.test_calls import refusal

SOURCES, LISTING = "symd.v1.ListingService.ReadSources", "symd.v1.ListingService.GetListing"
STREAM = "symd.v1.SymbolService.SymbolizeStream"


def answers(engine):
    """Four megabytes of source text, and about as much of a listing."""
    texts = ["s_nop 0 " * 5] * 40_000
    nothing = engine.symbolize(DIGEST, [])
    listing = Listing("", "gfx900", "tool", nothing, np.zeros(0, np.uint32), texts, "")
    engine.sources = lambda *_: [SourceText("a.cl", "x" * 4_000_000, TextOrigin.MODULE)]
    engine.listing = lambda *_: iter([listing])


@pytest.mark.parametrize(
    ("method", "request_"),
    [(SOURCES, ls.ReadSourcesRequest(module=NAME, files=["a.cl"])), (LISTING, ls.GetListingRequest(module=NAME))],
)
def test_what_a_slow_client_is_still_to_be_sent_is_counted(tmp_path, method, request_):
    with served(tmp_path, client_bytes_in_flight=10_000_000) as (address, daemon), ExitStack() as stack:
        answers(daemon.engine)
        slow = stack.enter_context(Connection(address, window=0))
        slow.send(slow.call(method), message(request_.SerializeToString()), end=True)
        assert eventually(lambda: 4_000_000 <= daemon.flight.total <= 20_000_000)
        daemon.engine.sources = lambda *_: [SourceText("a.cl", "x" * 9_000_000, TextOrigin.MODULE)]
        with grpc.insecure_channel(address) as channel:
            read = ListingServiceStub(channel).ReadSources(ls.ReadSourcesRequest(module=NAME, files=["a.cl"]))
            assert refusal(lambda: list(read))[2]["limit"] == "client_bytes_in_flight"
            assert SymbolServiceStub(channel).Symbolize(ONE, timeout=10).answers
        slow.socket.close()
        assert eventually(lambda: daemon.flight.total == 0)


def test_texts_of_sources_are_made_a_few_at_a_time(tmp_path):
    with served(tmp_path, large_answers=1) as (address, daemon), grpc.insecure_channel(address) as channel:
        begun = []

        def sources(*_):
            begun.append(1)
            daemon.engine.hold.wait(20)
            return [SourceText("a.cl", "x", TextOrigin.MODULE)]

        daemon.engine.sources = sources
        daemon.engine.hold.clear()
        stub = ListingServiceStub(channel)
        calls = [stub.ReadSources(ls.ReadSourcesRequest(module=NAME, files=["a.cl"])) for _ in range(2)]
        assert eventually(lambda: begun == [1])
        daemon.engine.hold.set()
        assert [bool(list(call)) for call in calls] == [True, True]
        assert len(begun) == 2


def test_the_messages_of_a_stream_are_counted_until_they_are_taken(tmp_path):
    column = q.PackedQueries(values=np.arange(50_000, dtype="<u8").tobytes(), count=50_000)
    batch = s.SymbolizeRequest(module=NAME, packed_queries=column)
    with served(tmp_path) as (address, daemon), ExitStack() as stack:
        slow = stack.enter_context(Connection(address, window=0))
        stream = slow.call(STREAM)
        for number in range(2):
            body = message(s.SymbolizeStreamRequest(id=number, request=batch).SerializeToString())
            slow.push(stream, body)
        least = 300_000  # of two messages of 400,000 bytes: answered, each still holds its answer
        assert eventually(lambda: daemon.flight.total > least)
        slow.socket.close()
        assert eventually(lambda: daemon.flight.total == 0)


def test_streams_go_on_one_message_at_a_time_where_there_is_no_room_for_more(tmp_path):
    column = q.PackedQueries(values=np.arange(50_000, dtype="<u8").tobytes(), count=50_000)
    batch = s.SymbolizeRequest(module=NAME, packed_queries=column)
    with served(tmp_path, bytes_in_flight=1_300_000, client_bytes_in_flight=1_300_000) as (address, daemon):
        with grpc.insecure_channel(address) as channel:
            requests = (s.SymbolizeStreamRequest(id=number, request=batch) for number in range(12))
            found = [each.id for each in SymbolServiceStub(channel).SymbolizeStream(requests, timeout=60)]
        assert found == list(range(12))
        assert eventually(lambda: daemon.flight.total == 0)

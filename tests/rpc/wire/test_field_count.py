"""Fields are counted as the encoding has them, in what is whole and in what is not."""

from __future__ import annotations

import pytest

from symd.errors import LimitExceeded
from symd.rpc.wire import columns
from symd.rpc.wire.columns import check_fields
from symd.v1 import query_pb2 as q
from symd.v1 import symbol_service_pb2 as s


@pytest.fixture(autouse=True)
def _count_all(monkeypatch):
    monkeypatch.setattr(columns, "COUNTED_BYTES", 1)


def queries(count):
    return s.SymbolizeRequest(module="n", queries=[q.Query(address=1 << (number % 64)) for number in range(count)])


@pytest.mark.parametrize("count", [0, 1, 99])
def test_each_query_is_a_field_and_its_address_another(count):
    data = queries(count).SerializeToString()
    check_fields(data, s.SymbolizeRequest.DESCRIPTOR, 1 + 2 * count)
    with pytest.raises(LimitExceeded, match="more than"):
        check_fields(data, s.SymbolizeRequest.DESCRIPTOR, 2 * count)


def test_a_batch_in_a_message_of_a_stream_is_counted_too():
    data = s.SymbolizeStreamRequest(id=1 << 40, request=queries(50)).SerializeToString()
    check_fields(data, s.SymbolizeStreamRequest.DESCRIPTOR, 103)
    with pytest.raises(LimitExceeded):
        check_fields(data, s.SymbolizeStreamRequest.DESCRIPTOR, 102)


def test_a_column_of_any_length_is_three_fields():
    column = q.PackedQueries(values=bytes(5_000_000), count=1_000_000)
    check_fields(s.SymbolizeRequest(packed_queries=column).SerializeToString(), s.SymbolizeRequest.DESCRIPTOR, 3)


def test_numbers_of_fixed_width_are_stepped_over():
    data = b"\x09" + bytes(8) + b"\x0d" + bytes(4) + b"\x10\x01"
    check_fields(data, s.SymbolizeRequest.DESCRIPTOR, 3)
    with pytest.raises(LimitExceeded):
        check_fields(data, s.SymbolizeRequest.DESCRIPTOR, 2)


@pytest.mark.parametrize("data", [b"\xff" * 40, b"\x0b\x0c", b"\x1a\xff\xff\xff\xff\x7f", b"\x1a", b"\x80"])
def test_what_is_no_message_ends(data):
    check_fields(data, s.SymbolizeRequest.DESCRIPTOR, 1000)

"""The plain question for one address, in bytes, says what Protocol Buffers says; whatever else there may be is left to it."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import BadQuery
from symd.model.addresses import ByAddress
from symd.v1.query_pb2 import KernelOffset, Query
from symd.v1.symbol_service_pb2 import SymbolizeRequest
from symd.wire import one_address

DIGEST = "0123456789abcdef" * 4
NAME = f"modules/{DIGEST}"
EDGES = [0, 1, 127, 128, 16383, 16384, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
ADDRESSES = st.one_of(st.sampled_from(EDGES), st.integers(0, (1 << 64) - 1))


def written(address: int) -> bytes:
    return SymbolizeRequest(name=NAME, queries=[Query(address=address)]).SerializeToString()


@given(ADDRESSES)
def test_it_is_written_and_read_as_protocol_buffers_does(address: int) -> None:
    data = one_address.to_request(NAME, address)
    assert data == written(address)
    assert one_address.from_request(data) == (DIGEST, ByAddress(address))


@pytest.mark.parametrize("address", [-1, 1 << 64])
def test_a_number_outside_64_bits_is_refused(address: int) -> None:
    with pytest.raises(BadQuery, match="does not fit"):
        one_address.to_request(NAME, address)


@pytest.mark.parametrize(
    "more",
    [
        {"path": ""},
        {"path": "a"},
        {"as_written": True},
        {"form": 2},
        {"keeps_tables": True},
        {"known_tables": [b"a"]},
        {"column": {"count": 1}},
        {"queries": [Query(address=5)] * 2},
        {"queries": [Query(kernel_offset=KernelOffset(kernel="vadd", offset=5))]},
        {"queries": [Query()]},
        {"queries": []},
        {"name": ""},
        {"name": f"modules/{DIGEST[:-1]}G"},
        {"name": f"Modules/{DIGEST}"},
        {"name": f"{NAME}0"},
    ],
    ids=str,
)
def test_any_other_question_is_left_to_protocol_buffers(more: dict[str, object]) -> None:
    request = SymbolizeRequest(**{"name": NAME, "queries": [Query(address=5)], **more})  # type: ignore[arg-type]
    assert one_address.from_request(request.SerializeToString()) is None


PLACES = st.integers(0, 90)


@given(ADDRESSES, st.lists(st.tuples(PLACES, st.integers(0, 255)), max_size=3), PLACES, st.binary(max_size=4))
def test_what_is_read_of_changed_bytes_is_what_they_say(
    address: int, changes: list[tuple[int, int]], cut: int, tail: bytes
) -> None:
    data = bytearray(written(address))
    for at, byte in changes:
        data[min(at, len(data) - 1)] = byte
    _agrees(bytes(data))
    _agrees(bytes(data[:cut]) + tail)
    _agrees(bytes(data) + tail)


@pytest.mark.parametrize(
    "number", [b"\x80\x00", b"\x85\x80\x80\x00", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x7f", b"\x80"]
)
def test_numbers_that_are_longer_than_they_must_be_are_read_as_they_are(number: bytes) -> None:
    _agrees(written(0)[:-3] + bytes((len(number) + 1, 0x08)) + number)


def _agrees(data: bytes) -> None:
    found = one_address.from_request(data)
    if found is None:
        return
    try:
        read = SymbolizeRequest.FromString(data)
    except DecodeError:
        pytest.fail(f"{data!r} is no message")
    digest, query = found
    assert read == SymbolizeRequest(name=f"modules/{digest}", queries=[Query(address=query.address)])

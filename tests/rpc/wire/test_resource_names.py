"""The module's name with which a request begins is found without decoding the request."""

from __future__ import annotations

import pytest

from symd.rpc.wire.fields import leading_digest, leading_digest_of_batch, module_name
from symd.v1.listing_service_pb2 import GetListingRequest
from symd.v1.module_service_pb2 import ListModulesRequest, ReadCodeObjectRequest
from symd.v1.query_pb2 import Query
from symd.v1.symbol_service_pb2 import SymbolizeRequest, SymbolizeStreamRequest

DIGEST = "ab" * 32


@pytest.mark.parametrize("kind", [GetListingRequest, ReadCodeObjectRequest, SymbolizeRequest])
def test_a_request_begins_with_its_module(kind) -> None:
    request = kind(module=module_name(DIGEST), code_object="kernel/0")
    assert leading_digest(request.SerializeToString()) == DIGEST


@pytest.mark.parametrize("number", [0, 1, 10, 300, (1 << 64) - 1])
@pytest.mark.parametrize("count", [0, 1, 100, 100_000])
def test_a_request_of_a_stream_begins_with_its_batchs_module(number: int, count: int) -> None:
    batch = SymbolizeRequest(module=module_name(DIGEST), queries=[Query(address=1)] * count)
    assert leading_digest_of_batch(SymbolizeStreamRequest(id=number, request=batch).SerializeToString()) == DIGEST


def test_a_request_of_a_stream_without_a_name_begins_with_none() -> None:
    requests = (SymbolizeStreamRequest(id=1), SymbolizeStreamRequest(request=SymbolizeRequest()))
    assert [leading_digest_of_batch(each.SerializeToString()) for each in requests] == [None, None]


def test_a_name_that_is_no_digest_is_left_to_whoever_decodes_the_request() -> None:
    assert leading_digest(SymbolizeRequest(module="modules/1").SerializeToString()) == "1"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x0a",
        b"\x12\x48modules/" + DIGEST.encode(),
        SymbolizeRequest(module="contexts/1").SerializeToString(),
        ListModulesRequest(page_size=3).SerializeToString(),
    ],
)
def test_other_requests_begin_with_none(data: bytes) -> None:
    assert leading_digest(data) is None

"""A daemon that answers fewer addresses than it was asked about, with status OK: the client says so and makes up no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from symd import AsyncClient, Client
from symd.errors import Malformed
from symd.model.addresses import ByKernel, KernelOffset
from symd.v1.server_service_pb2 import GetServerInfoResponse, ServerInfo

DIGEST = "ab" * 32
FEW = [0x1900]
KERNELS = [ByKernel("shade", KernelOffset(at)) for at in range(3)]
MANY_KERNELS = [ByKernel("shade", KernelOffset(at)) for at in range(100)]
COLUMN = np.arange(1000, dtype=np.uint64)
STREAM = np.arange(1 << 18, dtype=np.uint64)


def _heard_out(requests: Iterator[bytes], _context: grpc.ServicerContext) -> Iterator[bytes]:
    list(requests)
    return iter(())


class Empty(grpc.GenericRpcHandler):
    """Answers each call with an empty message, and each stream with none."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        if details.method.endswith("Stream"):
            return grpc.stream_stream_rpc_method_handler(_heard_out)
        info = GetServerInfoResponse(info=ServerInfo(max_batch=1 << 20)).SerializeToString()
        said = info if details.method.endswith("GetServerInfo") else b""
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: said)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2), handlers=[Empty()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.mark.parametrize("asked", [FEW, KERNELS, MANY_KERNELS, COLUMN, STREAM], ids=len)
def test_answers_that_are_missing_are_named(address: str, asked: object) -> None:
    with (
        Client(address) as client,
        pytest.raises(Malformed, match=f"{len(asked)} addresses were asked, 0 are answered"),
    ):  # type: ignore[arg-type]
        client.symbolize(DIGEST, asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [FEW, KERNELS, MANY_KERNELS, COLUMN, STREAM], ids=len)
def test_answers_that_are_missing_are_named_where_they_are_awaited(address: str, asked: object) -> None:
    async def ask() -> None:
        async with AsyncClient(address) as client:
            await client.symbolize(DIGEST, asked)  # type: ignore[arg-type]

    with pytest.raises(Malformed, match=f"{len(asked)} addresses were asked, 0 are answered"):  # type: ignore[arg-type]
        asyncio.run(ask())


def test_one_answer_that_is_missing_is_named(address: str) -> None:
    with Client(address) as client, pytest.raises(Malformed, match="1 addresses were asked, 0 are answered"):
        client.symbolize_one(DIGEST, 0x1900)

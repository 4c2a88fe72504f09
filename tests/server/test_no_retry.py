"""A call that waited in vain for the lock of the catalogue is not sent again by gRPC, which would wait as long each time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from symd.errors import StoreUnavailable, SymdError
from symd.rpc.channel import SEVERAL_DAEMONS_OPTIONS
from symd.server.guard import status_of
from symd.store.catalogue import locked_by_another


def times_sent(error: SymdError) -> int:
    """How often a client of several daemons sends a call that ends so."""
    sent: list[object] = []

    def end(request: bytes, context: grpc.ServicerContext) -> bytes:
        sent.append(request)
        context.abort_with_status(status_of(error))
        raise AssertionError("abort returned")

    method = grpc.unary_unary_rpc_method_handler(end)
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", {"Ask": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=SEVERAL_DAEMONS_OPTIONS) as channel:
            with pytest.raises(grpc.RpcError):
                channel.unary_unary("/test.Service/Ask")(b"", timeout=30)
            return len(sent)
    finally:
        server.stop(None).wait()


def test_only_a_call_that_waited_for_the_lock_is_not_sent_again():
    assert times_sent(locked_by_another(Path("catalogue.sqlite"), 30.0)) == 1
    assert times_sent(StoreUnavailable("the disk is away", where="store")) > 1

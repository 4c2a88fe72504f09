"""grpc.aio's server on an event loop in a thread of its own, so that whoever starts and stops it is plain code in another
thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import grpc
import grpc.aio

from symd.server.logs import leave_out_vanished_clients

Result = TypeVar("Result")
Options = Sequence[tuple[str, int]]


class Server:
    """A server of grpc.aio that is not listening yet, on an event loop in a thread of its own. The methods may be
    called from any thread but the loop's own, each once the one before returned."""

    def __init__(self, handler: grpc.GenericRpcHandler, options: Options) -> None:
        leave_out_vanished_clients()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="symd-loop", daemon=True)
        self._thread.start()
        others = threading.enumerate()
        self._server: grpc.aio.Server = self.wait_for(_new_server(handler, options))
        self._pollers = [thread for thread in threading.enumerate() if thread not in others]

    @property
    def threads(self) -> Sequence[int]:
        """Native ids of the threads that hand a call to each other: the loop's, and those that grpc.aio began for this server."""
        return [thread.native_id for thread in (self._thread, *self._pollers) if thread.native_id is not None]

    def add_insecure_port(self, address: str) -> int:
        """Listen at ``address`` without encryption; the port. Raises RuntimeError where that cannot be."""
        return self._server.add_insecure_port(address)

    def add_secure_port(self, address: str, credentials: grpc.ServerCredentials) -> int:
        """Listen at ``address`` with TLS; the port. Raises RuntimeError where that cannot be."""
        return self._server.add_secure_port(address, credentials)

    def start(self) -> None:
        """Take calls."""
        self.wait_for(self._server.start())

    def stop(self, grace: float, seconds: float) -> None:
        """Take no more calls, give those that run ``grace`` seconds, then end them and the loop. Raises TimeoutError after
        ``seconds``. Stopping it again changes nothing."""
        if self._thread.is_alive():
            self.wait_for(self._server.stop(grace), seconds)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(seconds)

    def wait_for(self, coroutine: Coroutine[Any, Any, Result], seconds: float | None = None) -> Result:
        """Run a coroutine on the loop; what it returns or raises. Raises TimeoutError after ``seconds``."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(seconds)

    def begin(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Begin to run a coroutine on the loop, for another loop to wait for. Raises RuntimeError where this one has ended."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        # The calls that were ended learn of it: their tasks are cancelled and run to their end.
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        self._loop.close()


async def _new_server(handler: grpc.GenericRpcHandler, options: Options) -> grpc.aio.Server:
    return grpc.aio.server(handlers=(handler,), options=options)

"""The calls of one client, awaited: as ``symd.rpc.calls``, over grpc.aio."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import grpc
import grpc.aio

from symd.errors import ServerUnavailable, SymdError
from symd.model.arguments import checked_timeout
from symd.rpc.call_errors import closed_error, error_of, undecodable
from symd.rpc.channel import Credentials, Metadata, about_certificates, about_tokens, connect_async, is_untrusted
from symd.rpc.failover import Failover, are_several
from symd.rpc.retry import Attempt
from symd.rpc.stall_timer import AsyncSilence
from symd.rpc.stubs import Stubs
from symd.rpc.watch import OpenWatch, begun_after


class AsyncCalls:
    """The calls of one client: its channel, made for the event loop that runs when it is first used, and what goes with each call."""

    def __init__(self, address: str, timeout: float | None, credentials: Credentials) -> None:
        self.address, self.timeout = address, checked_timeout(timeout)
        self._credentials = credentials
        self._persistence = Failover(
            several=are_several(address), is_certain=partial(is_untrusted, address, credentials)
        )
        self._once = Failover(several=False)
        self._metadata: Metadata = ()
        self._channel: grpc.aio.Channel | None = None
        self._stubs: Stubs | None = None
        self._closed = threading.Event()  # of this client, and of those that share its channel

    @property
    def stubs(self) -> Stubs:
        if self._stubs is None:
            channel, self._metadata = connect_async(self.address, self._credentials)
            self._channel, self._stubs = channel, Stubs(channel)
        return self._stubs

    def with_timeout(self, seconds: float | None) -> AsyncCalls:
        _ = self.stubs  # which sets the metadata too: the copy has both
        other = copy.copy(self)
        other.timeout = checked_timeout(seconds)
        return other

    async def close(self) -> None:
        self._closed.set()
        if self._channel is not None:
            await self._channel.close()

    async def one(self, method: Callable[..., Any], request: Any) -> Any:
        """``request`` is a message, or a function that begins an iterator of messages: the call may be made twice."""
        return await self._persistence.called_async(partial(self._attempted, method, request), self.timeout)

    async def one_once(self, method: Callable[..., Any], request: Any) -> Any:
        return await self._once.called_async(partial(self._attempted, method, request), self.timeout)

    async def _attempted(self, method: Callable[..., Any], request: Any, attempt: Attempt) -> Any:
        try:
            with self._open():
                if callable(request):
                    silence = AsyncSilence(attempt)
                    call = method(silence.requests(request()), timeout=attempt.timeout, metadata=self._metadata)
                    async with silence.watched():
                        return self._decoded(await call)
                return self._decoded(await method(request, timeout=attempt.seconds(), metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                attempt.ran_out()
            raise await self._error_of(error) from None

    def _decoded(self, message: Any) -> Any:
        """A message, for which gRPC gives None where it cannot be decoded."""
        if message is None:
            raise undecodable(self.address)
        return message

    def stream(self, method: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
        """The messages of an answer; ``request`` as for ``one``."""
        return self._persistence.replayed_async(partial(self._stream_attempted, method, request), self.timeout)

    def stream_once(self, method: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
        return self._once.replayed_async(partial(self._stream_attempted, method, request), self.timeout)

    async def _stream_attempted(
        self, method: Callable[..., Any], request: Any, attempt: Attempt
    ) -> AsyncGenerator[Any, None]:
        silence = AsyncSilence(attempt)
        asked = silence.requests(request()) if callable(request) else request
        with self._open():
            call = method(asked, timeout=attempt.timeout, metadata=self._metadata)
            try:
                async for message in silence.answers(call):
                    yield self._decoded(message)
            except grpc.RpcError as error:
                raise await self._error_of(error) from None
            finally:
                call.cancel()

    async def pages(self, method: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
        while True:
            page = await self.one(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def followed(
        self, method: Callable[..., Any], request: Any, position: str
    ) -> tuple[AsyncIterator[Any], Callable[[], None]]:
        """What a watch says until it, or we, end it; and what ends it. The timeout does not."""
        if self._closed.is_set():
            raise closed_error(self.address)
        watch = OpenWatch(begun_after(method, request, self._metadata), position)

        async def said(position: str) -> AsyncGenerator[Any, None]:
            call = watch.call(position)
            try:
                async for message in call:
                    yield self._decoded(message)
            except (
                asyncio.CancelledError
            ):  # gRPC raises it where the call is ended here, and not only where the task is
                task = asyncio.current_task()
                if task is None or task.cancelling() or not call.cancelled():
                    raise
            except grpc.RpcError as error:
                if await call.code() is not grpc.StatusCode.CANCELLED:
                    raise await self._error_of(error) from None
            finally:
                call.cancel()

        return self._persistence.followed_async(said, position), watch.cancel

    @contextmanager
    def _open(self) -> Generator[None, None, None]:
        """A call is made in it. Where the channel is closed before, or meanwhile, gRPC says so as if the caller's task were cancelled."""
        if self._closed.is_set():
            raise closed_error(self.address)
        try:
            yield
        except grpc.aio.UsageError:
            if self._closed.is_set():
                raise closed_error(self.address) from None
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed.is_set() and task is not None and not task.cancelling():
                raise closed_error(self.address) from None
            raise

    async def _error_of(self, error: Any) -> SymdError:
        told = about_tokens(self.address, self._credentials, error_of(error, self.address, self.timeout))
        if not isinstance(told, ServerUnavailable):
            return told
        return await asyncio.to_thread(about_certificates, self.address, self._credentials, told)

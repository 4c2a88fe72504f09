"""The calls of one client for programs with an event loop: what is asked over its channel, and how a call goes on whose
daemon is lost."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
from google.protobuf.message import Message

from symd.errors import SymdError
from symd.model.arguments import checked_timeout
from symd.rpc.call_errors import ENDED, closed_error, error_of, is_cancelled, undecodable
from symd.rpc.channel import PAUSES, AsyncDaemonConnection, Credentials, Stubs, about_tokens, are_several
from symd.rpc.retry import WATCH_PAUSES, Attempts, OpenWatch


class AsyncCalls:
    """Calls to the daemon, or the daemons, at ``address``. ``timeout`` is for all attempts of a call together; a watch
    has none."""

    def __init__(self, address: str, timeout: float | None, credentials: Credentials) -> None:
        self.address, self.timeout = address, checked_timeout(timeout)
        self._credentials = credentials
        self._connection = AsyncDaemonConnection(address, credentials)
        self._pauses: tuple[float, ...] = PAUSES if are_several(address) else ()
        self._watch_pauses: tuple[float, ...] = WATCH_PAUSES if are_several(address) else ()

    @property
    def stubs(self) -> Stubs:
        """What may be called."""
        return self._connection.stubs

    def with_timeout(self, seconds: float | None) -> AsyncCalls:
        """Calls over the same channel with another timeout, in seconds."""
        other = copy.copy(self)
        other.timeout = checked_timeout(seconds)
        return other

    async def close(self) -> None:
        """Close the channel; calls that run end."""
        await self._connection.close()

    async def unary(self, method: Callable[..., Any], request: Message) -> Any:
        """The response to one message. If the daemon is lost, gRPC itself makes the call again (``SERVICE_CONFIG``)."""
        return await self._response(method, lambda: request, ())

    async def client_streaming(self, method: Callable[..., Any], requests: Callable[[], Iterator[Message]]) -> Any:
        """The response to the messages that ``requests`` gives, which is called again for each attempt: gRPC repeats no
        call whose requests are a stream."""
        return await self._response(method, requests, self._pauses)

    async def _response(
        self,
        method: Callable[..., Any],
        begin: Callable[[], Message | Iterator[Message]],
        pauses: tuple[float, ...],
    ) -> Any:
        self._check_open()
        attempts = Attempts(self.timeout, pauses)
        while True:
            try:
                answer = await method(begin(), timeout=attempts.seconds_left(), metadata=self._connection.metadata)
            except ENDED as error:
                pause = attempts.next_delay(self._error_of(error))
            else:
                return self._checked(answer)
            await asyncio.sleep(pause)

    async def stream(self, method: Callable[..., Any], request: Any, *, may_repeat: bool = True) -> AsyncIterator[Any]:
        """The messages of an answer that says the same each time it is asked for, each once; or, unless it
        ``may_repeat``, of one attempt. ``request`` is a message, or a function that begins an iterator of messages."""
        self._check_open()
        attempts = Attempts(self.timeout, self._pauses if may_repeat else ())
        delivered = 0
        while True:
            asked, number = request() if callable(request) else request, 0
            try:
                call = method(asked, timeout=attempts.seconds_left(), metadata=self._connection.metadata)
                try:
                    async for message in call:
                        number += 1
                        if number > delivered:
                            delivered = number
                            attempts.reset()
                            yield self._checked(message)
                finally:
                    call.cancel()
            except ENDED as error:
                pause = attempts.next_delay(self._error_of(error))
            else:
                return
            await asyncio.sleep(pause)

    async def pages(self, method: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
        """The pages of a list, one after another."""
        while True:
            page = await self.unary(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def followed(
        self, method: Callable[..., Any], requests: Callable[[str], Any], end: Callable[[], None], resume_token: str
    ) -> tuple[AsyncIterator[Any], Callable[[], None]]:
        """What a watch says after ``resume_token`` until it, or we, end it; and what ends it. ``requests`` gives the
        messages of a call that goes on after a token, ``end`` ends them."""
        self._check_open()

        def begin(resume_token: str) -> Any:
            return method(requests(resume_token), metadata=self._connection.metadata)

        watch = OpenWatch(begin, end, resume_token)
        return self._messages_of(watch), watch.cancel

    async def _messages_of(self, watch: OpenWatch) -> AsyncIterator[Any]:
        attempts = Attempts(None, self._watch_pauses, is_watch=True)
        while True:
            try:
                call = watch.call()
                try:
                    async for message in call:
                        attempts.reset()
                        if watch.is_new(self._checked(message)):
                            yield message
                finally:
                    call.cancel()
            except ENDED as error:
                if (watch.is_cancelled or self._connection.closed.is_set()) and not is_cancelled(error):
                    return
                if watch.was_established():
                    attempts.reset()
                pause = attempts.next_delay(self._error_of(error))
            else:
                return
            await asyncio.sleep(pause)

    def _check_open(self) -> None:
        if self._connection.closed.is_set():
            raise closed_error(self.address)

    def _checked(self, message: Any) -> Any:
        """A message, for which gRPC gives None where it cannot be decoded."""
        if message is None:
            raise undecodable(self.address)
        return message

    def _error_of(self, error: BaseException) -> SymdError:
        """The error of a call that ended by one of ``ENDED``. Raises what only looks like that."""
        if self._connection.closed.is_set() and not is_cancelled(error):
            return closed_error(self.address)
        if not isinstance(error, grpc.RpcError):
            raise error
        return about_tokens(self.address, self._credentials, error_of(error, self.address, self.timeout))

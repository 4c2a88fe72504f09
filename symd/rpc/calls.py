"""The calls of one client: what is asked over its channel, and how a call goes on whose daemon is lost."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

import grpc

from symd.errors import SymdError
from symd.model.arguments import checked_timeout
from symd.rpc.call_errors import closed_error, error_of
from symd.rpc.channel import Credentials, about_certificates, about_tokens, connect, is_untrusted
from symd.rpc.failover import Failover, are_several
from symd.rpc.retry import Attempt
from symd.rpc.stall_timer import StallTimer
from symd.rpc.stubs import Stubs
from symd.rpc.watch import OpenWatch, begun, begun_after


class Calls:
    """Those of a client at ``address``; safe to use from several threads."""

    def __init__(self, address: str, timeout: float | None, credentials: Credentials) -> None:
        self.address = address
        self.timeout = checked_timeout(timeout)
        self._shown = credentials
        self._closed = threading.Event()  # of this client, and of those that share its channel
        self._persistence = Failover(
            several=are_several(address), is_certain=partial(is_untrusted, address, credentials)
        )
        self._once = Failover(several=False)
        self._channel = connect(address, credentials)
        self.stubs = Stubs(self._channel)  # made now: gRPC 1.85 dies of one that is made of a closed channel

    def with_timeout(self, seconds: float | None) -> Calls:
        """The same over the same channel with another timeout."""
        other = copy.copy(self)
        other.timeout = checked_timeout(seconds)
        return other

    def close(self) -> None:
        """Close the channel; calls that run end."""
        self._closed.set()
        self._channel.close()

    def pages(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        while True:
            page = self.one(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def one(self, method: Callable[..., Any], request: Any) -> Any:
        """``request`` is a message, or a function that begins an iterator of messages: the call may be made twice."""
        return self._persistence.called(partial(self._attempted, method, request), self.timeout)

    def one_once(self, method: Callable[..., Any], request: Any) -> Any:
        return self._once.called(partial(self._attempted, method, request), self.timeout)

    def _attempted(self, method: Callable[..., Any], request: Any, attempt: Attempt) -> Any:
        if callable(request) and attempt.silence is not None:
            return self._sent(method, request, attempt)
        try:
            return self._begun(method, begun(request), timeout=attempt.seconds())
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                attempt.ran_out()
            raise self._error_of(error, self.timeout) from None

    def _sent(self, method: Callable[..., Any], request: Callable[[], Iterator[Any]], attempt: Attempt) -> Any:
        """The answer to many messages, which may take long while they are sent."""
        silence = StallTimer(attempt)
        future: Callable[..., Any] = method.future  # type: ignore[attr-defined] # gRPC's
        call = self._begun(future, silence.requests(request()), timeout=attempt.timeout)
        try:
            with silence.watched(call.cancel):
                return call.result()
        except (grpc.RpcError, grpc.FutureCancelledError):
            raise self._error_of(call, self.timeout) from None
        finally:
            call.cancel()

    def stream(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        """The messages of an answer; ``request`` as for ``one``."""
        return self._persistence.replayed(partial(self._stream_attempted, method, request), self.timeout)

    def stream_once(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        """The same of one that is not begun again."""
        return self._once.replayed(partial(self._stream_attempted, method, request), self.timeout)

    def _stream_attempted(
        self, method: Callable[..., Any], request: Any, attempt: Attempt
    ) -> Generator[Any, None, None]:
        silence = StallTimer(attempt)
        asked = silence.requests(request()) if callable(request) else request
        responses = self._begun(method, asked, timeout=attempt.timeout)
        try:
            yield from silence.answers(responses, responses.cancel)
        except grpc.RpcError as error:
            raise self._error_of(error, self.timeout) from None
        finally:
            responses.cancel()

    def followed(
        self, method: Callable[..., Any], request: Any, position: str
    ) -> tuple[Iterator[Any], Callable[[], None]]:
        """What a watch says until it, or we, end it; and what ends it."""
        watch = OpenWatch(begun_after(partial(self._begun, method), request), position)

        def said(position: str) -> Generator[Any, None, None]:
            call = watch.call(position)
            try:
                yield from call
            except grpc.RpcError as error:
                if call.code() is not grpc.StatusCode.CANCELLED:
                    raise self._error_of(error, None) from None
            finally:
                call.cancel()

        return self._persistence.followed(said, position), watch.cancel

    def _begun(self, method: Callable[..., Any], request: Any, **settings: Any) -> Any:
        """What ``method`` gives. gRPC has no class of its own for the error of a closed channel."""
        try:
            return method(request, **settings)
        except ValueError:
            if self._closed.is_set():
                raise closed_error(self.address) from None
            raise

    def _error_of(self, error: Any, timeout: float | None) -> SymdError:
        if self._closed.is_set():
            return closed_error(self.address)
        told = about_tokens(self.address, self._shown, error_of(error, self.address, timeout))
        return about_certificates(self.address, self._shown, told)

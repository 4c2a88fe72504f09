"""Calls that wait for their client: for the first message, for the next one, for a response to be taken. Each such wait is
bounded in time, and what costs nothing to send, calls without a message, is bounded in number.

Who waits for a message costs a coroutine, no thread. When there are too many, the call that has waited longest is ended, of the
client that has the most: whoever sends headers and message together is never the one, so silent clients do not keep others out.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpc.aio import BaseError
from grpc_status import rpc_status

from symd.config import Limits
from symd.errors import Busy, DeadlineExceeded, SymdError
from symd.service.bridge import Requests, Responses
from symd.service.call import Call
from symd.service.memory import own_bytes
from symd.wire.failures import to_status

if TYPE_CHECKING:
    Context = Any
    """What grpc.aio gives a handler."""

SWEEP = 0.25
"""Of the shortest time allowed, how often is looked who has had it; at least so many seconds apart:"""
LONGEST_PERIOD = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    context: Context
    requests: Requests | None
    responses: Responses | None


class WaitingCalls:
    """To be used on one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._first: dict[str, dict[Call, tuple[Context, float]]] = {}
        """By client, those that wait for their first message, in the order in which they came."""
        self._count = 0
        self._streams: dict[Call, _Stream] = {}
        self._sweeping = False
        self._period = min(
            LONGEST_PERIOD, SWEEP * min(limits.message_seconds, limits.idle_seconds, limits.write_seconds)
        )
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """Calls that wait for their first message."""
        return self._count

    async def first_message(self, context: Context, call: Call) -> Any:
        """The first message of a call, bytes or grpc.aio's ``EOF``. The call is aborted when it does not come in time."""
        loop = asyncio.get_running_loop()
        waiting = self._first.get(call.client)
        if waiting is None:
            waiting = self._first[call.client] = {}
        waiting[call] = context, loop.time()
        self._count += 1
        if self._count > self._limits.waiting_calls:
            self._end_oldest()
        if not self._sweeping:
            self._sweep_later(loop)
        try:
            return await context.read()
        finally:
            self._forget(call)

    def open(self, call: Call, context: Context, requests: Requests | None, responses: Responses | None) -> None:
        """Bound the waits of a stream until ``close``."""
        self._streams[call] = _Stream(context, requests, responses)
        if not self._sweeping:
            self._sweep_later(asyncio.get_running_loop())

    def close(self, call: Call) -> None:
        self._streams.pop(call, None)

    def _forget(self, call: Call) -> None:
        waiting = self._first.get(call.client)
        if waiting is not None and waiting.pop(call, None) is not None:
            self._count -= 1
            if not waiting:
                del self._first[call.client]

    def _end_oldest(self) -> None:
        most = max(self._first.values(), key=len)
        call, (context, _) = next(iter(most.items()))
        limit = self._limits.waiting_calls
        self._abort(
            call,
            context,
            Busy(
                f"more than {limit} calls wait for their message, and this one has waited longest",
                hint="send the message together with the call; waiting_calls may be raised where the daemon is started",
                metadata={"limit": "waiting_calls", "value": str(limit)},
            ),
        )

    def _end_slow(self, before: float) -> None:
        """End those that began to wait before a moment: what has come of their messages takes memory, and nobody says how much."""
        limit = self._limits.daemon_memory
        for waiting in tuple(self._first.values()):
            for call, (context, since) in tuple(waiting.items()):
                if since > before:
                    break
                error = Busy(
                    "the daemon is short of memory, and this call's message takes long to come",
                    hint="send it again later; daemon_memory may be raised where the daemon is started",
                    metadata={"limit": "daemon_memory", "value": str(limit)},
                )
                self._abort(call, context, error)

    def _sweep_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweeping = True
        loop.call_later(self._period, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now, limits = loop.time(), self._limits
        for waiting in tuple(self._first.values()):
            for call, (context, since) in tuple(waiting.items()):
                if now - since <= limits.message_seconds:
                    break
                self._abort(call, context, _late("no message came", "message_seconds", limits.message_seconds))
        if self._first and own_bytes() > limits.daemon_memory:
            self._end_slow(now - self._period)
        for call, stream in tuple(self._streams.items()):
            requests, responses = stream.requests, stream.responses
            if responses is not None and _passed(responses.stalled_since, now, limits.write_seconds):
                error = _late("the client did not take a response", "write_seconds", limits.write_seconds)
                self._abort(call, stream.context, error)
            elif requests is not None and _passed(requests.awaited_since, now, limits.idle_seconds):
                error = _late("the stream was idle", "idle_seconds", limits.idle_seconds)
                self._abort(call, stream.context, error)
        self._sweeping = False
        if self._first or self._streams:
            self._sweep_later(loop)

    def _abort(self, call: Call, context: Context, error: SymdError) -> None:
        """End a call whose coroutine waits for its client."""
        self._forget(call)
        self.close(call)
        call.ending = error.reason, error.metadata
        task = asyncio.get_running_loop().create_task(_aborted(context, error))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        call.end()


async def _aborted(context: Context, error: SymdError) -> None:
    with suppress(BaseError):  # the abort itself, or the call has ended meanwhile
        await context.abort_with_status(rpc_status.to_status(to_status(error)))


def _passed(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since > seconds


def _late(what: str, limit: str, seconds: float) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{what} for {seconds:g} s",
        hint=f"begin again; {limit} may be raised where the daemon is started",
        metadata={"limit": limit, "value": f"{seconds:g}"},
    )

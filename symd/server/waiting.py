"""Calls that wait for their first message, and streams, which stay open as long as their client has access. The wait is
bounded in time, and calls without a message, which cost nothing to send, are bounded in number.

A call that waits for a message takes a coroutine, no thread. When there are too many, the client with the most loses
the call that has waited longest. A call whose headers and message come together is never ended, so silent clients do
not keep others out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from grpc.aio import BaseError
from grpc_status import rpc_status

from symd.config import Limits
from symd.errors import Busy, LimitExceeded, SymdError
from symd.rpc.wire.failures import to_status
from symd.server.call import Call
from symd.server.messages import MAX_REQUEST, late
from symd.server.own_process import own_bytes
from symd.system.process.resources import trim_heap

if TYPE_CHECKING:
    Context = Any
    """What grpc.aio gives a handler."""

MESSAGE_SECONDS = 30.0
"""The longest a call may take to send its message after its headers, or the first message of a stream."""
WAITING_CALLS = 1024
"""Calls that may wait for their message at a time. Beyond, the one that has waited longest is ended."""
SWEEP_FRACTION = 0.25
"""Calls whose time is over are looked for at intervals of this fraction of the shortest time allowed."""
MAX_SWEEP_PERIOD = 0.05
"""Seconds between two sweeps, at most."""
RIGHTS_PERIOD = 1.0
"""Seconds between two checks whether the clients of open streams still have the right to them: a watch may be silent
for days."""
MESSAGE_GROWTH = MAX_REQUEST
"""Bytes by which the daemon may grow while messages come, whatever it took before: so that memory which something else
keeps for good does not shut out every message that takes long."""


def with_question_limit(limits: Limits, check_is_there: Callable[[], None]) -> Callable[[], None]:
    """What a question that may take long calls between its steps. It raises what ``check_is_there`` raises where nobody
    waits any more, and ``LimitExceeded`` where ``question_seconds`` have passed since now."""
    end = time.monotonic() + limits.question_seconds

    def check() -> None:
        check_is_there()
        if time.monotonic() > end:
            raise LimitExceeded(
                f"the question takes longer than {limits.question_seconds:g} seconds",
                hint="ask for less: fewer names or modules, a shorter pattern, or one code object; question_seconds may be raised where the daemon is started",
                metadata={"limit": "question_seconds", "value": f"{limits.question_seconds:g}"},
            )

    return check


class WaitingCalls:
    """The calls that wait for their first message, each for a bounded time, and the open streams. To be used on one
    event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._first: dict[str, dict[Call, tuple[Context, float]]] = {}
        """The calls that wait for their first message, by client, in the order in which they came."""
        self._count = 0
        self._streams: dict[Call, Context] = {}
        self._sweeping = False
        self._next_rights_check = 0.0
        self._before = own_bytes()
        """The daemon's memory when no call had waited for long, bytes."""
        self._period = min(MAX_SWEEP_PERIOD, SWEEP_FRACTION * MESSAGE_SECONDS)
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """Calls that wait for their first message."""
        return self._count

    async def first_message(self, context: Context, call: Call) -> Any:
        """The first message of a call, bytes or grpc.aio's ``EOF``. The call is aborted when it does not come in
        time."""
        loop = asyncio.get_running_loop()
        waiting = self._first.get(call.client)
        if waiting is None:
            waiting = self._first[call.client] = {}
        waiting[call] = context, loop.time()
        self._count += 1
        if self._count > WAITING_CALLS:
            self._end_oldest()
        if not self._sweeping:
            self._sweep_later(loop)
        try:
            return await context.read()
        finally:
            self._forget(call)

    def open(self, call: Call, context: Context) -> None:
        """Know a stream until it is closed, and end it when who made it may not have it any more."""
        self._streams[call] = context
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
        self._abort(
            call,
            context,
            Busy(
                f"more than {WAITING_CALLS} calls wait for their message, and this one has waited longest",
                hint="send the message together with the call",
                metadata={"limit": "waiting_calls", "value": str(WAITING_CALLS)},
            ),
        )

    def _bound_unfinished(self, before: float) -> None:
        """Where memory is short, end the calls that began to wait before a moment: what has come of their messages
        takes some, and nobody says how much."""
        own = own_bytes()
        if all(since > before for waiting in self._first.values() for _, since in waiting.values()):
            self._before = own
            return
        most = max(self._limits.daemon_memory, self._before + MESSAGE_GROWTH)
        if own > most:
            trim_heap()
            if own_bytes() > most:
                self._end_unfinished(before)

    def _end_unfinished(self, before: float) -> None:
        limit = self._limits.daemon_memory
        for waiting in tuple(self._first.values()):
            for call, (context, since) in tuple(waiting.items()):
                if since > before:
                    break
                error = Busy(
                    "the daemon is short of memory, and this call's message has not come whole",
                    hint="send it again later; daemon_memory may be raised where the daemon is started",
                    metadata={"limit": "daemon_memory", "value": str(limit)},
                )
                self._abort(call, context, error)

    def _sweep_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweeping = True
        loop.call_later(self._period, self._sweep, loop, loop.time())

    def _sweep(self, loop: asyncio.AbstractEventLoop, planned: float) -> None:
        """End what had waited too long already when this sweep was ``planned``, a period ago. What got too old since is
        left: where the daemon stood still it has not looked yet at what clients sent meanwhile."""
        now = loop.time()
        self._end_silent(planned)
        self._bound_unfinished(planned)
        if now >= self._next_rights_check:
            self._next_rights_check = now + RIGHTS_PERIOD
            self._end_unauthorized()
        self._sweeping = False
        if self._first or self._streams:
            self._sweep_later(loop)

    def _end_silent(self, now: float) -> None:
        """End the calls whose first message has not come in time."""
        seconds = MESSAGE_SECONDS
        for waiting in tuple(self._first.values()):
            for call, (context, since) in tuple(waiting.items()):
                if now - since <= seconds:
                    break
                self._abort(call, context, late("no message came", "message_seconds", seconds))

    def _end_unauthorized(self) -> None:
        """End the streams of those whose token was revoked or has expired, or who lost the right."""
        for call, context in tuple(self._streams.items()):
            try:
                call.check_let_in()
            except SymdError as error:
                self._abort(call, context, error)

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

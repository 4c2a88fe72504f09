"""How long a client may take for its part of a request. The process may stand still as well, stopped or suspended: what came or could be taken in that time is
still to be looked at, and no fault of the client's. The event loop may look at its clock first, as after SIGCONT."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

LOOK_SECONDS: Final = 1.0
"""How long is looked, at the end, for what has come already."""


class ClientTimer:
    """Calls ``over`` when ``seconds`` are over, and ``LOOK_SECONDS`` more, or as many as the process was late to see that: no more than ``seconds``,
    with which somebody begins anew."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, over: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._end = loop.time() + seconds
        self._over = over
        self._timer = loop.call_at(self._end, self._look)

    def cancel(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        late = self._loop.time() - self._end
        self._timer = self._loop.call_later(max(LOOK_SECONDS, min(late, self._seconds)), self._over)


@asynccontextmanager
async def client_time(seconds: float) -> AsyncIterator[None]:
    """A bound on the time of a client's part of a request, as ``asyncio.timeout`` sets one, kept by a
    ``ClientTimer``. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as bound:
        timer = ClientTimer(loop, seconds, lambda: bound.reschedule(loop.time()))
        try:
            yield
        finally:
            timer.cancel()

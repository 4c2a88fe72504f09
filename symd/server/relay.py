"""A Unix socket that several users may use: it asks the kernel who connects (SO_PEERCRED, unix(7)) and hands the bytes on to the
daemon's own socket, which only its user can open.

gRPC does not tell who is at the other end of a Unix socket. Whoever is not on the list is told nothing, and logged. The relay
runs in a thread of its own; a daemon without --allow-uid has none.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Container, Coroutine, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from symd.server.logs import QuietLog
from symd.server.peer_names import address
from symd.system.os_errors import os_error_text

log = logging.getLogger("symd.server")

_BYTES: Final = 1 << 16
_CREDENTIALS: Final = struct.Struct("=iII")
"""struct ucred: pid, uid, gid."""
_PAUSE: Final = 1.0
"""Seconds without a free descriptor, before it tries to accept again."""


@contextmanager
def relaying(listener: socket.socket, inner: Path, users: Container[int], prefix: str, most: int) -> Iterator[None]:
    """Relay what connects to ``listener`` to the socket at ``inner``, for these uids and the daemon's own. Each may have ``most`` connections at
    a time; a further one is closed at once."""
    relay = _Relay(inner, users, prefix, most)
    loop = asyncio.new_event_loop()
    listener.setblocking(False)
    thread = threading.Thread(target=_run, args=(loop, relay.accept(listener)), name="symd-relay", daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop, accept: Coroutine[Any, Any, None]) -> None:
    asyncio.set_event_loop(loop)
    task = loop.create_task(accept)
    loop.run_forever()
    rest = asyncio.all_tasks(loop) | {task}
    for each in rest:
        each.cancel()
    loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
    loop.close()


class _Relay:
    def __init__(self, inner: Path, users: Container[int], prefix: str, most: int) -> None:
        self._inner = str(inner)
        self._users = users
        self._prefix = prefix
        self._most = most
        self._open: Counter[int] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals = QuietLog(log, "refused a connection")

    async def accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:  # no descriptors are left: those that are open go on
                log.warning("the relay cannot accept: %s", os_error_text(error))
                await asyncio.sleep(_PAUSE)
                continue
            pid, uid, _gid = _CREDENTIALS.unpack(
                client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
            if uid not in self._users and uid != os.geteuid():
                self._refuse(client, f"uid {uid} (pid {pid}) is not on the list")
            elif self._open[uid] >= self._most:
                self._refuse(client, f"uid {uid} has {self._most} connections already (client_connections)")
            else:
                client.setblocking(False)
                self._open[uid] += 1
                task = loop.create_task(self._serve(client, uid))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _refuse(self, client: socket.socket, reason: str) -> None:
        client.close()
        self._refusals.warn(reason)

    async def _serve(self, client: socket.socket, uid: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            with closing(client), closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as server:
                server.setblocking(False)
                server.bind(address(self._prefix, uid))
                await loop.sock_connect(server, self._inner)
                # gRPC closes both ways at once, and a daemon that is busy may be long in closing what a killed client left.
                ways = [loop.create_task(_copy(loop, *way)) for way in ((client, server), (server, client))]
                try:
                    ended, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in ways:
                        each.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
                for each in ended:
                    each.result()
        except OSError as error:
            log.debug("a relayed connection of uid %d broke: %s", uid, error)
        finally:
            self._open[uid] -= 1


async def _copy(loop: asyncio.AbstractEventLoop, source: socket.socket, target: socket.socket) -> None:
    """Until the source ends."""
    buffer = memoryview(bytearray(_BYTES))
    while size := await loop.sock_recv_into(source, buffer):
        await loop.sock_sendall(target, buffer[:size])

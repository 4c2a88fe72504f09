"""Messages to whatever started the daemon: systemd's notifications (sd_notify(3)), a datagram to the socket that $NOTIFY_SOCKET names."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import TimeoutError as TooSlow
from contextlib import contextmanager, suppress
from typing import Final

from symd.server.event_loop import Server

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"
_VARIABLE: Final = "NOTIFY_SOCKET"
_SECONDS: Final = 1.0


def notify(state: str) -> None:
    """Send the service manager ``state``, where there is one. One that does not take it holds nobody up."""
    name = os.environ.get(_VARIABLE, "")
    if not name.startswith(("/", "@")):
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender, suppress(OSError):
        sender.settimeout(_SECONDS)
        sender.sendto(state.encode(), address)


@contextmanager
def watchdog_notified(server: Server) -> Iterator[None]:
    """Send it ``ALIVE`` as often as it asks for ($WATCHDOG_USEC, sd_watchdog_enabled(3)), as long as the event loop runs: a daemon that
    answers nobody any more is started again."""
    period = _watchdog_seconds()
    if not period:
        yield
        return
    over = threading.Event()

    def notify_while_alive() -> None:
        while not over.wait(period / 4):
            with suppress(TooSlow, RuntimeError):  # it stands still, or has ended
                server.wait_for(asyncio.sleep(0), period)
                notify(ALIVE)

    threading.Thread(target=notify_while_alive, name="symd-watchdog", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watchdog_seconds() -> float:
    """The interval within which the manager wants ``ALIVE``; 0 where it asks for none."""
    text, process = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    return int(text) / 1e6 if text.isdecimal() and process in ("", str(os.getpid())) else 0.0

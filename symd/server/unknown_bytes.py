"""Bytes that strangers bring over TCP: of a flood without calls (PING, SETTINGS, streams that are reset before gRPC hands them over) no code of ours hears,
but the kernel counts what each connection has brought (tcp(7), TCP_INFO). Whoever is let in is counted no more, with all that his connection brought before."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from symd.config import Limits
from symd.server.peer_names import Remote
from symd.server.shut_out import Network

PERIOD: Final = 4.0
"""Seconds for which bytes are added up. What clients bring before anybody has looked at their calls comes at once, and a flood goes on."""
_RECEIVED: Final = struct.Struct("128xQ")
"""struct tcp_info (linux/tcp.h): tcpi_bytes_received, since Linux 4.1."""


class Stranger(NamedTuple):
    """A connection on which nobody was let in: where it comes from, and the bytes that it has brought since it was made."""

    remote: Remote
    network: Network
    received: int


class UnknownBytes:
    """Adds up by the network that they come from. To be used by one thread."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._since = float("-inf")
        self._before: Mapping[int, int] = {}
        """What each connection had brought when the period began."""
        self._last: Mapping[int, Stranger] = {}
        self._ended: Counter[Network] = Counter()
        """Of connections that ended in this period."""

    def beyond(self, seen: Mapping[int, Stranger], let_in: Collection[Remote | None], now: float) -> Iterable[Network]:
        """The networks of which more has come than may. ``seen`` are all connections that may be strangers', by inode; those of ``let_in`` are not."""
        strangers = {inode: stranger for inode, stranger in seen.items() if stranger.remote not in let_in}
        for inode, stranger in self._last.items():
            if inode not in seen and stranger.remote not in let_in:
                self._ended[stranger.network] += stranger.received - self._before.get(inode, 0)
        if now - self._since >= PERIOD:
            self._since = now
            self._before = {inode: stranger.received for inode, stranger in self._last.items() if inode in strangers}
            self._ended.clear()
        self._last = strangers
        brought = self._ended.copy()
        for inode, stranger in strangers.items():
            brought[stranger.network] += stranger.received - self._before.get(inode, 0)
        return [network for network, count in brought.items() if count > self._limits.unknown_bytes]


def received(connection: socket.socket) -> int:
    """The bytes that have come on a TCP connection; 0 where the system does not say."""
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
    except (AttributeError, OSError):
        return 0
    return int(_RECEIVED.unpack(told)[0]) if len(told) == _RECEIVED.size else 0

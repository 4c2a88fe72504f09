"""Where a socket's connection over TCP comes from, also once its other end has reset it: then it is in no table of connections, and
getpeername(2) says ENOTCONN, until gRPC has read what came on it and closes it. Linux keeps the name so long, and tells it all the same."""

from __future__ import annotations

import socket
import struct
from typing import Final

from symd.server.peer_names import Remote, remote

_SO_PEERNAME: Final = 28
"""asm-generic/socket.h"""
_IPV4: Final = struct.Struct("!2xH4s8x")
_IPV6: Final = struct.Struct("!2xH4x16s4x")
"""struct sockaddr_in (ip(7)): port, address; struct sockaddr_in6 (ipv6(7)) likewise."""
_ZONE: Final = struct.Struct("=24xI")
"""What is last in a struct sockaddr_in6."""


def other_end(connection: socket.socket) -> Remote:
    """The other end of a connection over TCP. Raises OSError where the socket has none."""
    try:
        return remote(connection.getpeername())
    except OSError:
        return remote(_kept(connection))


def _kept(connection: socket.socket) -> tuple[str, int]:
    is_ipv6 = connection.family == socket.AF_INET6
    layout = _IPV6 if is_ipv6 else _IPV4
    told = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERNAME, layout.size)
    port, address = layout.unpack(told)
    host = socket.inet_ntop(connection.family, address)
    zone = _ZONE.unpack(told)[0] if is_ipv6 else 0
    if zone:
        host, _ = socket.getnameinfo((host, port, 0, zone), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    return host, port

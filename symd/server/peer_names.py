"""Where a call comes from, as gRPC names it; and the names under which the relay's connections reach the daemon: gRPC tells a call's peer address and nothing else of it, so
each connection has an address in the abstract namespace (unix(7)) that says the uid.

Nobody else can pretend to such a name: only the daemon's user can open the socket behind the relay."""

from __future__ import annotations

import os
import secrets
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

ABSTRACT: Final = "unix-abstract:"


def new_prefix() -> str:
    """How the names of one relay begin, as gRPC shows them."""
    return f"{ABSTRACT}symd/{os.getpid()}/{secrets.token_hex(8)}/"


def address(prefix: str, uid: int) -> bytes:
    """The address to bind for one more of the relay's connections, made for ``uid``. Every user sees which names are taken (/proc/net/unix) and may take
    others, so that nobody can guess the next one."""
    return b"\0" + f"{prefix.removeprefix(ABSTRACT)}{uid}/{secrets.token_hex(8)}".encode()


def uid_of(peer: str) -> int:
    """The uid in a peer's name that begins with the prefix."""
    return int(peer.rsplit("/", 2)[1])


class Remote(NamedTuple):
    """The other end of a connection over TCP: its IP address and port. An IPv4 address is written as such, however it came."""

    address: str
    port: int


def tcp_remote(peer: str) -> Remote | None:
    """The other end in a peer's name ("ipv4:10.0.0.7:41210", "ipv6:%5B::1%5D:41210"); None in that of another kind."""
    scheme, _, rest = peer.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if scheme not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return remote((host.strip("[]"), int(port)))


def remote(name: Any) -> Remote:
    """The same of what a socket says (socket.getpeername). Raises ValueError for what is no IP address."""
    address = ip_address(name[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return Remote(str(address), name[1])

"""The TCP socket that HTTP is served on, or why there can be none, and the check of the Host header.

A stranger's page can give its own name the address of this machine (DNS rebinding), and its browser would then let it
read answers. So a name has to be one of ours; an address written as numbers is nobody's name.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from symd.errors import FailedPrecondition, InvalidInput
from symd.rpc.addresses import host_and_port
from symd.system.messages import os_error_text

BACKLOG: Final = 128


def parsed(address: str) -> tuple[str, int]:
    """The host and the port of ``HOST:PORT``. Raises InvalidInput."""
    named = host_and_port(address)
    if named is None:
        port = address if address.isdecimal() else "8080"
        raise InvalidInput(
            "not an address to listen at", where=address, hint=f"give HOST:PORT, such as 127.0.0.1:{port}"
        )
    return named


def bound(address: str, option: str) -> tuple[socket.socket, str, int]:
    """A socket that listens at ``HOST:PORT``, the host, and the port that it got. Raises InvalidInput and
    FailedPrecondition; ``option`` is what to give another address with."""
    host, port = parsed(address)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host.removeprefix("[").removesuffix("]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise FailedPrecondition(
            f"there is no such host: {os_error_text(error)}", where=address, hint=f"choose another with {option}"
        ) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise FailedPrecondition(
            f"cannot listen there: {os_error_text(error)}", where=address, hint=f"choose another with {option}"
        ) from error
    return listener, host, listener.getsockname()[1]


LOCAL: Final = frozenset(("localhost",))


class KnownHosts:
    """The names by which a request may call this server. ``names`` are host names, without ports, by which this
    server may be called, besides addresses and ``localhost``."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = LOCAL | {name.lower().rstrip(".") for name in names}

    def knows(self, header: str) -> bool:
        """Whether a Host header ("HOST" or "HOST:PORT", RFC 9110, 7.2) names this server."""
        host = host_of(header)
        return host is not None and (host in self._names or _is_address(host))


def host_of(header: str) -> str | None:
    """The host in a Host header, in lower case and without brackets; None where there is none."""
    text = header.strip().lower()
    if text.startswith("["):
        inside, bracket, port = text[1:].partition("]")
        return inside if bracket and _is_port(port) else None
    host, colon, port = text.partition(":")
    return host.rstrip(".") if host and _is_port(colon + port) else None


def _is_port(text: str) -> bool:
    return not text or (text.startswith(":") and text[1:].isdecimal() and text.isascii())


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True

"""The Host header: a page of a stranger can give its own name the address of this machine (DNS rebinding), and its browser would then let it read
answers. So a name has to be one of ours. An address written as numbers is nobody's name."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

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

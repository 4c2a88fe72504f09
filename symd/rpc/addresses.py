"""``HOST:PORT``, as users write it for a door or a daemon."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_HIGHEST_PORT: Final = 65535
_PORT: Final = re.compile(r"[0-9]{1,5}")  # of more than 4,300 digits Python makes no number
_LOOPBACK: Final = ("localhost", "[::1]")


def host_and_port(address: str) -> tuple[str, int] | None:
    """The host, with the brackets that it may have, and the port; None where the text is something else."""
    host, _, port = address.rpartition(":")
    if not (host.strip("[]") and _PORT.fullmatch(port) and int(port) <= _HIGHEST_PORT):
        return None
    return host, int(port)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach ``HOST:PORT``: what is sent there nobody else reads."""
    host = address.rpartition(":")[0]
    return host in _LOOPBACK or _is_loopback_ipv4(host)


def _is_loopback_ipv4(host: str) -> bool:
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:  # a name, which may mean any machine
        return False

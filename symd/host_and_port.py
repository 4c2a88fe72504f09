"""``HOST:PORT``, as users write it for a door or a daemon."""

from __future__ import annotations

import re
from typing import Final

_HIGHEST_PORT: Final = 65535
_PORT: Final = re.compile(r"[0-9]{1,5}")  # of more than 4,300 digits Python makes no number
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_LOOPBACK_NETWORK: Final = re.compile(r"127(\.\d{1,3}){3}", re.ASCII)


def host_and_port(address: str) -> tuple[str, int] | None:
    """The host, with the brackets that it may have, and the port; None where the text is something else."""
    host, _, port = address.rpartition(":")
    if not (host.strip("[]") and _PORT.fullmatch(port) and int(port) <= _HIGHEST_PORT):
        return None
    return host, int(port)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach ``HOST:PORT``: what is sent there nobody else reads."""
    host = address.rpartition(":")[0]
    return host in _LOOPBACK or bool(_LOOPBACK_NETWORK.fullmatch(host))

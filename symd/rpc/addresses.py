"""``HOST:PORT``, as users write it for a door or a daemon, and the TCP socket that HTTP is served on there, or why
there can be none."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Final

from symd.errors import FailedPrecondition, InvalidInput
from symd.system.messages import os_error_text

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

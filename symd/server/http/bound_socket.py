"""A TCP socket that listens, or why there can be none."""

from __future__ import annotations

import socket
from typing import Final

from symd.errors import FailedPrecondition, InvalidInput
from symd.system.addresses import host_and_port
from symd.system.os_errors import os_error_text

BACKLOG: Final = 128


def parsed(address: str) -> tuple[str, int]:
    """The host and the port of ``HOST:PORT``. Raises InvalidInput."""
    named = host_and_port(address)
    if named is None:
        raise InvalidInput("not an address to listen at", where=address, hint="give HOST:PORT, such as 127.0.0.1:8080")
    return named


def bound(address: str, option: str) -> tuple[socket.socket, str, int]:
    """A socket that listens at ``HOST:PORT``, the host, and the port that it got. Raises InvalidInput and FailedPrecondition; ``option`` is
    what to give another address with."""
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

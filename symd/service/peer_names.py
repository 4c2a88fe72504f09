"""The names under which the relay's connections reach the daemon: gRPC tells a call's peer address and nothing else of it, so
each connection has an address in the abstract namespace (unix(7)) that says the uid.

Nobody else can pretend to such a name: only the daemon's user can open the socket behind the relay, and the names hold what
nobody can guess."""

from __future__ import annotations

import os
import secrets
from typing import Final

ABSTRACT: Final = "unix-abstract:"


def new_prefix() -> str:
    """How the names of one relay begin, as gRPC shows them."""
    return f"{ABSTRACT}symd/{os.getpid()}/{secrets.token_hex(8)}/"


def address(prefix: str, uid: int, number: int) -> bytes:
    """The address to bind: the relay's ``number``-th connection, made for ``uid``."""
    return b"\0" + f"{prefix.removeprefix(ABSTRACT)}{uid}/{number}".encode()


def uid_of(peer: str) -> int:
    """The uid in a peer's name that begins with the prefix."""
    return int(peer.rsplit("/", 2)[1])

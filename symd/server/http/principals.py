"""Who makes a request over HTTP, and whether they may: an ``HttpAuthenticator`` is asked once for each request, before
its body is read."""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from starlette.requests import HTTPConnection

from symd.errors import PermissionDenied, Unauthenticated
from symd.server.config import Right, Rights, rights_text

READER: Final[Rights] = frozenset((Right.READ,))
_SECRET_BYTES: Final = 24


class HttpPrincipal(NamedTuple):
    """Whoever makes a request, under the name that logs know them by; ``share`` is whose turns at work it takes,
    ``budget`` whose room for messages it uses."""

    name: str
    rights: Rights
    share: str
    budget: str

    def check(self, right: Right, where: str) -> None:
        """Raises PermissionDenied without that right."""
        if right not in self.rights:
            raise PermissionDenied(
                f"{self.name} may not do that: it needs the right {right.value!r}",
                where=where,
                hint=f"{self.name} has {rights_text(self.rights) or 'no right'}",
                metadata={"right": right.value, "client": self.name},
            )


class Entered(NamedTuple):
    """A visitor who was let in, and the path that they ask for, without the part that let them in, which begins with
    "/". ``moved`` is where a browser is to go instead ("" for nowhere)."""

    visitor: HttpPrincipal
    path: str
    moved: str = ""


class HttpAuthenticator(Protocol):
    """Lets the visitors of a server in."""

    challenge: str
    """How a browser is asked for what lets it in (RFC 9110, WWW-Authenticate); "" where nothing that it could ask for
    would."""

    def enter(self, connection: HTTPConnection) -> Entered:
        """Who makes a request, and the path that they ask for. Raises Unauthenticated and PermissionDenied."""
        ...


class SecretPathAuth:
    """Lets in whoever knows the first part of the path, which is made anew for each server. Without cookies and headers
    of its own that is all that a browser's links and modules carry along.

    ``invitation`` is a path that leads there once: a browser is started with it, because other users of the machine see
    how programs are started. One of them who is there before the browser is not let in by it. ``command`` printed the
    address, as errors say.
    """

    challenge = ""

    def __init__(self, command: str) -> None:
        self._command = command
        self._secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._invitations: set[str] = set()
        self._lock = threading.Lock()

    @property
    def path(self) -> str:
        """The path of the first page, "/SECRET/"."""
        return f"/{self._secret}/"

    def invitation(self) -> str:
        """A path that leads to the first page once."""
        made = secrets.token_urlsafe(_SECRET_BYTES)
        with self._lock:
            self._invitations.add(made)
        return f"/{made}/"

    def enter(self, connection: HTTPConnection) -> Entered:
        """The visitor of a request whose path begins with the secret or an invitation, and the rest of the path.
        Raises Unauthenticated."""
        first, _, rest = connection.scope["path"].removeprefix("/").partition("/")
        visitor = HttpPrincipal("owner", READER, "owner", "owner")
        if hmac.compare_digest(first.encode(), self._secret.encode()):
            moved = "" if connection.scope["path"].startswith(self.path) else self.path
            return Entered(visitor, f"/{rest}", moved)
        if not rest and self._take_invitation(first, connection):
            return Entered(visitor, "/", self.path)
        raise Unauthenticated(
            "the address lacks its last part, which lets you in",
            hint=f"use the address that {self._command} printed",
        )

    def _take_invitation(self, invitation: str, connection: HTTPConnection) -> bool:
        with self._lock:
            known = (
                next((each for each in self._invitations if hmac.compare_digest(each, invitation)), None)
                if invitation.isascii()
                else None
            )
        if known is None or _user_of(connection) not in (None, 0, os.geteuid()):
            return False
        with self._lock:
            is_first = known in self._invitations
            self._invitations.discard(known)
        return is_first


_TABLES: Final = (("tcp", "::ffff:0.0.0.0"), ("tcp6", ""))
"""The kernel's tables of connections, and how the addresses of the first would begin in the second."""


def _user_of(connection: HTTPConnection) -> int | None:
    """The user who has the other end of a connection that does not leave the machine, as the kernel says
    (/proc/net/tcp, proc_pid_net(5)); None where it does not: then nobody on this machine can read what is answered."""
    client, server = connection.scope.get("client"), connection.scope.get("server")
    if client is None or server is None:
        return None
    wanted = [_end(*client), _end(*server)]
    for table, mapped in _TABLES:
        before = _end(mapped, 0)[:24] if mapped else ""
        with suppress(OSError):
            for row in Path("/proc/self/net", table).read_text().splitlines()[1:]:
                _, theirs, ours, _, _, _, _, user, *_ = row.split()
                if [before + theirs, before + ours] == wanted:
                    return int(user)
    return None


def _end(host: str, port: int) -> str:
    """An address as it is in the table for IPv6."""
    packed = socket.inet_pton(socket.AF_INET6, host if ":" in host else f"::ffff:{host}")
    return "".join(f"{word:08X}" for word in struct.unpack("=4I", packed)) + f":{port:04X}"

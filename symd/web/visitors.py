"""Who makes a request over HTTP, and whether they may: a door is asked once for each request, before its body is read."""

from __future__ import annotations

import hmac
import secrets
import threading
from typing import Final, NamedTuple, Protocol

from starlette.requests import HTTPConnection

from symd.errors import PermissionDenied, Unauthenticated
from symd.model.rights import Right, Rights, rights_text

READER: Final[Rights] = frozenset((Right.READ,))
_SECRET_BYTES: Final = 24


class Visitor(NamedTuple):
    """Whoever makes a request, under the name that logs know them by; ``share`` is whose turns at work it takes, ``budget`` whose room for messages it
    uses."""

    name: str
    rights: Rights
    share: str
    budget: str

    def check(self, right: Right, where: str) -> None:
        """Raises PermissionDenied without that right."""
        if right not in self.rights:
            raise PermissionDenied(
                f"{self.name} may not do that: it takes the right {right.value!r}",
                where=where,
                hint=f"{self.name} has {rights_text(self.rights) or 'no right'}",
                metadata={"right": right.value, "client": self.name},
            )


class Entered(NamedTuple):
    """A visitor who was let in, and the path that they ask for behind the door, which begins with "/". ``moved`` is where a browser
    is to go instead ("" for nowhere)."""

    visitor: Visitor
    path: str
    moved: str = ""


class Door(Protocol):
    """Whom a server lets in."""

    def enter(self, connection: HTTPConnection) -> Entered:
        """Raises Unauthenticated and PermissionDenied."""
        ...


class SecretDoor:
    """Lets in whoever knows the first part of the path, which is made anew for each server. Without cookies and headers of its own that is
    all that a browser's links and modules carry along.

    ``invitation`` is a path that leads there once: a browser is started with it, because other users of the machine see how programs
    are started.
    """

    def __init__(self, name: str = "owner", rights: Rights = READER) -> None:
        self._secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._invitations: set[str] = set()
        self._lock = threading.Lock()
        self._name, self._rights = name, rights

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
        """Raises Unauthenticated."""
        first, _, rest = connection.scope["path"].removeprefix("/").partition("/")
        visitor = Visitor(self._name, self._rights, self._name, self._name)
        if hmac.compare_digest(first.encode(), self._secret.encode()):
            moved = "" if connection.scope["path"].startswith(self.path) else self.path
            return Entered(visitor, f"/{rest}", moved)
        if not rest and self._taken(first):
            return Entered(visitor, "/", self.path)
        raise Unauthenticated(
            "the address lacks the part that lets you in", hint="open the whole address that symd printed when it began"
        )

    def _taken(self, invitation: str) -> bool:
        with self._lock:
            known = (
                next((each for each in self._invitations if hmac.compare_digest(each, invitation)), None)
                if invitation.isascii()
                else None
            )
            self._invitations.discard(known or "")
        return known is not None

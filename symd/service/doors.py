"""Who calls, and whether they may: asked once for each call, before its message is read.

Over the daemon's own Unix socket the kernel has kept other users out, and whoever comes is its user, who may do everything. A
further user comes by the relay (``service/relay.py``), which says the uid. Over TCP a client shows a token or a certificate;
who shows neither may do what ``Doors.anonymous`` says: nothing, unless the operator decided otherwise.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from symd.config import Doors
from symd.errors import FailedPrecondition, PermissionDenied, Unauthenticated
from symd.model.rights import ALL_RIGHTS, NO_RIGHTS, Rights, rights_text
from symd.service.access_file import Access, read_access
from symd.service.call import Call
from symd.service.certificates import Certificates
from symd.service.peer_names import new_prefix, uid_of
from symd.service.quiet_log import QuietLog
from symd.service.rights import HEALTH_METHODS, RIGHTS
from symd.service.watched_files import WatchedFiles

log = logging.getLogger("symd.service")

_UNIX: Final = "unix"
_SCHEME: Final = "bearer"


class Principal(NamedTuple):
    """Whoever makes a call, under the name that logs know them by."""

    name: str
    rights: Rights


ANONYMOUS: Final = "anonymous"
OWNER: Final = Principal("owner", ALL_RIGHTS)


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """``access`` is the access file and ``certificates`` what TLS is done with, where there are such; ``relay`` is how the
    names begin under which the relay's connections come."""

    doors: Doors
    relay: str
    access: WatchedFiles[Access] | None
    certificates: Certificates | None
    refusals: QuietLog

    def admit(self, call: Call, context: Any) -> None:
        """Note who makes the call, by what gRPC's ``context`` knows of it.

        Raises Unauthenticated for who does not show what is asked for, PermissionDenied for who may not do that.
        """
        peer = call.peer
        if peer.startswith(_UNIX) and not (self.doors.users and peer.startswith(self.relay)):
            call.caller, call.is_owner = OWNER.name, True
            return
        if self.doors.open_health and call.method in HEALTH_METHODS:
            return
        principal = self._principal(peer, context)
        call.caller, call.is_owner = principal.name, principal is OWNER
        if principal.name != ANONYMOUS:
            call.client = principal.name
        right = RIGHTS[call.method]
        if right not in principal.rights:
            self.refusals.warn(f"{principal.name} at {peer} has no right to {right.value}")
            raise PermissionDenied(
                f"{principal.name} may not do that: it takes the right {right.value!r}",
                where=call.method,
                hint=f"{principal.name} has {_having(principal.rights)}; the operator of the daemon gives rights",
                metadata={"right": right.value, "client": principal.name},
            )

    def read_again(self) -> None:
        """Read the operator's files, changed or not."""
        if self.access is not None:
            self.access.read_again()
        if self.certificates is not None:
            self.certificates.files.read_again()

    def _principal(self, peer: str, context: Any) -> Principal:
        try:
            return self._user(peer) if peer.startswith(_UNIX) else self._client(context)
        except Unauthenticated as error:
            self.refusals.warn(f"{peer}: {error.message}")
            raise

    def _user(self, peer: str) -> Principal:
        uid = uid_of(peer)
        if uid == os.geteuid():
            return OWNER
        return Principal(f"uid {uid}", self.doors.users.get(uid, NO_RIGHTS))

    def _client(self, context: Any) -> Principal:
        token = _token(context.invocation_metadata() or ())
        if token is not None and self.access is not None:
            found = self.access.value().of_token(token)
            if found is None:
                raise Unauthenticated("nobody has this token", hint="ask the operator for one (symd token)")
            return Principal(*found)
        name = _certified(context.auth_context())
        if name is not None:
            return Principal(name, self._certified_rights(name))
        if not self.doors.anonymous_rights:
            ways = [
                way
                for way, there in (("a bearer token", self.access), ("a certificate", self.doors.tls_client_ca))
                if there
            ]
            raise Unauthenticated(
                "this daemon asks who you are", hint=f"show {' or '.join(ways) or 'a token'}: $SYMD_TOKEN holds one"
            )
        return Principal(ANONYMOUS, self.doors.anonymous_rights)

    def _certified_rights(self, name: str) -> Rights:
        if self.access is None:
            return self.doors.certificate_rights
        return self.access.value().certificates.get(name, NO_RIGHTS)


def doorkeeper(doors: Doors) -> Doorkeeper:
    """For the doors as the operator wants them. Raises FailedPrecondition or InvalidInput for files that will not do."""
    refusals = QuietLog(log, "refused a call")
    access = None
    if (path := doors.access) is not None:
        access = WatchedFiles([path], lambda: read_access(path))
    if doors.tls_certificate is None and doors.tls_key is None:
        if doors.tls_client_ca is not None:
            raise FailedPrecondition(
                "clients show certificates over TLS only", hint="give --tls-cert and --tls-key too"
            )
        return Doorkeeper(doors, new_prefix(), access, None, refusals)
    return Doorkeeper(doors, new_prefix(), access, Certificates(doors), refusals)


def _having(rights: Rights) -> str:
    return f"the rights {rights_text(rights)}" if rights else "no right"


def _token(metadata: Iterable[tuple[str, str | bytes]]) -> bytes | None:
    """The bearer token of a call (RFC 6750)."""
    for key, value in metadata:
        if key == "authorization":
            text = value if isinstance(value, bytes) else value.encode()
            scheme, _, token = text.partition(b" ")
            if scheme.lower() == _SCHEME.encode():
                return token.strip()
    return None


def _certified(facts: Mapping[str, Iterable[bytes]]) -> str | None:
    """The common name of the client's certificate, or the first of its alternative names."""
    for key in ("x509_common_name", "x509_subject_alternative_name"):
        for value in facts.get(key, ()):
            if value:
                return value.decode("utf-8", "replace")
    return None

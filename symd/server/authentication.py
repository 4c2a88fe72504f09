"""Who makes a call, and whether they may: each call takes the right that its handler declares (``Call.right``).

The caller is established once for each call, before its message is read. At the daemon's own Unix socket the kernel has
kept other users out, so the caller is the daemon's user and may do everything. Over TCP, and over the socket of a
group, a client shows a token or a certificate; without either it may do what ``ListenConfig.anonymous`` says: nothing,
unless the operator decided otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any, Final, NamedTuple

from symd.errors import FailedPrecondition, PermissionDenied, Unauthenticated
from symd.server.access_file import Access, read_access
from symd.server.call import Call
from symd.server.certificates import Certificates, certified_name
from symd.server.config import ALL_RIGHTS, ListenConfig, Rights, rights_text
from symd.server.standard_services import HEALTH_METHODS
from symd.server.watched_files import WatchedFiles

log = logging.getLogger("symd.server")

_UNIX: Final = "unix"
_SCHEME: Final = "bearer"


class Principal(NamedTuple):
    """Whoever makes a call, under the name that logs know them by."""

    name: str
    rights: Rights


class ShownCredentials(NamedTuple):
    """What a call shows of who makes it: where it comes from, its token, the name in its certificate."""

    peer: str
    token: bytes | None
    certificate: str | None


ANONYMOUS: Final = "anonymous"
OWNER: Final = Principal("owner", ALL_RIGHTS)


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Says who makes a call and what they may do. ``access`` is the access file and ``certificates`` what TLS is
    done with, where there are such."""

    listen: ListenConfig
    access: WatchedFiles[Access] | None
    certificates: Certificates | None

    def admit(self, call: Call, context: Any) -> None:
        """Note who makes the call, by what gRPC's ``context`` knows of it.

        Raises Unauthenticated for who does not show what is asked for, PermissionDenied for who may not do that.
        """
        if call.peer.startswith(_UNIX) and self.listen.socket_group is None:
            call.caller, call.is_owner = OWNER.name, True
            return
        if self.listen.open_health and call.method in HEALTH_METHODS:
            return
        shown = self._shown(call.peer, context)
        self._let_in(shown, call)
        if self.access is not None:
            call.recheck_access = partial(self._let_in, shown)

    def _let_in(self, shown: ShownCredentials, call: Call) -> None:
        """Raises as ``admit``."""
        peer = shown.peer
        principal = self.principal(shown)
        call.caller = principal.name
        if principal.name != ANONYMOUS:
            call.client = principal.name
        if call.right not in principal.rights:
            right = call.right.value
            log.warning("refused a call: %s at %s has no right to %s", principal.name, peer, right)
            raise PermissionDenied(
                f"{principal.name} may not do that: it needs the right {right!r}",
                hint=f"{principal.name} has {_having(principal.rights)}; the operator of the daemon gives rights",
                metadata={"right": right, "client": principal.name, "method": call.method},
            )

    def read_again(self) -> None:
        """Read the operator's files, changed or not."""
        if self.access is not None:
            self.access.read_again()
        if self.certificates is not None:
            self.certificates.files.read_again()

    def _shown(self, peer: str, context: Any) -> ShownCredentials:
        token = _token(context.invocation_metadata() or ()) if self.access is not None else None
        return ShownCredentials(peer, token, _certified(context.auth_context()) if token is None else None)

    def principal(self, shown: ShownCredentials) -> Principal:
        """Whoever shows that; a refusal is logged. Raises Unauthenticated."""
        try:
            return self._client(shown)
        except Unauthenticated as error:
            log.warning("refused a call: %s: %s", shown.peer, error.message)
            raise

    def _client(self, shown: ShownCredentials) -> Principal:
        if shown.token is not None and self.access is not None:
            found = self.access.value().of_token(shown.token)
            if found is None:
                raise Unauthenticated(
                    "this token is wrong, revoked or another daemon's", hint="ask the operator for another"
                )
            return Principal(*found)
        if shown.certificate is not None:
            return Principal(shown.certificate, self._certified_rights(shown.certificate))
        if not self.listen.anonymous_rights:
            ways = [
                way
                for way, there in (("a bearer token", self.access), ("a certificate", self.listen.tls_client_ca))
                if there
            ]
            raise Unauthenticated(
                "this daemon asks who you are",
                hint=f"show {' or '.join(ways) or 'a token'}, which the daemon's operator makes; a token goes into the header authorization, "
                "after Bearer, and symd's own clients take it from $SYMD_TOKEN or the file $SYMD_TOKEN_FILE",
            )
        return Principal(ANONYMOUS, self.listen.anonymous_rights)

    def _certified_rights(self, name: str) -> Rights:
        if self.access is None:
            return self.listen.certificate_rights
        return self.access.value().of_certificate(name)


def build_authenticator(listen: ListenConfig) -> Authenticator:
    """The authenticator that the operator's options ask for. Raises FailedPrecondition or InvalidInput for files that
    will not do."""
    access = None
    if (path := listen.access) is not None:
        access = WatchedFiles([path], lambda: _read_access(path))
    if listen.tls_certificate is None and listen.tls_key is None:
        if listen.tls_client_ca is not None:
            raise FailedPrecondition(
                "--tls-client-ca: clients show certificates over TLS only",
                hint="give the daemon's own certificate too: --tls-cert and --tls-key",
            )
        return Authenticator(listen, access, None)
    return Authenticator(listen, access, Certificates(listen))


def _read_access(path: Path) -> Access:
    """The access file; that nobody gets in by it is told, since its daemon starts all the same: it may be filled while
    that runs."""
    access = read_access(path)
    if all(line.has_expired for line in access.lines):
        why = "every line of it has expired" if access.lines else "it has no line"
        adds = f"symd token NAME --access {quote(str(path))} adds one"
        log.warning("by the access file %s no client gets in: %s; %s", path, why, adds)
    return access


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
    names = (facts.get(key, ()) for key in ("x509_common_name", "x509_subject_alternative_name"))
    return certified_name(name.decode("utf-8", "replace") for name in chain.from_iterable(names))

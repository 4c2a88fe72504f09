"""Who makes a call, and whether they may: each call takes the right that its handler declares (``Call.right``).

The caller is established once for each call, before its message is read. At the daemon's own Unix socket the kernel has
kept other users out, so the caller is the daemon's user and may do everything. Over TCP, and over the socket of a
group, a client shows a token or a certificate; without either it may do what ``ListenConfig.anonymous`` says: nothing,
unless the operator decided otherwise.

The daemon's side of TLS is here too: certificate and key, read again when their files change. A new connection gets the
current ones, an open connection keeps its own.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any, Final, NamedTuple

import grpc

from symd.errors import FailedPrecondition, PermissionDenied, Unauthenticated, Unavailable
from symd.model.frame_text import printable
from symd.server.access_file import Access, read_access
from symd.server.call import Call
from symd.server.config import ALL_RIGHTS, ListenConfig, Rights, rights_text
from symd.server.standard_services import HEALTH_METHODS
from symd.server.watched_files import WatchedFiles, read_private, unreadable
from symd.system.messages import os_error_text
from symd.system.private_files import no_certificate, no_password, no_private_key, read_credentials

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


_OTHERS_OF_KEY: Final = 0o037
"""A key may be read by a group, as those below /etc/ssl/private are."""
_AUTHORITIES: Final = "give the certificates of the authorities that sign clients' certificates"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What the files say: ``authorities`` are the certificates of those who sign clients' ones. ``context`` is made of
    all that, and another one is no difference."""

    key: bytes
    chain: bytes
    authorities: bytes | None
    context: ssl.SSLContext = field(compare=False)


class Certificates:
    """The certificate, key and authorities that ``listen`` names. Raises FailedPrecondition where a file cannot be read
    or does not belong to the others, and Unavailable where the system has no descriptor or memory for that."""

    def __init__(self, listen: ListenConfig) -> None:
        if listen.tls_certificate is None or listen.tls_key is None:
            raise FailedPrecondition("TLS takes a certificate and its key", hint="give --tls-cert and --tls-key")
        self._certificate, self._key, self._client_ca = listen.tls_certificate, listen.tls_key, listen.tls_client_ca
        paths = [path for path in (self._certificate, self._key, self._client_ca) if path is not None]
        self.files = WatchedFiles(paths, self._read)
        self._lock = threading.Lock()
        self._served = self.files.value()

    def credentials(self) -> grpc.ServerCredentials:
        """Credentials for a port of gRPC, which asks at each connection whether there is something newer."""
        return grpc.dynamic_ssl_server_credentials(
            _grpc_configuration(self._served),
            self._newer,  # type: ignore[arg-type] # the stubs know no None
            require_client_authentication=self._client_ca is not None,
        )

    def _newer(self) -> grpc.ServerCertificateConfiguration | None:
        """What gRPC takes from now on; None: what it has."""
        with self._lock:
            now = self.files.value()
            if now == self._served:
                return None
            self._served = now
            return _grpc_configuration(now)

    def context(self) -> ssl.SSLContext:
        """A TLS context with what the files say now, for a connection that is none of gRPC's."""
        return self.files.value().context

    def _read(self) -> TlsFiles:
        chain = _read_file(self._certificate, "--tls-cert")
        _check(no_certificate(chain), self._certificate, "--tls-cert", "it takes the certificate, --tls-key its key")
        key = read_private(self._key, _OTHERS_OF_KEY)
        _check(no_private_key(key), self._key, "--tls-key", "it takes the key of the certificate that --tls-cert takes")
        authorities = None if self._client_ca is None else _read_file(self._client_ca, "--tls-client-ca")
        if authorities is not None and self._client_ca is not None:
            _check(no_certificate(authorities), self._client_ca, "--tls-client-ca", _AUTHORITIES)
        where = f"{self._certificate}, {self._key}"
        try:
            context = _tls_context(chain, key)
        except (ssl.SSLError, ValueError) as error:
            hint = "give a chain in PEM and the key of its first certificate, without a password"
            raise FailedPrecondition(f"not a certificate and its key: {error}", where=where, hint=hint) from None
        except OSError as error:  # ssl.SSLError is one too
            raise Unavailable(f"they cannot be handed to OpenSSL: {os_error_text(error)}", where=where) from error
        if authorities is not None:
            try:
                context.load_verify_locations(cadata=authorities.decode("ascii"))
                context.verify_mode = ssl.CERT_REQUIRED
            except (ssl.SSLError, ValueError) as error:
                raise FailedPrecondition(
                    f"--tls-client-ca: a certificate there is damaged: {error}",
                    where=str(self._client_ca),
                    hint=_AUTHORITIES,
                ) from None
        return TlsFiles(key, chain, authorities, context)


def certified_name(names: Iterable[str]) -> str | None:
    """The name that stands for a client with a certificate, of its common and then its alternative names: the first, as
    it may be in a log and in an error, for whoever signs may write anything into it."""
    return next((printable(name) for name in names if name), None)


def _tls_context(chain: bytes, key: bytes) -> ssl.SSLContext:
    """The TLS context for HTTPS, with just the bytes that gRPC gets: ``ssl`` takes only files, and the operator's may
    have been replaced since they were read. So they lie in memory as a file without a name (memfd_create(2)). Raises
    ssl.SSLError and ValueError for what they say, and OSError for the rest."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with open(os.memfd_create("symd-tls"), "wb") as both:  # noqa: PTH123 - of a descriptor
        both.write(chain + b"\n" + key)
        both.flush()
        context.load_cert_chain(f"/proc/self/fd/{both.fileno()}", password=no_password)
    return context


def _grpc_configuration(served: TlsFiles) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(served.key, served.chain)], served.authorities)


def _check(problem: str, path: Path, option: str, hint: str) -> None:
    """Raises FailedPrecondition for a file that is none of its kind, before OpenSSL says so in its words."""
    if problem:
        raise FailedPrecondition(f"{option}: {problem}", where=str(path), hint=hint)


def _read_file(path: Path, option: str) -> bytes:
    try:
        return read_credentials(path)[0]
    except OSError as error:
        raise unreadable(path, error, option=option) from error

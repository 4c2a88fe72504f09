"""The daemon's side of TLS: certificate and key, read again when their files change. A new connection gets the current
ones, an open connection keeps its own."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc

from symd.errors import FailedPrecondition, Unavailable
from symd.model.frame_text import printable
from symd.server.config import ListenConfig
from symd.server.watched_files import WatchedFiles, read_private, unreadable
from symd.system.messages import os_error_text
from symd.system.private_files import no_certificate, no_password, no_private_key, read_credentials

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

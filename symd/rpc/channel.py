"""A gRPC channel to a daemon, or to several: how they are recognised, what the client shows of itself, and what is called over it."""

from __future__ import annotations

import os
import re
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1.health_pb2_grpc import HealthStub

from symd.errors import InvalidInput, PermissionDenied, SymdError, Unauthenticated
from symd.rpc.addresses import TLS, UNIX, are_several, check_form, hosts
from symd.rpc.service_config import ONE, SEVERAL
from symd.system.addresses import is_loopback
from symd.system.credential_files import no_certificate, no_password, no_private_key, read_credentials
from symd.system.os_errors import os_error_text
from symd.v1.alias_service_pb2_grpc import AliasServiceStub
from symd.v1.breakpoint_service_pb2_grpc import BreakpointServiceStub
from symd.v1.context_service_pb2_grpc import ContextServiceStub
from symd.v1.core_service_pb2_grpc import CoreServiceStub
from symd.v1.listing_service_pb2_grpc import ListingServiceStub
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from symd.v1.name_service_pb2_grpc import NameServiceStub
from symd.v1.server_service_pb2_grpc import ServerServiceStub
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from symd.v1.variable_service_pb2_grpc import VariableServiceStub

Metadata = tuple[tuple[str, str], ...]
"""Headers of a call."""
_TOKEN: Final = re.compile(r"[\x20-\x7e]+")


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What a client shows and trusts over TCP. ``token`` is a bearer token; ``ca`` a file of certificates (PEM) that the
    daemon's must be signed by, else those that this machine trusts; ``certificate`` and ``key`` are its own. ``token_from`` says where the token was read, as errors name it."""

    token: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    token_from: str | None = None


def default_credentials() -> Credentials:
    """$SYMD_TOKEN, or the content of the file $SYMD_TOKEN_FILE; $SYMD_TLS_CA, $SYMD_TLS_CERT and $SYMD_TLS_KEY.

    Raises InvalidInput for a token file that cannot be read or is empty.
    """
    token, file, origin = os.environ.get("SYMD_TOKEN"), os.environ.get("SYMD_TOKEN_FILE"), "$SYMD_TOKEN"
    if not token and file:
        origin = file
        token = _read(file, "$SYMD_TOKEN_FILE names it").decode("utf-8", "replace").strip()
        if not token:
            raise InvalidInput(
                "the file of a token is empty", where=file, hint="$SYMD_TOKEN_FILE names it; `symd token` prints tokens"
            )
    names = ("SYMD_TLS_CA", "SYMD_TLS_CERT", "SYMD_TLS_KEY")
    ca, certificate, key = (os.environ.get(name) or None for name in names)
    return Credentials(token or None, ca, certificate, key, origin if token else None)


def connect(address: str, credentials: Credentials) -> tuple[grpc.Channel, Metadata]:
    """A channel to ``unix:PATH``, ``HOST:PORT`` or ``tls:HOST:PORT``, or to several daemons: ``dns:///HOST:PORT``, ``ipv4:HOST:PORT,HOST:PORT``
    and ``ipv6:``, also behind ``tls:``, are answered by each in turn; and what every call sends with it. Of a list behind ``tls:`` each
    daemon's certificate is for the first host. It connects when it is first used.

    Raises InvalidInput for an address of another form, for files that cannot be read, and for a token that would travel readable.
    """
    metadata = _checked_metadata(address, credentials)
    if address.startswith(TLS):
        target = address.removeprefix(TLS)
        return grpc.secure_channel(target, _tls(credentials), options=_options(address)), metadata
    return grpc.insecure_channel(address, options=_options(address)), metadata


def connect_async(address: str, credentials: Credentials) -> tuple[grpc.aio.Channel, Metadata]:
    """A channel as ``connect`` makes it, for the event loop that runs."""
    metadata = _checked_metadata(address, credentials)
    if address.startswith(TLS):
        target = address.removeprefix(TLS)
        return grpc.aio.secure_channel(target, _tls(credentials), options=_options(address)), metadata
    return grpc.aio.insecure_channel(address, options=_options(address)), metadata


def _options(address: str) -> tuple[tuple[str, Any], ...]:
    options = SEVERAL if are_several(address) else ONE
    if not address.startswith(TLS):  # over a Unix socket gRPC would send the path, which some servers refuse
        return (*options, ("grpc.default_authority", "localhost"))
    if len(hosts(address)) > 1:  # gRPC would look for the whole list in the certificates
        return (*options, ("grpc.default_authority", hosts(address)[0]))
    return options


def _checked_metadata(address: str, credentials: Credentials) -> Metadata:
    """The header with the token, where one is shown: over a Unix socket the kernel says who comes."""
    check_form(address)
    token = None if address.startswith(UNIX) else credentials.token
    if token is None:
        return ()
    if not address.startswith(TLS) and not all(map(is_loopback, hosts(address))):
        raise InvalidInput("a token would travel readable", where=address, hint=f"write {TLS}{address}")
    if not _TOKEN.fullmatch(token):
        hint = (
            "one is a line of ASCII, as `symd token` prints it; $SYMD_TOKEN or the file $SYMD_TOKEN_FILE has it alone"
        )
        raise InvalidInput("this is no token", where=_whose(address, credentials), hint=hint)
    return (("authorization", f"Bearer {token}"),)


def about_tokens(address: str, credentials: Credentials, error: SymdError) -> SymdError:
    """``error``, which names the daemon and where the token was read if it says that the daemon does not know who asks, or that they may not."""
    is_about_them = isinstance(error, (Unauthenticated, PermissionDenied))
    return error.prefix_where(_whose(address, credentials)) if is_about_them else error


def _whose(address: str, credentials: Credentials) -> str:
    """A daemon, and what is shown it."""
    shown = credentials.token_from and not address.startswith(UNIX)
    return f"{address}, the token of {credentials.token_from}" if shown else address


def _tls(credentials: Credentials) -> grpc.ChannelCredentials:
    if (credentials.certificate is None) != (credentials.key is None):
        raise InvalidInput("a certificate and its key belong together", hint="give $SYMD_TLS_CERT and $SYMD_TLS_KEY")
    files = (
        (credentials.ca, no_certificate, "$SYMD_TLS_CA or Credentials.ca names it"),
        (credentials.key, no_private_key, "$SYMD_TLS_KEY or Credentials.key names it"),
        (credentials.certificate, no_certificate, "$SYMD_TLS_CERT or Credentials.certificate names it"),
    )
    ca, key, certificate = (None if name is None else _in_pem(name, lacks, hint) for name, lacks, hint in files)
    if credentials.certificate is not None and credentials.key is not None:
        _check_pair(credentials.certificate, credentials.key)
    return grpc.ssl_channel_credentials(ca, key, certificate)


def _check_pair(certificate: str, key: str) -> None:
    """gRPC says of files that do not belong together that nobody answers."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password=no_password)
    except (OSError, ValueError) as error:  # OSError: they went since they were read
        hint = "$SYMD_TLS_CERT takes a chain in PEM, $SYMD_TLS_KEY the key of its first certificate, without a password"
        raise InvalidInput(
            f"not a certificate and its key: {os_error_text(error)}", where=f"{certificate}, {key}", hint=hint
        ) from None


def _in_pem(name: str, lacks: Callable[[bytes], str], hint: str) -> bytes:
    """The content of a file of credentials, of which ``lacks`` says why it is none of its kind: gRPC and OpenSSL say it in their words."""
    data = _read(name, hint)
    if problem := lacks(data):
        raise InvalidInput(problem, where=name, hint=hint)
    return data


def _read(name: str, hint: str) -> bytes:
    try:
        return read_credentials(name)[0]
    except OSError as error:
        raise InvalidInput(f"it cannot be read: {os_error_text(error)}", where=name, hint=hint) from error


class Stubs:
    """What is called over a channel, by service."""

    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None:
        self.health: Any = HealthStub(channel)
        self.cores: Any = CoreServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.listings: Any = ListingServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.variables: Any = VariableServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.modules: Any = ModuleServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.symbols: Any = SymbolServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.breakpoints: Any = BreakpointServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.names: Any = NameServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.contexts: Any = ContextServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.aliases: Any = AliasServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.server: Any = ServerServiceStub(channel)  # type: ignore[no-untyped-call] # generated


class Connection:
    """A channel of any thread. ``closed`` is set before it is closed; it is that of every client that shares the channel."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.closed = threading.Event()
        self._channel, self.metadata = connect(address, credentials)
        self.stubs = Stubs(self._channel)  # made now: gRPC 1.85 dies of one that is made of a closed channel

    def close(self) -> None:
        self.closed.set()
        self._channel.close()


class AsyncConnection:
    """A connection that belongs to the event loop that runs when it is first used: a channel of gRPC's belongs to one."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.closed = threading.Event()
        self.metadata: Metadata = ()
        self._address, self._credentials = address, credentials
        self._channel: grpc.aio.Channel | None = None

    @cached_property
    def stubs(self) -> Stubs:
        self._channel, self.metadata = connect_async(self._address, self._credentials)
        return Stubs(self._channel)

    async def close(self) -> None:
        self.closed.set()
        if self._channel is not None:
            await self._channel.close()

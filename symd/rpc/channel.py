"""A gRPC channel to one daemon or several: their addresses, as users write them and as gRPC takes them, how daemons are
recognized, the client's credentials, and the services that are called.

All options of a channel are set in one place: how it connects, notices a daemon that no longer answers, and repeats
calls. Clients in other languages should set the same (docs/reliability.md, "Clients", has the reasons).
"""

from __future__ import annotations

import json
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
from symd.model.texts import is_utf8
from symd.rpc.addresses import host_and_port, is_loopback
from symd.system.messages import os_error_text
from symd.system.private_files import no_certificate, no_password, no_private_key, read_credentials
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

UNIX: Final = "unix:"
TLS: Final = "tls:"
SCHEMES: Final = ("dns:", "ipv4:", "ipv6:")
"""How targets begin that may name several addresses (github.com/grpc/grpc/blob/master/doc/naming.md)."""
_TLS_SCHEMES: Final = ("https", "grpcs", "tls", "ssl")
"""How URLs begin whose writers mean TLS."""
_IN_UTF8: Final = "let the daemon listen at a path in UTF-8; a relative one is made absolute"


def are_several(address: str) -> bool:
    """Whether an address may name several daemons. What is no text names none: whoever connects says so."""
    return isinstance(address, str) and address.removeprefix("tls:").startswith(SCHEMES)


def hosts(address: str) -> list[str]:
    """The HOST:PORT that an address names; of a name of DNS that name."""
    scheme, _, rest = address.removeprefix("tls:").partition(":")
    if f"{scheme}:" not in SCHEMES:
        return [address.removeprefix("tls:")]
    return rest.split(",") if scheme != "dns" else [rest.rpartition("/")[2]]


def check_form(address: str) -> None:
    if not isinstance(address, str):
        raise InvalidInput(f"an address is text, not a {type(address).__name__}", hint=f"write {UNIX}PATH or HOST:PORT")
    if not is_utf8(address):
        raise InvalidInput("is not UTF-8, and gRPC takes no other address", where=address, hint=_IN_UTF8)
    if (written := _written_otherwise(address)) != address:
        raise InvalidInput("is not the address of a daemon", where=address, hint=f"write {written}")
    if address.startswith(UNIX) and len(address) > len(UNIX):
        return
    if are_several(address) and (together := "".join(address.split())) != address:
        raise InvalidInput("is not the address of a daemon", where=address, hint=f"write {together}")
    scheme, is_url, rest = address.partition("://")
    scheme = scheme.removeprefix(TLS)
    if is_url and f"{scheme}:" not in SCHEMES:
        place = rest.partition("/")[0]
        written = place if _is_host_and_port(place) else f"{place or 'HOST'}:PORT"
        is_tls = address.startswith(TLS) or scheme in _TLS_SCHEMES
        hint = f"an address of gRPC has no {scheme}://, write {TLS if is_tls else ''}{written}"
        raise InvalidInput("is not the address of a daemon", where=address, hint=hint)
    if not all(map(_is_host_and_port, hosts(address))):
        if "," in address and not are_several(address):
            raise InvalidInput(
                "is not the address of a daemon", where=address, hint="write ipv4:ADDRESS:PORT,ADDRESS:PORT for several"
            )
        if are_several(address):
            hint = "write ipv4:ADDRESS:PORT,ADDRESS:PORT, or dns:///HOST:PORT"
        else:
            hint = f"write {UNIX}{address}" if "/" in address else f"write {UNIX}PATH, HOST:PORT or {TLS}HOST:PORT"
        raise InvalidInput("is not the address of a daemon", where=address or "''", hint=hint)


def _written_otherwise(address: str) -> str:
    """An address whose beginning has capitals, or of a Unix socket with a host's place as URLs have it, as gRPC takes
    it; any other as it is."""
    for scheme in (UNIX, TLS):
        beginning, rest = address[: len(scheme)], address[len(scheme) :]
        is_host = _is_host_and_port(address) and ":" not in rest  # one may be called TLS
        if beginning != scheme == beginning.lower() and not is_host:
            address = scheme + rest
    path = address.removeprefix(f"{UNIX}//")
    return address if path in ("", address) or path.startswith("/") else f"{UNIX}/{path}"


def _is_host_and_port(text: str) -> bool:
    return host_and_port(text) is not None and "," not in text


_ONCE: Final = {
    "symd.v1.AliasService": ("DeleteAlias",),
    "symd.v1.ContextService": ("DeleteContext",),
    "symd.v1.ModuleService": ("DeleteModule", "GrabModule"),
}
"""Methods that say something else the second time, or cost much: who calls them decides. Every other one may be made
twice."""
_STREAMED: Final = {
    "symd.v1.BreakpointService": ("Watch",),
    "symd.v1.CoreService": ("ReadCore",),
    "symd.v1.ListingService": ("GetListing", "ReadSources"),
    "symd.v1.ModuleService": ("UploadModule", "ReadCodeObject"),
    "symd.v1.SymbolService": ("SymbolizeStream", "GetLineTable"),
}
"""Methods whose requests or answers are streams: begun anew by gRPC itself, such a call may wait forever, also beyond
its deadline (seen with gRPC 1.85: no connection is left, and the call does not end). ``symd.rpc.retry`` says who begins
them anew instead."""
PAUSES: Final = (0.1, 0.4, 1.6, 5.0)
"""Seconds before the second, third, ... attempt of a call, as the retry policy has them (which makes them up to a fifth
longer or shorter)."""
SILENT_SECONDS: Final = 40
"""Seconds that one daemon of several may take for one attempt of a call: longer than most of what a daemon does is
allowed to take (``question_seconds``). What takes longer goes on there (an index is finished all the same), so that a
later attempt finds it done."""
SERVICE_CONFIG: Final = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [
            {
                "name": [
                    {"service": service, "method": name}
                    for methods in (_ONCE, _STREAMED)
                    for service, names in methods.items()
                    for name in names
                ]
            },
            {
                "name": [{}],
                "retryPolicy": {
                    "maxAttempts": 1 + len(PAUSES),  # gRPC takes no more than 5
                    "initialBackoff": f"{PAUSES[0]}s",
                    "maxBackoff": f"{PAUSES[-1]}s",
                    "backoffMultiplier": 4,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                    "perAttemptRecvTimeout": f"{SILENT_SECONDS}s",
                },
            },
        ],
    }
)
"""The service config of a channel to several daemons (github.com/grpc/grpc/blob/master/doc/service_config.md). None of
them waits for a connection (``waitForReady``): a daemon that is not there is told of, and how it is started."""
RECONNECT_SECONDS: Final = 1
"""Seconds at most between two tries to connect to a daemon that went; gRPC makes them up to a fifth longer. One that
serves again is asked after that time at the latest."""
KEEPALIVE_SECONDS: Final = 60
"""A connection with calls may be silent so long before the client asks whether the daemon is there."""
SINGLE_DAEMON_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A daemon that is frozen, or whose machine is gone, closes no connection: a call to it would wait forever.
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),  # of what gRPC asks by itself to measure: keepalive waits for that answer
    ("grpc.http2.max_pings_without_data", 0),
    # gRPC by itself would look for a daemon that is started again once in two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # which bounds connecting, and delays nothing after a refusal (gRPC core)
    ("grpc.max_reconnect_backoff_ms", RECONNECT_SECONDS * 1000),
)
"""Options of a channel to a daemon alone (grpc/impl/channel_arg_names.h). It has no retry policy: what is wrong with
that daemon is told at once, and a module that ends its worker is not sent to it five times."""
SEVERAL_DAEMONS_OPTIONS: Final = (
    *SINGLE_DAEMON_OPTIONS,
    ("grpc.service_config", SERVICE_CONFIG),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.per_rpc_retry_buffer_size", 64 << 20),  # a request that does not fit is sent once only
    ("grpc.experimental.enable_hedging", 1),  # without it gRPC 1.85 passes over perAttemptRecvTimeout
)
"""Options of a channel to several daemons."""


Metadata = tuple[tuple[str, str], ...]
"""Headers of a call."""
_TOKEN: Final = re.compile(r"[\x20-\x7e]+")


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What a client shows and trusts over TCP. ``token`` is a bearer token; ``ca`` a file of certificates (PEM) that
    the daemon's must be signed by, else those that this machine trusts; ``certificate`` and ``key`` are its own.
    ``token_from`` says where the token was read, as errors name it."""

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


def connect(address: str, credentials: Credentials, kind: Any = grpc) -> tuple[Any, Metadata]:
    """A channel to ``unix:PATH``, ``HOST:PORT`` or ``tls:HOST:PORT``, or to several daemons: ``dns:///HOST:PORT``,
    ``ipv4:HOST:PORT,HOST:PORT`` and ``ipv6:``, also behind ``tls:``, are answered by each in turn; and what every call
    sends with it. Of a list behind ``tls:`` each daemon's certificate is for the first host. It connects when it is
    first used. ``kind`` is grpc, or grpc.aio for the event loop that runs.

    Raises InvalidInput for an address of another form, for files that cannot be read, and for a token that would travel
    readable.
    """
    metadata = _checked_metadata(address, credentials)
    if address.startswith(TLS):
        target = address.removeprefix(TLS)
        return kind.secure_channel(target, _tls(credentials), options=_options(address)), metadata
    return kind.insecure_channel(address, options=_options(address)), metadata


def _options(address: str) -> tuple[tuple[str, Any], ...]:
    options = SEVERAL_DAEMONS_OPTIONS if are_several(address) else SINGLE_DAEMON_OPTIONS
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
        raise InvalidInput("this is not a token", where=_whose(address, credentials), hint=hint)
    return (("authorization", f"Bearer {token}"),)


def about_tokens(address: str, credentials: Credentials, error: SymdError) -> SymdError:
    """``error``, which names the daemon and where the token was read if it says that the daemon does not know who asks,
    or that they may not."""
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
    """The content of a file of credentials, of which ``lacks`` says why it is none of its kind: gRPC and OpenSSL say it
    in their words."""
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


class DaemonConnection:
    """A channel of any thread. ``closed`` is set before it is closed; it is that of every client that shares the
    channel."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.closed = threading.Event()
        self._channel, self.metadata = connect(address, credentials)
        self.stubs = Stubs(self._channel)  # made now: gRPC 1.85 dies of one that is made of a closed channel

    def close(self) -> None:
        self.closed.set()
        self._channel.close()


class AsyncDaemonConnection:
    """A connection that belongs to the event loop that runs when it is first used: a channel of gRPC's belongs to
    one."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.closed = threading.Event()
        self.metadata: Metadata = ()
        self._address, self._credentials = address, credentials
        self._channel: grpc.aio.Channel | None = None

    @cached_property
    def stubs(self) -> Stubs:
        self._channel, self.metadata = connect(self._address, self._credentials, grpc.aio)
        return Stubs(self._channel)

    async def close(self) -> None:
        self.closed.set()
        if self._channel is not None:
            await self._channel.close()

"""A gRPC channel to a daemon: where it is, how it is recognised, what the client shows of itself, and what to say when there is
no connection."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

from symd.errors import InvalidInput

UNIX: Final = "unix:"
TLS: Final = "tls:"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
_PLAIN_OPTIONS: Final = (
    *_OPTIONS,
    ("grpc.default_authority", "localhost"),  # over a Unix socket gRPC would send the path, which some servers refuse
)


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What a client shows and trusts over TCP. ``token`` is a bearer token; ``ca`` a file of certificates (PEM) that the
    daemon's must be signed by, else those that this machine trusts; ``certificate`` and ``key`` are its own."""

    token: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


def default_credentials() -> Credentials:
    """$SYMD_TOKEN, or the content of the file $SYMD_TOKEN_FILE; $SYMD_TLS_CA, $SYMD_TLS_CERT and $SYMD_TLS_KEY.

    Raises InvalidInput for a token file that cannot be read.
    """
    token, file = os.environ.get("SYMD_TOKEN"), os.environ.get("SYMD_TOKEN_FILE")
    if not token and file:
        token = _read(file).decode("utf-8", "replace").strip()
    names = ("SYMD_TLS_CA", "SYMD_TLS_CERT", "SYMD_TLS_KEY")
    return Credentials(token or None, *(os.environ.get(name) or None for name in names))


def connect(address: str, credentials: Credentials) -> grpc.Channel:
    """A channel to ``unix:PATH``, ``HOST:PORT`` or ``tls:HOST:PORT``; it connects when it is first used.

    Raises InvalidInput for files that cannot be read, and for a token that would travel readable.
    """
    if address.startswith(UNIX):  # the kernel says who comes
        return grpc.insecure_channel(address, options=_PLAIN_OPTIONS)
    if address.startswith(TLS):
        channel = grpc.secure_channel(address.removeprefix(TLS), _tls(credentials), options=_OPTIONS)
    else:
        if credentials.token is not None and address.rpartition(":")[0] not in _LOOPBACK:
            raise InvalidInput("a token would travel readable", where=address, hint=f"write {TLS}{address}")
        channel = grpc.insecure_channel(address, options=_PLAIN_OPTIONS)
    return channel if credentials.token is None else grpc.intercept_channel(channel, _Bearer(credentials.token))


def unreachable(address: str, details: str) -> tuple[str, str]:
    """What is wrong and what to do, for gRPC's words about a connection that did not come about."""
    if address.startswith(UNIX):
        if "Permission denied" in details or _closed(details):
            return "the daemon's user has not let you use this socket", "symd serve --allow-uid lets further users in"
    elif address.startswith(TLS):
        if "WRONG_VERSION_NUMBER" in details:
            return "the daemon does not speak TLS there", f"write {address.removeprefix(TLS)}, where it is your own"
        if "CERTIFICATE_VERIFY_FAILED" in details or "ertificate" in details:
            words = details.partition("CERTIFICATE_VERIFY_FAILED: ")[2].partition(": OK")[0] or details
            return f"the daemon's certificate is not trusted: {words}", "$SYMD_TLS_CA names who has signed it"
        if _closed(details):
            return (
                "the daemon took no TLS connection from you",
                "it may ask for a certificate ($SYMD_TLS_CERT, $SYMD_TLS_KEY), or yours has expired",
            )
    elif _closed(details):
        return "what listens there takes no plain connection", f"it may speak TLS: write {TLS}{address}"
    return "no daemon answers", "start one with `symd serve`"


def _closed(details: str) -> bool:
    return any(words in details for words in ("Socket closed", "Connection reset", "Broken pipe", "recvmsg"))


def _tls(credentials: Credentials) -> grpc.ChannelCredentials:
    if (credentials.certificate is None) != (credentials.key is None):
        raise InvalidInput("a certificate and its key belong together", hint="give $SYMD_TLS_CERT and $SYMD_TLS_KEY")
    files = (credentials.ca, credentials.key, credentials.certificate)
    return grpc.ssl_channel_credentials(*(None if name is None else _read(name) for name in files))


def _read(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InvalidInput(f"it cannot be read: {error.strerror}", where=name) from error


class _Details(NamedTuple):
    """What gRPC asks of an interceptor to hand on (grpc.ClientCallDetails)."""

    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _Bearer(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Sends a token with each call."""

    def __init__(self, token: str) -> None:
        self._header = ("authorization", f"Bearer {token}")

    def _with_token(self, proceed: Callable[..., Any], details: Any, request: Any) -> Any:
        metadata = (*(details.metadata or ()), self._header)
        wait, compression = getattr(details, "wait_for_ready", None), getattr(details, "compression", None)
        return proceed(
            _Details(details.method, details.timeout, metadata, details.credentials, wait, compression), request
        )

    intercept_unary_unary = _with_token  # type: ignore[assignment] # the stubs tell the four apart, gRPC does not
    intercept_unary_stream = _with_token  # type: ignore[assignment]
    intercept_stream_unary = _with_token  # type: ignore[assignment]
    intercept_stream_stream = _with_token  # type: ignore[assignment]

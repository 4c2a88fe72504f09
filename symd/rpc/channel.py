"""A gRPC channel to a daemon: where it is, how it is recognised, what the client shows of itself, and what to say when there is
no connection."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio

from symd.config import own_socket
from symd.errors import InvalidInput, PermissionDenied, ServerUnavailable, SymdError, Unauthenticated
from symd.model.texts import is_utf8
from symd.rpc.failover import KEEPALIVE, OPTIONS, RECONNECTING, SCHEMES, are_several, hosts
from symd.system.addresses import host_and_port, is_loopback
from symd.system.credential_files import no_certificate, no_password, no_private_key, read_credentials
from symd.system.os_errors import os_error_text

UNIX: Final = "unix:"
TLS: Final = "tls:"
_TLS_SCHEMES: Final = ("https", "grpcs", "tls", "ssl")
"""How URLs begin whose writers mean TLS."""
_TCP_TAKES: Final = "TCP takes --access, TLS or --insecure, docs/security.md says which"
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
_PLAIN_OPTIONS: Final = (
    *_OPTIONS,
    ("grpc.default_authority", "localhost"),  # over a Unix socket gRPC would send the path, which some servers refuse
)

_FULL: Final = ", as a daemon does that has as many as it takes, its limit connections"
_LOST: Final = "the daemon ended, or closed the connection, in the middle of the call"
_WHY: Final = "try again when `symd health` says SERVING; the daemon's log says why, or the kernel's (journalctl -k) where it was killed for memory"
_EACH: Final = "`symd health --server HOST:PORT` says of each alone what is wrong; try again when one of them serves"
_RIGHT_NAME: Final = "write a name that the domain name system knows"
_LET_IN: Final = "symd serve --socket-group lets a group in"
_OTHER_NAME: Final = "Hostname Verification Check failed"
_NOT_VERIFIED: Final = "CERTIFICATE_VERIFY_FAILED"
"""gRPC's words for certificates that it does not take."""
_SAYS_NOTHING: Final = "timed out before receiving SETTINGS"
"""gRPC's words for a connection that came about, and on which nothing came."""
_LIMITED: Final = "header with status: 429"
"""gRPC's words for HTTP's Too Many Requests."""
_MINE: Final = "name one with $SYMD_TLS_CERT and its key with $SYMD_TLS_KEY, or in Credentials"
_SIGNED: Final = "; an authority that the daemon's --tls-client-ca names has to have signed it"
_TOKEN: Final = re.compile(r"[\x20-\x7e]+")
_ASKED_ALONE_SECONDS: Final = 2.0
_WAIT: Final = "try again when others have closed theirs; `symd serve --limit connections=N` takes more"


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


def connect(address: str, credentials: Credentials) -> grpc.Channel:
    """A channel to ``unix:PATH``, ``HOST:PORT`` or ``tls:HOST:PORT``, or to several daemons: ``dns:///HOST:PORT``, ``ipv4:HOST:PORT,HOST:PORT``
    and ``ipv6:``, also behind ``tls:``, are answered by each in turn. Of a list behind ``tls:`` each daemon's certificate is for the first
    host. It connects when it is first used.

    Raises InvalidInput for an address of another form, for files that cannot be read, and for a token that would travel readable.
    """
    _check_address(address, credentials)
    token = _shown_token(address, credentials)
    if address.startswith(TLS):
        channel = grpc.secure_channel(address.removeprefix(TLS), _tls(credentials), options=_options(address))
    else:
        channel = grpc.insecure_channel(address, options=_options(address))
    return channel if token is None else grpc.intercept_channel(channel, _Bearer(token))


def connect_async(address: str, credentials: Credentials) -> tuple[grpc.aio.Channel, Metadata]:
    """(a channel for the running event loop, what every call sends with it); otherwise as ``connect``."""
    _check_address(address, credentials)
    token = _shown_token(address, credentials)
    if address.startswith(TLS):
        channel = grpc.aio.secure_channel(address.removeprefix(TLS), _tls(credentials), options=_options(address))
    else:
        channel = grpc.aio.insecure_channel(address, options=_options(address))
    return channel, () if token is None else (_header(token),)


def _options(address: str) -> tuple[tuple[str, Any], ...]:
    plain = _OPTIONS if address.startswith(TLS) else _PLAIN_OPTIONS
    if not are_several(address):
        return (*plain, *RECONNECTING, *KEEPALIVE)
    if address.startswith(TLS) and len(hosts(address)) > 1:  # gRPC would look for the whole list in the certificates
        plain = (*plain, ("grpc.default_authority", hosts(address)[0]))
    return (*plain, *OPTIONS)


Metadata = tuple[tuple[str, str], ...]
"""Headers of a call."""


def _shown_token(address: str, credentials: Credentials) -> str | None:
    """The token, where one is shown: over a Unix socket the kernel says who comes. Raises InvalidInput for a text that no header can
    bring."""
    if address.startswith(UNIX) or credentials.token is None:
        return None
    if not _TOKEN.fullmatch(credentials.token):
        hint = (
            "one is a line of ASCII, as `symd token` prints it; $SYMD_TOKEN or the file $SYMD_TOKEN_FILE has it alone"
        )
        raise InvalidInput("this is no token", where=_whose(address, credentials), hint=hint)
    return credentials.token


def about_tokens(address: str, credentials: Credentials, error: SymdError) -> SymdError:
    """``error``, which names the daemon and where the token was read if it says that the daemon does not know who asks, or that they may not."""
    is_about_them = isinstance(error, (Unauthenticated, PermissionDenied))
    return error.prefix_where(_whose(address, credentials)) if is_about_them else error


def _whose(address: str, credentials: Credentials) -> str:
    """A daemon, and what is shown it."""
    shown = credentials.token_from and not address.startswith(UNIX)
    return f"{address}, the token of {credentials.token_from}" if shown else address


def _header(token: str) -> tuple[str, str]:
    return "authorization", f"Bearer {token}"


def _check_address(address: str, credentials: Credentials) -> None:
    _check_form(address)
    plain = not address.startswith((UNIX, TLS))
    if plain and credentials.token is not None and not all(map(is_loopback, hosts(address))):
        raise InvalidInput("a token would travel readable", where=address, hint=f"write {TLS}{address}")


_IN_UTF8: Final = "let the daemon listen at a path in UTF-8; a relative one is made absolute"


def _check_form(address: str) -> None:
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
    """An address whose beginning has capitals, or of a Unix socket with a host's place as URLs have it, as gRPC takes it; any other as it is."""
    for scheme in (UNIX, TLS):
        beginning, rest = address[: len(scheme)], address[len(scheme) :]
        is_host = _is_host_and_port(address) and ":" not in rest  # one may be called TLS
        if beginning != scheme == beginning.lower() and not is_host:
            address = scheme + rest
    path = address.removeprefix(f"{UNIX}//")
    return address if path in ("", address) or path.startswith("/") else f"{UNIX}/{path}"


def _is_host_and_port(text: str) -> bool:
    return host_and_port(text) is not None and "," not in text


def unreachable(address: str, details: str) -> tuple[str, str]:
    """What is wrong and what to do, for gRPC's words about a connection that did not come about, or broke."""
    if _closed(details) and _CONNECTING not in details:
        return _LOST, _WHY
    if _LIMITED in details:
        return (
            "a proxy before the daemon refused the call: too many at a time, or in a second",
            "try again later, or fewer",
        )
    if are_several(address):
        return _none_of_several(address, details)
    if _SAYS_NOTHING in details:
        return "what listens there says nothing", _stopped(address)
    if not address.startswith(UNIX) and _is_unresolved(details):
        return f"the name {hosts(address)[0].rpartition(':')[0]} cannot be resolved", _RIGHT_NAME
    way = _no_socket if address.startswith(UNIX) else _no_tls if address.startswith(TLS) else _no_tcp
    return way(address, details) or ("no daemon answers", _start(address))


def is_refused_unseen(details: str) -> bool:
    """Whether gRPC's words tell of REFUSED_STREAM, which a daemon says of a call that it has not looked at. gRPC itself sends such a call
    again only where the connection ends."""
    return _REFUSED_STREAM in details


def _start(address: str) -> str:
    """How a daemon is started that listens there."""
    if address == f"{UNIX}{own_socket()}":
        return "start one with `symd serve`"
    command = f"`symd serve --address {quote(address.removeprefix(TLS))}`"
    return f"start one with {command}" + ("" if address.startswith(UNIX) else f"; {_TCP_TAKES}")


def _stopped(address: str) -> str:
    """Why somebody who listens may not even begin to speak."""
    what = "the daemon is stopped (a T in `ps -eo pid,stat,args`), hangs or has much to do: its log says more"
    return what if address.startswith(UNIX) else f"{what}; or it is no symd daemon"


def _is_unresolved(details: str) -> bool:
    return any(words in details for words in ("DNS resolution failed", "errors resolving"))


def _none_of_several(address: str, details: str) -> tuple[str, str]:
    """What gRPC says is of the last that it tried. Of that only the certificate's faults are told: those of one name share them."""
    if _is_unresolved(details):
        return f"the name {hosts(address)[0]} has no address", _RIGHT_NAME
    said = _no_tls(address, details) if address.startswith(TLS) and not _closed(details) else None
    closed = "the connection was closed, and none of these daemons took the call"
    return said or (closed if _closed(details) else "none of these daemons answers", _EACH)


def is_untrusted(address: str, credentials: Credentials, error: SymdError) -> bool:
    """Whether each of the daemons at an address behind ``tls:`` shows a certificate that this client does not take, now that a call ended so
    at one of them: another attempt can only end so too. Each is asked alone, for up to two seconds."""
    if not address.startswith(TLS) or not _is_refused_certificate(error.metadata.get("grpc", "")):
        return False
    each = _addresses(address)
    options = (*_OPTIONS, ("grpc.default_authority", hosts(address)[0]), ("grpc.use_local_subchannel_pool", 1))
    return bool(each) and all(_shows_refused_certificate(one, credentials, options) for one in each)


def about_certificates(address: str, credentials: Credentials, error: SymdError) -> SymdError:
    """``error``, or a plainer one where a daemon closed the connection for want of a client's certificate that it takes. gRPC does not tell
    that from a daemon that has too many connections; so one is made for the handshake alone, which may take two seconds."""
    details = error.metadata.get("grpc", "")
    if not address.startswith(TLS) or are_several(address) or _CONNECTING not in details or not _closed(details):
        return error
    if not _closes_after_handshake(hosts(address)[0], credentials):
        return error
    if credentials.certificate is None:
        what, hint = "the daemon asks for a client certificate, and none was given", f"{_MINE}{_SIGNED}"
    else:
        what = f"the daemon refused the client certificate {credentials.certificate}"
        hint = f"it may have expired, or be another authority's: {_MINE}{_SIGNED}"
    return ServerUnavailable(what, where=address, hint=hint, metadata=error.metadata)


def _closes_after_handshake(place: str, credentials: Credentials) -> bool:
    """Whether a daemon does its part of the handshake and closes the connection then: of TLS 1.3 that ends before the daemon has looked at the
    client's certificate."""
    host, _, port = place.rpartition(":")
    try:
        context = ssl.create_default_context(cafile=credentials.ca)
        context.set_alpn_protocols(["h2"])
        if credentials.certificate is not None:
            context.load_cert_chain(credentials.certificate, credentials.key, password=no_password)
        where = host.strip("[]"), int(port)
        with (
            socket.create_connection(where, _ASKED_ALONE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=where[0]) as met,
        ):
            return _is_closed(met)
    except (OSError, ValueError):  # the files went since they were read, or nobody is there any more
        return False


def _is_closed(met: ssl.SSLSocket) -> bool:
    """Whether nothing comes but the end, or an alert."""
    try:
        return not met.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True


def _addresses(address: str) -> list[str]:
    """The target of each daemon alone that an address names now, a name of DNS as this machine resolves it. None where it does not, or where
    the address names a server of DNS of its own."""
    scheme, _, rest = address.removeprefix("tls:").partition(":")
    if scheme != "dns":
        return [f"{scheme}:{each}" for each in hosts(address)] if f"{scheme}:" in SCHEMES else hosts(address)
    if rest.startswith("//") and not rest.startswith("///"):
        return []
    host, _, port = hosts(address)[0].rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [
        f"ipv6:[{where[0]}]:{port}" if family == socket.AF_INET6 else f"ipv4:{where[0]}:{port}"
        for family, _, _, _, where in found
    ]


def _shows_refused_certificate(target: str, credentials: Credentials, options: tuple[tuple[str, Any], ...]) -> bool:
    with grpc.secure_channel(target, _tls(credentials), options=options) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)
        try:
            check(b"", timeout=_ASKED_ALONE_SECONDS)
        except grpc.RpcError as error:
            return _is_refused_certificate(error.details() or "")
    return False


def _is_refused_certificate(details: str) -> bool:
    return any(words in details for words in (_OTHER_NAME, _NOT_VERIFIED))


def _no_socket(address: str, details: str) -> tuple[str, str] | None:
    path = Path(address.removeprefix(UNIX))
    if "Permission denied" in details or _is_forbidden(path):
        return "the daemon's user has not let you use this socket", _LET_IN
    if path.exists() and not path.is_socket():
        return (
            "this is no socket",
            "`symd status` says where yours is; --server and `symd serve --address` must name the same",
        )
    if not _closed(details):
        return None if path.exists() else ("no daemon answers: there is no such socket", _start(address))
    if _may_open(address.removeprefix(UNIX)):
        return f"the daemon closed the connection{_FULL}", _WAIT
    return f"the daemon's user has not let you use this socket, or the connection was closed{_FULL}", _LET_IN


def _no_tls(address: str, details: str) -> tuple[str, str] | None:
    if "WRONG_VERSION_NUMBER" in details:
        return "the daemon does not speak TLS there", f"write {address.removeprefix(TLS)}, where it is your own"
    if _OTHER_NAME in details:
        host = hosts(address)[0].rpartition(":")[0]
        what = f"the daemon's certificate is for another name than {host}"
        return what, "write a name that it is for, or have one issued that is for this name too"
    if _NOT_VERIFIED in details or "ertificate" in details:
        words = details.partition(f"{_NOT_VERIFIED}: ")[2].partition(": OK")[0] or details
        return f"the daemon's certificate is not trusted: {words}", "$SYMD_TLS_CA names who has signed it"
    if _closed(details):
        asked = "it may ask for a certificate ($SYMD_TLS_CERT, $SYMD_TLS_KEY), or yours has expired"
        return f"the daemon took no TLS connection from you{_FULL}", f"try again later; {asked}"
    return None


def _no_tcp(address: str, details: str) -> tuple[str, str] | None:
    if _closed(details):
        return (
            f"write {TLS}{address} if it speaks TLS: it takes no plain connection",
            f"or it closed this one{_FULL}",
        )
    if "Failed parsing HTTP/2" in details:
        return (
            "what listens there is no symd daemon: it does not speak gRPC",
            "symd serve --address says at which port yours is",
        )
    return None


def _may_open(path: str) -> bool:
    """Whether the socket's mode lets this user alone open it, besides root: then no list of the daemon's keeps him out."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a path that begins with // is no other
    except OSError:
        return False
    return os.geteuid() in (0, status.st_uid)


def _is_forbidden(path: Path) -> bool:
    """Whether a socket is there, or may be, that this user may not write to."""
    if os.access(path, os.W_OK):
        return False
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:  # nothing is there, or no longer
        return False
    return True


_REFUSED_STREAM: Final = "RST_STREAM with error code 7"
"""gRPC's words for it (RFC 9113, 7)."""
_CONNECTING: Final = "last error: "
"""What stands in gRPC's words where no connection came about."""


def _closed(details: str) -> bool:
    return any(words in details for words in ("Socket closed", "Connection reset", "Broken pipe", "recvmsg"))


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
        self._header = _header(token)

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

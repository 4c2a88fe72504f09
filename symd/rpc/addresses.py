"""Addresses of daemons, as users write them and gRPC takes them."""

from __future__ import annotations

from typing import Final

from symd.errors import InvalidInput
from symd.model.texts import is_utf8
from symd.system.addresses import host_and_port

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

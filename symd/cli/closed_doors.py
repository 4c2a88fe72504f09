"""Options of ``symd serve`` about a door that it does not open: who comes over TCP where it listens at Unix sockets alone, and their like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from symd.server.config import Doors

_TCP = "give --address HOST:PORT or --http HOST:PORT too"


def check_doors(addresses: Sequence[str], http: str, metrics: str, doors: Doors) -> None:
    """Raises click.UsageError for an option that promises what no door of this daemon gives: somebody who is let in, TLS, other machines."""
    if doors.users and not any(map(is_unix, addresses)):
        raise click.UsageError("--allow-uid is about who comes over a Unix socket: give --address unix:PATH too")
    if doors.tls_certificate is not None and not _has_tcp(addresses, http):
        raise click.UsageError(f"--tls-cert and --tls-key are about TCP, and all addresses are Unix sockets: {_TCP}")
    if doors.open_metrics and not metrics:
        raise click.UsageError("--open-metrics is about who reads the metrics: give --metrics HOST:PORT too")


def without_effect(
    addresses: Sequence[str], http: str, doors: Doors, *, is_certificate_rights_given: bool
) -> Iterator[str]:
    """A sentence for each further option that does nothing here. Files of options that several daemons share may have it all the same."""
    if not _has_tcp(addresses, http):
        given = {
            "--access": doors.access is not None,
            "--anonymous": doors.anonymous is not None,
            "--insecure": doors.insecure,
            "--open-health": doors.open_health and not doors.users,
        }
        for option, is_given in given.items():
            if is_given:
                yield f"{option} does nothing: it is about TCP, and all addresses are Unix sockets; {_TCP}, or leave it out"
    if is_certificate_rights_given and doors.tls_client_ca is None:
        yield "--certificate-rights does nothing: no client shows a certificate; give --tls-client-ca PEM too, or leave it out"
    elif is_certificate_rights_given and doors.access is not None:
        yield "--certificate-rights does nothing: the lines of --access say what clients with a certificate may do; leave it out"


def _has_tcp(addresses: Sequence[str], http: str) -> bool:
    return bool(http) or not all(map(is_unix, addresses))


def is_unix(address: str) -> bool:
    """Whether this is the address of a Unix socket."""
    return address.startswith("unix:")

"""The options of ``symd serve`` that say who is let in."""

from __future__ import annotations

import functools
import grp
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from symd.errors import InvalidInput
from symd.server.config import NO_RIGHTS, ListenConfig, Right, Rights, parse_rights, rights_text
from symd.system.messages import os_error_text

_DEFAULTS = ListenConfig()
_RIGHTS = ",".join(right.value for right in Right)


def rights_value(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Rights | None:
    """ "read,write" to rights; "none" to no right."""
    return None if text is None else _rights(text)


def group_number(_context: click.Context, _parameter: click.Parameter, name: str | None) -> int | None:
    """A group's name to its number."""
    try:
        return None if name is None else grp.getgrnam(name).gr_gid
    except KeyError:
        raise click.BadParameter(f"there is no group {name!r}") from None


def _rights(text: str) -> Rights:
    try:
        return NO_RIGHTS if text == "none" else parse_rights(text)
    except InvalidInput as error:
        raise click.BadParameter(str(error)) from None


def there(_context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """A file that is there: the call is wrong where none is. What is in it, and who may read it, the daemon
    judges."""
    try:
        if path is not None:
            path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        token = f"; symd token NAME --access {shlex.quote(str(path))} makes one" if parameter.name == "access" else ""
        raise click.BadParameter(f"{path}: {os_error_text(error)}{token}") from None
    except OSError:
        pass  # the daemon says why it may not be read
    return path


_FILE = click.Path(dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option(
        "--socket-group",
        metavar="GROUP",
        callback=group_number,
        help="Let this group of users open the Unix socket. Each member, including you, then gets the --anonymous rights (read by default) or, with --access, the rights of a token.",
    ),
    click.option(
        "--access",
        type=_FILE,
        callback=there,
        metavar="FILE",
        help="A file of clients and their bearer tokens (see symd daemon token), for TCP and --socket-group; reread when it changes.",
    ),
    click.option(
        "--tls-cert",
        "tls_certificate",
        type=_FILE,
        callback=there,
        metavar="PEM",
        help="The daemon's certificate and any intermediate certificates. TCP then uses TLS.",
    ),
    click.option(
        "--tls-key",
        type=_FILE,
        callback=there,
        metavar="PEM",
        help="The key of --tls-cert, without a password, in a file that others cannot read.",
    ),
    click.option(
        "--tls-client-ca",
        type=_FILE,
        callback=there,
        metavar="PEM",
        help="CA certificates. Only clients with a certificate signed by one of these CAs can connect.",
    ),
    click.option(
        "--certificate-rights",
        default=rights_text(_DEFAULTS.certificate_rights),
        show_default=True,
        metavar="RIGHTS",
        callback=rights_value,
        help="What a client with a certificate (--tls-client-ca) may do if there is no --access.",
    ),
    click.option(
        "--anonymous",
        metavar="RIGHTS",
        callback=rights_value,
        help=f"What a client over TCP or --socket-group may do without a token or certificate: some of {_RIGHTS}, or none. Default: none with --access or --tls-client-ca; otherwise read, or read,write with --insecure.",
    ),
    click.option("--insecure", is_flag=True, help="Listen on plain TCP: anyone who can reach it may read and write."),
    click.option("--open-health", is_flag=True, help="Let anyone ask for the daemon's health."),
    click.option(
        "--open-metrics",
        is_flag=True,
        help="Let --metrics listen where other machines can reach it. Anyone on them may read the metrics.",
    ),
    click.option(
        "--grab-unconfined",
        is_flag=True,
        help="Let other users run symd grab even if this machine's Linux kernel cannot sandbox drivers. Those users may then be able to read your files.",
    ),
)


def _check_certificate(listen: ListenConfig) -> None:
    """Raises UsageError where half of what TLS takes is given."""
    missing = [
        option
        for option, path in (("--tls-cert", listen.tls_certificate), ("--tls-key", listen.tls_key))
        if path is None
    ]
    if len(missing) == 1:
        raise click.UsageError(f"TLS needs a certificate and its key: also give {missing[0]}")
    if missing and listen.tls_client_ca is not None:
        raise click.UsageError("clients show certificates over TLS only: give --tls-cert and --tls-key too")


def listen_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; it takes them as ``listen``."""

    @functools.wraps(command)
    def with_listen(**values: Any) -> Any:
        names = ListenConfig.__dataclass_fields__
        listen = ListenConfig(**{name: values.pop(name) for name in names})
        _check_certificate(listen)
        return command(**values, listen=listen)

    return functools.reduce(lambda verb, option: option(verb), reversed(_OPTIONS), with_listen)

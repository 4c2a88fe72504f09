"""Who may reach a daemon: ``symd token`` makes bearer tokens for TCP, and options of ``symd serve`` say which tokens,
certificates and users are let in."""

from __future__ import annotations

import functools
import grp
import os
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Any

import click

from symd.cli.options import example, json_option
from symd.cli.output import write_json, write_line
from symd.errors import InvalidInput
from symd.server.access_file import (
    added,
    edit,
    ending,
    new_token,
    newest_rights,
    read_access,
    time_text,
    token_line,
    without,
    without_older,
)
from symd.server.config import NO_RIGHTS, ListenConfig, Right, Rights, parse_rights, rights_text
from symd.system.messages import complain, os_error_text

_LIFE = re.compile(r"([0-9]{1,6})(min|h|d|w)", re.ASCII)
_MINUTES = {"min": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}


def time_value(_context: click.Context, _parameter: click.Parameter, text: str | None) -> datetime | None:
    """ "90d" from now, or "2027-02-20", to a time in UTC."""
    if text is None:
        return None
    now = datetime.now(UTC)
    try:
        life = _LIFE.fullmatch(text)
        if life:
            time = now + timedelta(minutes=int(life[1]) * _MINUTES[life[2]])
        else:
            given = datetime.fromisoformat(text)
            time = given if given.tzinfo else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        hint = "write how long (30min, 12h, 90d, 4w) or until when (2027-02-20, 2027-02-20T09:00:00Z)"
        raise click.BadParameter(f"{text!r} is not a time; {hint}") from None
    if time <= now:
        raise click.BadParameter(f"{text!r} is past")
    return time


def rights_value(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Rights | None:
    """ "read,write" to rights; "none" to no right."""
    return None if text is None else _rights(text)


def _rights(text: str) -> Rights:
    try:
        return NO_RIGHTS if text == "none" else parse_rights(text)
    except InvalidInput as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    "token",
    epilog=example(
        "symd daemon token ci --rights read,write --expires 90d --access access > ci.token\n"
        "symd daemon token --list --access access\n"
        "symd daemon token ci --rotate --old-until 7d --access access > ci.new.token\n"
        "symd daemon token ci --revoke --access access\n"
        "SYMD_TOKEN_FILE=ci.token symd info --server tls:localhost:50051 kernel.dbg"
    ),
)
@click.argument("name", required=False)
@click.option(
    "--rights",
    metavar="RIGHTS",
    callback=rights_value,
    help="Some of read,write,grab,admin.  [default: read; with --rotate, those of the newest token]",
)
@click.option(
    "--access",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Add its line to this access file, which is created if necessary; otherwise the line goes to stderr.",
)
@click.option(
    "--expires",
    metavar="TIME",
    callback=time_value,
    help="When the new token expires: in 30min, 12h, 90d, 4w, or at 2027-02-20 (UTC). Without it, never.",
)
@click.option(
    "--rotate", is_flag=True, help="Make another token for NAME. Existing ones stay valid until they are revoked."
)
@click.option(
    "--old-until", metavar="TIME", callback=time_value, help="With --rotate: when the existing tokens expire."
)
@click.option("--revoke", is_flag=True, help="Instead, remove all lines of NAME from the access file.")
@click.option(
    "--revoke-old", is_flag=True, help="Instead, remove all tokens of NAME except the newest from the access file."
)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="Instead, list who is in the access file; tokens and digests are not shown.",
)
@json_option
def command(
    name: str | None,
    rights: Rights | None,
    access: Path | None,
    expires: datetime | None,
    rotate: bool,
    old_until: datetime | None,
    revoke: bool,
    revoke_old: bool,
    listing: bool,
    as_json: bool,
) -> None:
    """Make a bearer token for the client NAME and print it. It is shown only this once, because the access file keeps
    only its digest.

    A daemon that uses this access file notices the change at the next call, or at the next message of a stream. Several
    programs may change the file at the same time.
    """
    doing = [
        word
        for word, asked in {
            "--rotate": rotate,
            "--revoke": revoke,
            "--revoke-old": revoke_old,
            "--list": listing,
        }.items()
        if asked
    ]
    _check(doing, name, access, rights, expires, old_until)
    if access is not None and listing:
        _list(access, name, as_json=as_json)
    elif name is not None and access is not None and (revoke or revoke_old):
        _revoke(access, name, only_old=revoke_old)
    elif name is not None:
        _make(name, rights, access, expires, rotate=rotate, old_until=old_until)


def _check(
    doing: list[str],
    name: str | None,
    access: Path | None,
    rights: Rights | None,
    expires: datetime | None,
    old_until: datetime | None,
) -> None:
    """Raises click.UsageError for what does not go together."""
    if len(doing) > 1:
        raise click.UsageError(f"{' and '.join(doing)} do not go together")
    if doing and access is None:
        raise click.UsageError(f"{doing[0]} needs the --access file that has the name")
    if name is None and doing != ["--list"]:
        raise click.UsageError("whose token? Give a NAME")
    if old_until is not None and doing != ["--rotate"]:
        raise click.UsageError("--old-until goes with --rotate")
    if doing not in ([], ["--rotate"]) and (expires is not None or rights is not None):
        raise click.UsageError(f"--expires and --rights are for a new token; {doing[0]} does not make one")
    if rights is not None and not rights:
        raise click.UsageError("--rights must name at least one")


def _make(
    name: str,
    rights: Rights | None,
    access: Path | None,
    expires: datetime | None,
    *,
    rotate: bool,
    old_until: datetime | None,
) -> None:
    token = new_token()
    if access is None:
        line = token_line(name, rights or frozenset((Right.READ,)), token, expires)
        click.echo(f"# for the access file, which symd serve --access names:\n{line}", err=True)
        click.echo(
            "# for the client, on standard output, the token ($SYMD_TOKEN, or a file that $SYMD_TOKEN_FILE names):",
            err=True,
        )
        write_line(token)
        return

    def change(text: str) -> str:
        has = rights
        if rotate:
            has = rights or newest_rights(text, access, name)
            text = text if old_until is None else ending(text, name, old_until)
        return added(text, token_line(name, has or frozenset((Right.READ,)), token, expires))

    is_new = not rotate and not os.path.lexists(access)
    entries = edit(access, change, create=not rotate).lines
    if is_new:
        complain(f"{access} did not exist and was created; symd serve --access {quote(str(access))} reads it")
    valid = sum(entry.name == name and entry.digest is not None and not entry.has_expired for entry in entries)
    if valid > 1 and not rotate:
        said = f"{name} has {valid} valid tokens now (--revoke-old takes out all but this one; --rotate --old-until 7d lets older ones end)"
        complain(said)
    write_line(token)


def _revoke(access: Path, name: str, *, only_old: bool) -> None:
    edit(access, lambda text: without_older(text, name) if only_old else without(text, name))


def _list(access: Path, name: str | None, *, as_json: bool) -> None:
    entries = [entry for entry in read_access(access).lines if name is None or entry.name == name]
    rows = [
        (
            entry.name,
            rights_text(entry.rights),
            "certificate" if entry.digest is None else "token",
            time_text(entry.expires),
            entry.has_expired,
        )
        for entry in entries
    ]
    if as_json:
        for who, have, kind, until, over in rows:
            write_json(
                {
                    "name": who,
                    "rights": have.split(","),
                    "kind": kind,
                    "expires": None if until == "never" else until,
                    "expired": over,
                }
            )
        return
    table = [
        ("NAME", "RIGHTS", "KIND", "EXPIRES"),
        *((*row[:3], f"{row[3]} (it has)" if row[4] else row[3]) for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        write_line("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


_DEFAULTS = ListenConfig()
_RIGHTS = ",".join(right.value for right in Right)


def group_number(_context: click.Context, _parameter: click.Parameter, name: str | None) -> int | None:
    """A group's name to its number."""
    try:
        return None if name is None else grp.getgrnam(name).gr_gid
    except KeyError:
        raise click.BadParameter(f"there is no group {name!r}") from None


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

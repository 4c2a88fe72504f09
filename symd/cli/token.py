"""``symd token``: bearer tokens for those who reach a daemon over TCP."""

from __future__ import annotations

from pathlib import Path

import click

from symd.cli.door_options import rights_value
from symd.cli.options import example
from symd.cli.output import write_line
from symd.cli.output_file import write_file
from symd.model.rights import Rights

_HINT = "choose another --access"


@click.command(
    "token",
    epilog=example(
        "symd token ci --rights read,write --access /etc/symd/access > ci.token\n"
        "symd serve --address 0.0.0.0:50051 --access /etc/symd/access --tls-cert host.pem --tls-key host.key\n"
        "SYMD_TOKEN=$(cat ci.token) symd symbolize --server tls:host:50051 kernel.dbg vadd+0x1b0"
    ),
)
@click.argument("name")
@click.option(
    "--rights",
    default="read",
    show_default=True,
    metavar="RIGHTS",
    callback=rights_value,
    help="Some of read,write,grab,admin.",
)
@click.option(
    "--access",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Add its line to this access file, which is made where it is not there; else the line goes to stderr.",
)
@click.option("--revoke", is_flag=True, help="Take every line of NAME out of the access file instead.")
def command(name: str, rights: Rights, access: Path | None, revoke: bool) -> None:
    """Make a bearer token for the client NAME and print it, this once: the access file keeps its digest.

    A daemon that runs with this access file knows the change at the next call.
    """
    from symd.service.access_file import new_token, token_line, without  # noqa: PLC0415 - it imports gRPC

    if revoke:
        if access is None:
            raise click.UsageError("--revoke takes the --access file that has the name")
        write_file(access, without(access, name).encode(), hint=_HINT)
        return
    if not rights:
        raise click.UsageError("--rights must name one at least")
    token = new_token()
    line = token_line(name, rights, token)
    if access is None:
        click.echo(line, err=True)
    else:
        _add(access, line)
    write_line(token)


def _add(path: Path, line: str) -> None:
    """Add a line to an access file, which others may not read from its beginning on."""
    from symd.service.access_file import read_access  # noqa: PLC0415 - likewise

    before = ""
    if path.exists():
        read_access(path)
        before = path.read_text(encoding="utf-8")
    else:
        write_file(path, b"", hint=_HINT)
        path.chmod(0o600)
    end = "" if not before or before.endswith("\n") else "\n"
    write_file(path, f"{before}{end}{line}\n".encode(), hint=_HINT)

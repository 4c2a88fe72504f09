"""``symd daemon start``: ``symd serve`` in the background, with the same options.

Its log, and what it says if it cannot start, goes to the file to which ``symd serve`` in a terminal writes the audit
log. No file keeps its process: ``symd daemon stop`` asks the kernel who listens at the socket.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from symd.cli.options import example
from symd.cli.output import write_build_log, write_line
from symd.cli.serve import GROUPS, GroupedCommand, is_unix
from symd.cli.serve import command as serve_command
from symd.client import Client
from symd.config import audit_file, own_socket
from symd.errors import StoreUnavailable, SymdError, Unavailable
from symd.system.messages import complain, os_error_text
from symd.system.private_files import make_folder, open_private
from symd.system.process.programs import BackgroundProgram

_START_SECONDS: Final = 60.0
"""How long a start may take: it takes two seconds over thousands of modules, and more where a disk or a database is
slow."""
_HEALTH_SECONDS: Final = 5.0
"""How long a daemon that is there already has to say so."""
_LAST_LINES: Final = 20
"""Lines of the log of a daemon that did not start that are shown: why is at their end."""
_LOG_BYTES: Final = 1 << 16
_TYPED: Final = "symd.start.typed"


class _StartCommand(GroupedCommand):
    """Takes the options of symd serve, and keeps them as they were typed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = tuple(args)  # click takes words out of args
        return super().parse_args(ctx, args)


@click.command(
    "start",
    cls=_StartCommand,
    groups=GROUPS,
    params=serve_command.params,
    epilog=example("symd daemon start\nsymd daemon start --http 127.0.0.1:8080"),
)
def command(addresses: tuple[str, ...], http: str, **_others: object) -> int:
    """Start a daemon in the background, and wait until it serves. It takes the options of symd serve, outlives the
    terminal, and writes its log to symd/audit.log in $XDG_STATE_HOME (~/.local/state).

    symd daemon stop ends it. Exit code 0: it serves, or one served there already; any other: it did not start, and
    what it said is shown.
    """
    address = next(filter(is_unix, addresses), addresses[0])
    stop = "symd daemon stop" if address == f"unix:{own_socket()}" else f"symd daemon stop --server {address}"
    if _serves(address):
        return _started_before(address, stop)
    options = click.get_current_context().meta[_TYPED]
    log = audit_file()
    with open(_opened(log), "rb", buffering=0) as written:
        begin = written.seek(0, os.SEEK_END)
        words = [sys.executable, "-P", "-m", "symd", "serve", *options]
        daemon = BackgroundProgram("symd serve", words, written.fileno())
        lines = daemon.lines(len(dict.fromkeys(addresses)) + bool(http), _START_SECONDS)
        if daemon.status is not None and _serves(address):  # another start, at the same moment
            return _started_before(address, stop)
        if daemon.status is not None:
            written.seek(max(begin, written.seek(0, os.SEEK_END) - _LOG_BYTES))
            _show_end(written.read(_LOG_BYTES), daemon.status)
            return daemon.status if daemon.status > 0 else Unavailable.exit_code
    for line in lines:
        write_line(line)
    end = stop if is_unix(address) else f"kill {daemon.process}"
    complain(f"process {daemon.process}, its log is {log}; {end} ends it")
    return 0


def _serves(address: str) -> bool:
    try:
        with Client(address, timeout=_HEALTH_SECONDS) as client:
            return client.health() == "SERVING"
    except SymdError:  # nobody is there, or the daemon that is to be started says who is
        return False


def _started_before(address: str, stop: str) -> int:
    write_line(f"symd serves at {address}")
    complain(f"it was started before, with its own options; {stop} ends it")
    return 0


def _opened(log: Path) -> int:
    """A descriptor of the log, which is written at its end. Raises StoreUnavailable."""
    try:
        make_folder(log.parent, parents=True, exist_ok=True)
        return open_private(log, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        hint = "$XDG_STATE_HOME names the folder for it"
        raise StoreUnavailable(f"cannot write the log: {os_error_text(error)}", where=str(log), hint=hint) from error


def _show_end(said: bytes, status: int) -> None:
    """The last of what a daemon said that ended with ``status``."""
    lines: Sequence[str] = said.decode(errors="backslashreplace").splitlines()[-_LAST_LINES:]
    write_build_log("\n".join(lines or [f"symd: the daemon ended without a word ({status})"]))

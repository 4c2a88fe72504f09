"""``symd daemon stop``: end the daemon at a Unix socket, as SIGTERM does, and wait until it has ended.

The process is the one that listens at the socket, as the kernel says (SO_PEERCRED, unix(7)); it is asked first whether
it is symd's daemon.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct

import click

from symd.cli.options import daemon_option, example, timeout_option
from symd.cli.output import write_line
from symd.client import Client
from symd.errors import InvalidInput, Unavailable
from symd.rpc.channel import UNIX

_CREDENTIALS = struct.Struct("3i")
"""struct ucred of unix(7): process, user, group."""
MILLISECONDS = 1000


@click.command("stop", epilog=example("symd daemon stop\nsymd daemon stop --server unix:/run/symd/symd.sock"))
@daemon_option
@timeout_option(30.0, "How long to wait for the daemon to end.")
def command(server: str | None, timeout: float) -> None:
    """Stop the daemon at a Unix socket on this machine, and wait until it has ended.

    Running requests get the time that symd serve --grace allows. If a daemon listens only on TCP, stop it where it
    runs; if systemd started it, use systemctl stop. Exit code 3: no daemon answers, or it does not end in time.
    """
    with Client(server) as client:
        address = client.address
        if not address.startswith(UNIX):
            hint = "stop it where it runs, with Ctrl-C, kill or systemctl stop"
            raise InvalidInput("only a daemon at a Unix socket can be stopped from here", where=address, hint=hint)
        client.server_info()
    process = _listening_process(address.removeprefix(UNIX))
    try:
        ended = os.pidfd_open(process)
        try:
            signal.pidfd_send_signal(ended, signal.SIGTERM)
            if not _has_ended(ended, timeout):
                raise Unavailable(
                    f"the daemon (process {process}) did not end within {timeout:g} seconds",
                    where=address,
                    hint=f"wait longer with --timeout, or end it at once with kill -9 {process}",
                )
        finally:
            os.close(ended)
    except ProcessLookupError:
        pass  # it ended by itself
    except PermissionError as error:
        hint = "ask that user, or stop it as root"
        raise Unavailable("the daemon belongs to another user", where=address, hint=hint) from error
    write_line(f"symd: stopped the daemon at {address} (process {process})")


def _listening_process(path: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[0])


def _has_ended(descriptor: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout * MILLISECONDS))

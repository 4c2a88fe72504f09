"""``symd daemon VERB``: what looks after a daemon."""

from __future__ import annotations

import click

from symd.cli.command_line import VerbsBelow
from symd.cli.options import example


@click.group(
    "daemon", cls=VerbsBelow, epilog=example("symd daemon status\nsymd daemon modules 'kernels*'\nsymd daemon stop")
)
def command() -> None:
    """Manage a daemon: see how it is doing, what it has and who may use it, and stop it.

    symd serve starts one. Each verb asks the daemon that runs here, unless --server or $SYMD_SERVER names another.
    """

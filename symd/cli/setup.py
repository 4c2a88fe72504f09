"""``symd setup VERB``: what sets up shells, debuggers and assistants."""

from __future__ import annotations

import click

from symd.cli.command_line import VerbsBelow
from symd.cli.options import example


@click.group(
    "setup",
    cls=VerbsBelow,
    epilog=example("symd setup completion bash\nsymd setup samples ."),
)
def command() -> None:
    """Set up a shell, a debugger, an assistant or other programs to use symd, and copy the samples."""

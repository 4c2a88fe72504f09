"""``symd gdb-script``: where the commands for gdb lie."""

from __future__ import annotations

from importlib.resources import files

import click

from symd.cli.options import example
from symd.cli.output import write_line


@click.command("gdb-script", epilog=example('gdb -x "$(symd gdb-script)" ./program'))
def command() -> None:
    """Print the path of a script with commands for gdb: symd frames, symd variables, symd locate.

    They give source lines of GPU code beside a program that gdb has stopped, by symd in a child process. In gdb: source PATH, then
    help symd frames; docs/integrations.md shows a session.
    """
    write_line(str(files("symd.cli.debuggers") / "symd_gdb.py"))

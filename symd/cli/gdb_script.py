"""``symd gdb-script``: where the commands for gdb lie."""

from __future__ import annotations

from importlib.resources import files

import click

from symd.cli.options import example
from symd.cli.output import write_line


@click.command("gdb-script", epilog=example('gdb -x "$(symd setup gdb-script)" ./program'))
def command() -> None:
    """Print the path of a script that adds commands to gdb: symd frames, symd variables, symd locate.

    They show source lines of GPU code next to a program that gdb has stopped; symd runs in a child process. In gdb, type: source PATH,
    then help symd frames. docs/integrations.md shows a session.
    """
    write_line(str(files("symd.cli.debuggers") / "symd_gdb.py"))

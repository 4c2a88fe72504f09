"""``symd gdb-script`` and ``symd lldb-script``: where the commands for these debuggers lie."""

from __future__ import annotations

from importlib.resources import files

import click

from symd.cli.options import example
from symd.cli.output import write_line


@click.command("gdb-script", epilog=example('gdb -x "$(symd setup gdb-script)" ./program'))
def gdb_script() -> None:
    """Print the path of a script with commands for gdb: symd frames, symd variables, symd locate.

    They run symd in a child process to show source lines of GPU code beside a program that gdb has stopped. In gdb,
    type source PATH, then help symd frames; docs/integrations.md shows a session.
    """
    _write_path("symd_gdb.py")


@click.command("lldb-script", epilog=example('lldb -o "command script import $(symd setup lldb-script)" ./program'))
def lldb_script() -> None:
    """Print the path of a script with commands for LLDB: symd context, symd frames, symd settings.

    They run symd in a child process to tell a daemon which modules LLDB has at which addresses, and to ask it for
    source lines. docs/integrations.md shows a session.
    """
    _write_path("symd_lldb.py")


def _write_path(script: str) -> None:
    write_line(str(files("symd.cli.debuggers") / script))

"""``symd lldb-script``: where the commands for LLDB lie."""

from __future__ import annotations

from importlib.resources import files

import click

from symd.cli.options import example
from symd.cli.output import write_line


@click.command("lldb-script", epilog=example('lldb -o "command script import $(symd setup lldb-script)" ./program'))
def command() -> None:
    """Print the path of a script that adds commands to LLDB: symd context, symd frames, symd settings.

    They tell a daemon which modules LLDB has at which addresses, and ask it for source lines; symd runs in a child process.
    docs/integrations.md shows a session.
    """
    write_line(str(files("symd.cli.debuggers") / "symd_lldb.py"))

"""``symd modules``: what a daemon has."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import click

from symd.cli.options import daemon_option, example, json_option
from symd.cli.output import NO, printable, write_json, write_line
from symd.client import Client
from symd.engine.files.module import SHORT
from symd.model.json.modules import record_json
from symd.model.summaries import ModuleRecord

HEADING = f"{'SHA-256':<{SHORT}}  {'format':<14}  {'bytes':>12}  {'came (UTC)':<19}  label"
"""The heading of the columns, written on a terminal only: elsewhere each line is a module."""


@click.command("modules", epilog=example("symd daemon modules\nsymd daemon modules --json '*.zebin'"))
@daemon_option
@json_option
@click.argument("pattern", required=False)
def command(server: str | None, as_json: bool, pattern: str | None) -> int:
    """List the modules of a daemon, oldest first: the beginning of their SHA-256, format, size, when they were added, and their label.

    PATTERN selects modules whose label matches it (with "*", "?" or "[...]"), or whose SHA-256 begins with it. Wherever you name a
    module, the beginning of its SHA-256 is enough if no other module shares it. Exit code 1: PATTERN matches nothing.
    """

    shown = 0
    with Client(server) as client:
        for record in client.modules():
            if pattern is None or _fits(record, pattern):
                if not shown and not as_json and sys.stdout.isatty():
                    write_line(HEADING)
                shown += 1
                write_json(record_json(record)) if as_json else write_line(record_text(record))
    if not shown and pattern is None:
        click.echo(
            f"symd: the daemon has no modules yet; symd info --server {printable(server or 'default')} FILE adds one",
            err=True,
        )
    if shown or pattern is None:
        return 0
    said = f"no module's SHA-256 begins with {pattern!r}, and no label fits it; symd modules lists what there is"
    click.echo(f"symd: {printable(said)}", err=True)
    return NO


def _fits(record: ModuleRecord, pattern: str) -> bool:

    return fnmatchcase(record.label, pattern) or record.sha256.startswith(pattern.removeprefix("modules/"))


def record_text(record: ModuleRecord) -> str:
    """One module, in columns."""
    came = datetime.fromtimestamp(record.create_time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    form = record.format or "not read yet"
    failure = f"  cannot be read: {record.failure}" if record.failure else ""
    return f"{record.sha256[:SHORT]}  {form:<14}  {record.size:>12}  {came}  {record.label}{failure}".rstrip()

"""``symd daemon add``, ``modules`` and ``rm``: what a daemon is given, what it has, and what it is to forget."""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import click

from symd.api import Symbolizer
from symd.cli.options import complete_files, daemon_option, example, json_option
from symd.cli.output import NO, write_json, write_line
from symd.config import DEFAULT_LIMITS
from symd.engine.files import hints_name, working
from symd.engine.files.added_module import SHORT, add_bytes, chosen_module, daemon, read_module
from symd.engine.files.input import read_input
from symd.errors import BadQuery, InvalidInput, ModuleNotFound, SymdError, Unavailable
from symd.formats.containers.file_part import sha256_of
from symd.model.addresses import is_number
from symd.model.frame_text import printable
from symd.model.json.modules import record_json
from symd.model.summaries import ModuleRecord
from symd.system.messages import complain

_HEADING = f"{'SHA-256':<{SHORT}}  {'format':<14}  {'bytes':>12}  {'came (UTC)':<19}  label"
"""The heading of the columns, written on a terminal only: elsewhere each line is a module."""


@click.command("modules", epilog=example("symd daemon modules\nsymd daemon modules --json '*.zebin'"))
@daemon_option
@json_option
@click.argument("pattern", required=False)
def command(server: str | None, as_json: bool, pattern: str | None) -> int:
    """List the modules of a daemon, oldest first: the start of each one's SHA-256, its format, size, time added,
    and label.

    PATTERN selects modules whose label matches it (with "*", "?" or "[...]"), or whose SHA-256 begins with it. Wherever
    you name a module, the beginning of its SHA-256 is enough if no other module shares it. Exit code 1: PATTERN matches
    nothing.
    """
    shown = 0
    with daemon(server) as client:
        for record in client.modules():
            if pattern is None or _fits(record, pattern):
                if not shown and not as_json and sys.stdout.isatty():
                    write_line(_HEADING)
                shown += 1
                write_json(record_json(record)) if as_json else write_line(_record_text(record))
    if not shown and pattern is None:
        complain(f"the daemon has no modules yet; symd daemon add --server {server or 'default'} FILE adds one")
    if shown or pattern is None:
        return 0
    complain(f"no module's SHA-256 begins with {pattern!r}, and no label matches it; symd modules lists what there is")
    return NO


def _fits(record: ModuleRecord, pattern: str) -> bool:
    return fnmatchcase(record.label, pattern) or record.sha256.startswith(pattern.removeprefix("modules/"))


def _record_text(record: ModuleRecord) -> str:
    """One module, in columns."""
    came = datetime.fromtimestamp(record.create_time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    form = record.format or "not read yet"
    failure = f"  cannot be read: {record.failure}" if record.failure else ""
    return f"{record.sha256[:SHORT]}  {form:<14}  {record.size:>12}  {came}  {record.label}{failure}".rstrip()


@click.command("add", epilog=example("symd daemon add kernels.zebin\nsymd daemon add --json kernels.co kernel.cubin"))
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=complete_files)
@daemon_option
@json_option
def add(files: tuple[str, ...], server: str | None, as_json: bool) -> int:
    """Add each FILE to a daemon, and print its line of symd daemon modules, or with --json its keys and whether it was
    added. symd collect adds every module in a folder.

    FILE can be "-" for standard input, or file://PATH#offset=N&size=N for a part of a file. If one of several files
    cannot be added, the others are, and the exit code is that of the worst error.
    """
    code = 0
    with daemon(server) as client:
        for file in files:
            try:
                record, is_new = _added(client, file)
            except SymdError as error:
                if len(files) == 1 or isinstance(error, Unavailable):
                    raise
                complain(str(error))
                code = max(code, error.exit_code)
                continue
            if as_json:
                write_json({**record_json(record), "added": is_new})
            else:
                write_line(_record_text(record) + ("" if is_new else "  already there"))
    return code


def _added(client: Symbolizer, file: str) -> tuple[ModuleRecord, bool]:
    """The module of a file in the daemon's catalogue, and whether it is new there. Raises what adding it raises."""
    if is_number(file) and not Path(file).exists():
        hint = "symd daemon record takes what is loaded where, a line of JSON for each load"
        raise InvalidInput("this is an address, not a file", where=file, hint=hint)
    with hints_name(file), working(f"reading {printable(file)}"):
        data = read_module(file, DEFAULT_LIMITS, apart=True)
        digest = sha256_of(data)
        is_new = bool(client.missing([digest]))
        if is_new:
            add_bytes(client, data, "stdin" if file == "-" else file, None)
        return client.record(digest), is_new


@click.command("rm", epilog=example("symd daemon rm 9b74c989\nsymd daemon rm --json modules/9b74c989 modules/1f2e3d4c"))
@daemon_option
@json_option
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...")
def remove(server: str | None, as_json: bool, modules: tuple[str, ...]) -> int:
    """Remove modules from a daemon, with their indexes and aliases. Contexts still show when they were loaded.

    MODULE is a SHA-256 as symd daemon modules shows it, with or without modules/ in front, or a prefix of one. A
    prefix that several modules share removes none. Exit code 1: there is no such module; the others are removed.
    """
    gone = 0
    with daemon(server) as client:
        for text in modules:
            try:
                digest = _chosen(client, text)
                client.remove(digest)
            except ModuleNotFound as error:
                complain(str(error))
                continue
            gone += 1
            write_json({"module": f"modules/{digest}", "removed": True}) if as_json else write_line(
                f"removed modules/{digest}"
            )
    return 0 if gone == len(modules) else NO


def _chosen(client: Symbolizer, text: str) -> str:
    """The module's digest. Raises what ``chosen_module`` raises; of a file it says which module that is."""
    try:
        return chosen_module(client, text)
    except BadQuery as error:
        if Path(text).is_file():
            with suppress(SymdError):
                digest = hashlib.sha256(read_input(text, DEFAULT_LIMITS)).hexdigest()
                error.hint = f"this is a file; a module is named by its SHA-256: symd rm {digest}"
        raise

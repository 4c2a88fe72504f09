"""``symd fetch BUILDID``: a module, or a source file of one, from debuginfod's servers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import closing

import click

from symd.cli.call_files import call_with
from symd.cli.options import complete_files, example, limit_option
from symd.cli.output import write_line
from symd.client import Client
from symd.config import Limits
from symd.engine.debuginfod_client import ENVIRONMENT, DebuginfodServers
from symd.engine.engine import Engine
from symd.errors import DeadlineExceeded, HashMismatch, LimitExceeded, NotFound, SymdError, WorkerDied
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.debug_ids import ALIAS_KIND, checked_name, other_build_ids
from symd.model.contexts import Alias
from symd.model.summaries import ModuleSummary
from symd.server.workers import Workers
from symd.store import Store
from symd.system.atomic_output import write_file_or_stdout


@click.command(
    "fetch",
    epilog=example(
        "symd daemon fetch --debuginfod https://debuginfod.example.org 31e3adb3376daa7a7b84af83b9f7cfb4f1ed204d\n"
        "symd daemon fetch --debuginfod-urls -o kernels.co 31e3adb3376daa7a7b84af83b9f7cfb4f1ed204d\n"
        "symd daemon fetch --debuginfod-urls --source /src/shade.cl -o shade.cl 31e3adb3376daa7a7b84af83b9f7cfb4f1ed204d"
    ),
)
@click.argument("build_id", metavar="BUILDID")
@click.option("--debuginfod", "urls", multiple=True, metavar="URL", help="Ask this server; can be given several times.")
@click.option(
    "--debuginfod-urls", "environment", is_flag=True, help="Also ask the servers that $DEBUGINFOD_URLS names."
)
@click.option("--debuginfo", is_flag=True, help="Get the file with its debug data, if that is a separate file.")
@click.option("--source", metavar="PATH", help="Get one of its source files, by its absolute path in the debug data.")
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    shell_complete=complete_files,
    help='Write it to FILE, or to standard output for "-".',
)
@click.option(
    "--server", metavar="ADDRESS", help="Without -o: add it to the daemon at unix:PATH, HOST:PORT or tls:HOST:PORT."
)
@limit_option
def command(
    build_id: str,
    urls: tuple[str, ...],
    environment: bool,
    debuginfo: bool,
    source: str | None,
    out: str | None,
    server: str | None,
    limits: Limits,
) -> None:
    """Get the module with this build ID from debuginfod servers, into a file or into a daemon, which can then find it
    by that ID.

    Only the servers that you name are asked. Exit code 1: none has it; 2: a server sent a file with another build ID;
    3: a server that may have it does not answer.
    """
    asked = (*urls, *(os.environ.get(ENVIRONMENT, "").split() if environment else ()))
    if not asked:
        raise click.UsageError(
            f"name a server: write {call_with(['--debuginfod', 'URL'])}, or --debuginfod-urls for those of ${ENVIRONMENT}"
        )
    if source is not None and (debuginfo or out is None):
        raise click.UsageError("--source PATH takes -o FILE, and no --debuginfo")
    name = checked_name(build_id)
    upstream = DebuginfodServers(asked, limits)
    if source is not None:
        data = upstream.source(name, source)
    else:
        data = upstream.debuginfo(name) if debuginfo else upstream.executable(name)
    if data is None:
        raise NotFound("no server has it", where=build_id, hint=f"asked: {', '.join(upstream.urls)}")
    if out is not None:
        if source is None and (others := _others(name, data, limits)):
            raise _other(name, others, "it was not written; name another server")
        write_file_or_stdout(out, data, hint="choose another FILE")
    else:
        write_line(f"modules/{_added(name, data, server)}")


def _added(name: str, data: bytes, server: str | None) -> str:
    with Client(server) as client:
        digest = client.add(data, f"build-id {name}").sha256
        if others := other_build_ids(client.module(digest), name):
            raise _other(name, others, f"it is modules/{digest} now; name another server")
        client.aliases.add([Alias(ALIAS_KIND, name, digest)])
        return digest


def _others(name: str, data: bytes, limits: Limits) -> list[str]:
    """The build IDs that a file carries, and the code objects in it, where ``name`` is none of them nor a digest of
    theirs. Raises HashMismatch for what is no file that could carry one, and what reading it passes a limit with."""
    own = _elf_build_id(data, limits)
    if name in (own, hashlib.sha256(data).hexdigest()):
        return []
    try:
        return other_build_ids(_summary(data, limits), name)
    except (LimitExceeded, DeadlineExceeded, WorkerDied):
        raise
    except SymdError as error:  # nothing that symd reads: a host program
        if own is not None:
            return [own]
        hint = "it was not written; name another server"
        raise HashMismatch(
            f"the server sent something that is neither a module nor a program with a build ID: {error.message}",
            where=name,
            hint=hint,
        ) from error


def _summary(data: bytes, limits: Limits) -> ModuleSummary:
    """What a stranger's file is, read by a confined process within limits."""
    with closing(Workers(limits, 1, 1)) as workers, Engine(Store.temporary(limits), limits, reader=workers) as engine:
        return engine.add(data)


def _elf_build_id(data: bytes, limits: Limits) -> str | None:
    try:
        return elf.parse(data, Budget(limits, len(data))).build_id() if elf.kind(data) is not None else None
    except SymdError:
        return None


def _other(name: str, others: Sequence[str], hint: str) -> HashMismatch:
    return HashMismatch(f"the server sent a file with another build ID, {others[0]}", where=name, hint=hint)

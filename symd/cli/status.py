"""``symd status``: how a daemon is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from symd.cli.not_serving import NOT_SERVING, WRITING, cannot_write
from symd.cli.options import daemon_option, example, json_option
from symd.cli.output import write_json, write_line
from symd.config import MIB
from symd.model.plurals import counted

if TYPE_CHECKING:
    from symd.v1.server_service_pb2 import Limit


@click.command("status", epilog=example("symd status\nsymd status --json"))
@daemon_option
@json_option
def command(server: str | None, as_json: bool) -> None:
    """Say how a daemon is: where it listens, its version, whether it serves, where its store is (told to the user who runs it),
    how many modules it has and of how many bytes, what it can grab and disassemble with. The exit code is 3 where no daemon answers; symd health is the probe with exit codes of its own.
    """
    from symd.client import Client  # noqa: PLC0415 - gRPC is slow to import

    with Client(server) as client:
        info = client.server_info()
        records = list(client.modules())
        facts: dict[str, Any] = {
            "server": client.address,
            "version": info.version,
            "health": client.health(),
            "writable": client.health(WRITING) != NOT_SERVING,
            "store": info.store or None,
            "modules": len(records),
            "module_bytes": sum(each.size for each in records),
            "unreadable_modules": sum(bool(each.failure) for each in records),
            "contexts": sum(1 for _ in client.contexts.all()),
            "formats": list(info.formats),
            "drivers": list(info.drivers),
            "disassemblers": [each.name for each in info.disassemblers if each.installed],
            "reads_source_files": info.reads_source_files,
            "limits": {each.name: _amount(each) for each in info.limits},
        }
    if as_json:
        write_json(facts)
        return
    bad = f", {facts['unreadable_modules']} that cannot be read" if facts["unreadable_modules"] else ""
    write_line(f"symd {facts['version']} at {facts['server']}: {facts['health']}")
    if facts["health"] != NOT_SERVING and not facts["writable"]:
        write_line(cannot_write(facts["store"] or "", facts["server"]))
    if facts["store"]:
        write_line(f"store          {facts['store']}")
    write_line(f"modules        {facts['modules']}, {size_text(facts['module_bytes'])}{bad}")
    write_line(f"contexts       {facts['contexts']}")
    write_line(f"drivers        the system's{''.join(f', {name}' for name in facts['drivers'])}")
    write_line(f"disassemblers  {', '.join(facts['disassemblers']) or 'none'}")
    write_line(f"source files   {'read from its disk' if facts['reads_source_files'] else 'of modules alone'}")


def size_text(size: int) -> str:
    """A size in MiB, or in bytes where it is less than one."""
    return f"{size / MIB:,.1f} MiB" if size >= MIB else counted(size, "byte")


def _amount(limit: Limit) -> float:
    """Bytes, a count, or seconds."""
    return limit.amount if limit.HasField("amount") else limit.time.ToTimedelta().total_seconds()

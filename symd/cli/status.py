"""``symd daemon status``, ``health`` and ``stop``: the state of a daemon for people, a probe for whatever runs it, and
its end.

A daemon reports a health status for each service; ``why_not`` puts into words why it does not serve. ``stop`` ends the
process that listens at the socket, as the kernel says (SO_PEERCRED, unix(7)); it is asked first whether it is symd's
daemon.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Final

import click

from symd.cli.options import daemon_option, example, json_option, timeout_option
from symd.cli.output import write_json, write_line
from symd.client import Client
from symd.config import MIB
from symd.errors import InvalidInput, SymdError, Unavailable
from symd.model.texts import counted
from symd.rpc.channel import UNIX
from symd.system.messages import complain

if TYPE_CHECKING:
    from symd.v1.server_service_pb2 import Limit


WRITING: Final = "symd.v1.ModuleService"
"""One of the services that write; they do not serve while the store takes nothing."""
NOT_SERVING: Final = "NOT_SERVING"
_PAUSE = 0.1
"""Seconds between two questions to a daemon that is waited for."""


def why_not(client: Client, service: str) -> str:
    """Why ``service``, of which the daemon said NOT_SERVING, does not serve, and what to do. Raises SymdError."""
    if not service or client.health() == NOT_SERVING:
        return f"the daemon at {client.address} is ending: it takes no further calls; start it again (symd daemon start) if nobody else does"
    name = service.rpartition(".")[2]
    return f"{name} does not serve: {cannot_write(_store(client), client.address)}"


def cannot_write(store: str, address: str) -> str:
    """What the daemon at ``address`` means that serves, but not its services that write; ``store`` is "" where it is
    not told."""
    place = f"the store {store} of the daemon at {address}" if store else f"the store of the daemon at {address}"
    look = (
        f": look at its log, df {store} and symd store check" if store else "; whoever runs it finds which in its log"
    )
    return (
        f"{place} cannot be written (its disk is full, read-only or failing, a quota is used up, or its folder was moved away{look}); "
        "questions are answered all the same"
    )


def _store(client: Client) -> str:
    try:
        return client.server_info().store
    except SymdError:  # health may be open to who may ask nothing else
        return ""


@click.command("status", epilog=example("symd daemon status\nsymd daemon status --json"))
@daemon_option
@json_option
def status(server: str | None, as_json: bool) -> None:
    """Show how a daemon is doing: where it listens, its version, whether it serves, where its store is (shown only to
    the user who runs it), how many modules it has and their size, and its drivers and disassemblers. Exit code
    3: no daemon answers. To probe a daemon from scripts, use symd daemon health.
    """
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
    write_line(f"source files   {'read from its disk' if facts['reads_source_files'] else 'only from modules'}")


def size_text(size: int) -> str:
    """A size in MiB, or in bytes where it is less than one."""
    return f"{size / MIB:,.1f} MiB" if size >= MIB else counted(size, "byte")


def _amount(limit: Limit) -> float:
    """Bytes, a count, or seconds."""
    return limit.amount if limit.HasField("amount") else limit.duration.ToTimedelta().total_seconds()


@click.command(
    "health",
    epilog=example(
        "symd daemon health\nsymd daemon health --wait 10\nsymd daemon health --server tls:host:50051 --service ModuleService --json"
    ),
)
@daemon_option
@click.option(
    "--service",
    default="",
    metavar="NAME",
    help="Ask about one service (such as ModuleService, which writes) instead of the whole daemon.",
)
@timeout_option(5.0, "How long to wait for the answer.")
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=0,
    metavar="SECONDS",
    help="Keep asking until the daemon is serving, for at most this long. Meant for scripts that have just started it.",
)
@json_option
def health(server: str | None, service: str, timeout: float, wait: float, as_json: bool) -> int:
    """Ask a daemon for its health. Exit code 0: it is serving; 1: it is not, or it does not answer.

    A daemon whose disk is full, or whose store was moved away, keeps serving, except for the services that write:
    ModuleService, AliasService, ContextService. Tokens and certificates come from the same variables as for every other
    verb ($SYMD_TOKEN_FILE, $SYMD_TLS_CA, ...).
    """
    name = service if "." in service or not service else f"symd.v1.{service}"
    until = time.monotonic() + wait
    facts = _health_facts(server, name, timeout)
    while facts["status"] != "SERVING" and time.monotonic() < until:
        time.sleep(_PAUSE)
        facts = _health_facts(server, name, timeout)
    if as_json:
        write_json(facts)
    elif facts["status"] is not None:
        write_line(facts["status"])
    if not as_json and facts.get("message"):
        complain(facts["message"] or "")
    return 0 if facts["status"] == "SERVING" else 1  # those who probe know no third: to Docker 2 means nothing


def _health_facts(server: str | None, name: str, timeout: float) -> dict[str, str | None]:
    try:
        with Client(server, timeout=timeout) as client:
            facts: dict[str, str | None] = {"service": name, "status": client.health(name)}
            if facts["status"] != "SERVING":
                facts["message"] = why_not(client, name)
            return facts
    except SymdError as error:
        return {"service": name, "status": None, "reason": error.reason, "message": str(error)}


_CREDENTIALS = struct.Struct("3i")
"""struct ucred of unix(7): process, user, group."""
MILLISECONDS = 1000
_NOTHING_TO_STOP: Final = "nothing to stop; --server ADDRESS names a daemon that listens elsewhere"


@click.command("stop", epilog=example("symd daemon stop\nsymd daemon stop --server unix:/run/symd/symd.sock"))
@daemon_option
@timeout_option(30.0, "How long to wait for the daemon to end.")
def stop(server: str | None, timeout: float) -> None:
    """Stop the daemon at a Unix socket on this machine, and wait until it exits.

    Running requests get the time that symd serve --grace allows. If a daemon listens only on TCP, stop it where it
    runs; if systemd started it, use systemctl stop. Exit code 3: no daemon answers, or it does not end in time.
    """
    with Client(server) as client:
        address = client.address
        if not address.startswith(UNIX):
            hint = "stop it where it runs, with Ctrl-C, kill or systemctl stop"
            raise InvalidInput("only a daemon at a Unix socket can be stopped from here", where=address, hint=hint)
        try:
            client.server_info()
        except Unavailable as error:
            if error.message.startswith("no daemon"):
                error.hint = _NOTHING_TO_STOP
            raise
    process = _listening_process(address)
    try:
        ended = os.pidfd_open(process)
        try:
            signal.pidfd_send_signal(ended, signal.SIGTERM)
            if not _has_ended(ended, timeout):
                raise Unavailable(
                    f"the daemon (process {process}) did not end within {timeout:g} seconds",
                    where=address,
                    hint=f"wait longer with --timeout, or end it at once with kill -9 {process}",
                )
        finally:
            os.close(ended)
    except ProcessLookupError:
        pass  # it ended by itself
    except PermissionError as error:
        hint = "ask that user, or stop it as root"
        raise Unavailable("the daemon belongs to another user", where=address, hint=hint) from error
    write_line(f"symd: stopped the daemon at {address} (process {process})")


def _listening_process(address: str) -> int:
    """The process that listens at a Unix socket. Raises Unavailable where nobody does any more, and where it is one of
    another container, which has no number here (pid_namespaces(7))."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address.removeprefix(UNIX))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise Unavailable("no daemon is running any more", where=address, hint=_NOTHING_TO_STOP) from error
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process = int(_CREDENTIALS.unpack(found)[0])
    if process == 0:
        hint = "stop it there"
        raise Unavailable("the daemon runs in another container (PID namespace)", where=address, hint=hint)
    return process


def _has_ended(descriptor: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout * MILLISECONDS))

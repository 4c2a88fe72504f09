"""``symd health``: whether a daemon serves, for people, and as the probe of whatever runs it."""

from __future__ import annotations

import time

import click

from symd.cli.options import daemon_option, example, json_option
from symd.cli.output import write_json, write_line
from symd.cli.status import why_not
from symd.client import Client
from symd.errors import SymdError
from symd.system.messages import complain

SERVING, NOT_SERVING = 0, 1
"""Exit codes. Those who probe know no third: to Docker 2 means nothing."""
PACKAGE = "symd.v1."
SECONDS = 5.0
PAUSE = 0.1
"""Seconds between two questions to a daemon that is waited for."""


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
    help="Ask about one service, such as ModuleService, which writes.  [default: the daemon as a whole]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the answer.",
)
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=0,
    metavar="SECONDS",
    help="Keep asking until the daemon serves, up to this many seconds; for scripts that have just started it.",
)
@json_option
def command(server: str | None, service: str, timeout: float, wait: float, as_json: bool) -> int:
    """Ask a daemon for its health. The exit code is 0 if it serves, and 1 if it does not, or does not answer.

    A daemon whose disk is full, or whose store was moved, keeps answering questions, but its services that write do not serve:
    ModuleService, AliasService, ContextService. Tokens and certificates come from the same variables as for every verb ($SYMD_TOKEN_FILE,
    $SYMD_TLS_CA, ...).
    """
    name = service if "." in service or not service else PACKAGE + service
    until = time.monotonic() + wait
    facts = _health(server, name, timeout)
    while facts["status"] != "SERVING" and time.monotonic() < until:
        time.sleep(PAUSE)
        facts = _health(server, name, timeout)
    if as_json:
        write_json(facts)
    elif facts["status"] is not None:
        write_line(facts["status"])
    if not as_json and facts.get("message"):
        complain(facts["message"] or "")
    return SERVING if facts["status"] == "SERVING" else NOT_SERVING


def _health(server: str | None, name: str, timeout: float) -> dict[str, str | None]:

    try:
        with Client(server, timeout=timeout) as client:
            facts: dict[str, str | None] = {"service": name, "status": client.health(name)}
            if facts["status"] != "SERVING":
                facts["message"] = why_not(client, name)
            return facts
    except SymdError as error:
        return {"service": name, "status": None, "reason": error.reason, "message": str(error)}

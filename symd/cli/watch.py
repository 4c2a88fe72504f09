"""``symd watch SOURCE:LINE...``: breakpoints that wait for the modules that a daemon is given."""

from __future__ import annotations

import sys

import click

from symd.cli.demangle import Demangler
from symd.cli.locate import readable, write_answer
from symd.cli.options import demangle_option, every_option, example, json_option, rules_option
from symd.model.breakpoints import Breakpoint, Resolved
from symd.model.sources import PathRule
from symd.query.breakpoints import parse_source_line


@click.command("watch", epilog=example("symd watch vadd.cl:8\nsymd watch --only-new --json vadd.cl:8 reduce.cl:20"))
@click.option("--server", metavar="ADDRESS", help="The daemon at unix:PATH, HOST:PORT or tls:HOST:PORT.")
@json_option
@rules_option
@demangle_option
@every_option
@click.option("--only-new", is_flag=True, help="Pass over the modules that the daemon has already.")
@click.argument("lines", nargs=-1, required=True, metavar="SOURCE:LINE...")
def command(
    server: str | None,
    as_json: bool,
    rules: tuple[PathRule, ...],
    demangle: bool,
    every_address: bool,
    only_new: bool,
    lines: tuple[str, ...],
) -> None:
    """Say where breakpoints for source lines land, in each module that a daemon has and in each as it is added.

    Runs until it is interrupted. Modules without such a file are passed over.
    """
    from symd.client import Client  # noqa: PLC0415 - gRPC is slow to import

    wanted = {text: Breakpoint(text, parse_source_line(text), every_address, None, rules) for text in lines}
    demangler = Demangler() if demangle else None
    with Client(server) as client, client.watch(list(wanted.values()), only_new=only_new) as watch:
        for event in watch:
            if isinstance(event, Resolved):
                names = readable([event.answer], demangler)
                write_answer(event.id, event.answer, names, as_json=as_json, module=f"modules/{event.digest}")
                sys.stdout.flush()

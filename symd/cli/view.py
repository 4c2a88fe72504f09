"""``symd view FILE``: the page of one module in a browser, as long as somebody looks."""

from __future__ import annotations

import sys
import threading
import webbrowser
from pathlib import Path

import click

from symd.cli.options import debug_option, example, file_argument, limit_option, rules_option, server_option
from symd.cli.output import write_line
from symd.cli.page_site import page_options, shown_module
from symd.cli.termination import AWAKE_SECONDS
from symd.config import Limits
from symd.model.sources import PathRule


@click.command(
    "view",
    epilog=example(
        "symd view kernels.zebin\nsymd view kernels.zebin --profile stalls.csv --source-root ~/src\n"
        "symd view --no-browser --keep kernels.zebin"
    ),
)
@file_argument
@server_option
@debug_option
@page_options
@rules_option
@click.option(
    "--browser/--no-browser", "opens", default=True, help="Open the page in the browser, or only print its address."
)
@click.option("--keep", is_flag=True, help="Go on when nobody looks any more, until Ctrl-C.")
@click.option(
    "--address",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Serve there, on loopback; port 0 is any free one.",
)
@limit_option
def command(
    file: str,
    server: str | None,
    debug: str | None,
    profile: str | None,
    identity: str | None,
    roots: tuple[Path, ...],
    rules: tuple[PathRule, ...],
    opens: bool,
    keep: bool,
    address: str,
    limits: Limits,
) -> None:
    """Show FILE in the browser: source beside instructions, inlined calls, variables, the samples of a profile.

    Serves on loopback, to whoever has the address that is printed, and ends when the page is closed or with Ctrl-C. Instructions take the
    disassembler of the code's vendor (symd doctor).
    """
    with shown_module(file, server, limits, debug, profile, identity, roots, rules) as shown:
        from symd.server.http.viewing import viewed  # noqa: PLC0415 - the help need not wait for a server

        with viewed(lambda presence: shown.site(presence=presence), address) as view:
            write_line(f"symd shows {file} at {view.url}")
            sys.stdout.flush()
            if opens and not webbrowser.open(view.invitation):
                click.echo("symd: no browser could be started: open that address", err=True)
            try:
                end = threading.Event() if keep else view.presence.gone
                while not end.wait(AWAKE_SECONDS):
                    pass
            except KeyboardInterrupt:
                return

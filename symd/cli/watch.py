"""``symd watch [SOURCE:LINE...]``: what happens to a daemon's modules, and breakpoints that wait for them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from symd.answers_json.module_events import event_json, loaded_json
from symd.cli.context_life import chosen_context
from symd.cli.context_text import event_text, process_text
from symd.cli.demangle import Demangler
from symd.cli.locate import readable, write_answer
from symd.cli.options import daemon_option, demangle_option, every_option, example, json_option, rules_option
from symd.cli.output import write_json, write_line
from symd.errors import Unavailable
from symd.model.breakpoints import Breakpoint, Resolved, parse_source_line
from symd.model.sources import PathRule

if TYPE_CHECKING:
    from symd.client import Client


@click.command(
    "watch",
    epilog=example("symd watch --json\nsymd watch vadd.cl:8\nsymd watch --only-new --json vadd.cl:8 reduce.cl:20"),
)
@daemon_option
@json_option
@rules_option
@demangle_option
@every_option
@click.option("--only-new", is_flag=True, help="Pass over what the daemon has already.")
@click.option(
    "--resume-after", metavar="POSITION", default="", help="Without SOURCE:LINE: go on after this position of an event."
)
@click.option(
    "--context",
    "contexts",
    multiple=True,
    metavar="CONTEXT",
    help="Without SOURCE:LINE: only what this process loads (symd contexts); may be given several times.",
)
@click.argument("lines", nargs=-1, metavar="[SOURCE:LINE...]")
def command(
    server: str | None,
    as_json: bool,
    rules: tuple[PathRule, ...],
    demangle: bool,
    every_address: bool,
    only_new: bool,
    resume_after: str,
    contexts: tuple[str, ...],
    lines: tuple[str, ...],
) -> None:
    """Say what happens to a daemon's modules, or with SOURCE:LINE where breakpoints land in them.

    Without SOURCE:LINE: each module that is added, loaded by a process, unloaded and removed, first those that are there. Where the
    connection breaks, the error says after which position to go on. With SOURCE:LINE: where the line lands in each module that is
    there, in each as it is added, and again with device addresses as a process loads it; modules without such a file are passed over.
    Runs until it is interrupted.
    """
    from symd.client import Client  # noqa: PLC0415 - gRPC is slow to import

    if lines and (resume_after or contexts):
        raise click.UsageError("--resume-after and --context are about modules, not about SOURCE:LINE")
    wanted = {text: Breakpoint(text, parse_source_line(text), every_address, None, rules) for text in lines}
    with Client(server) as client:
        if not wanted:
            _watch_modules(client, resume_after, contexts, only_new=only_new, as_json=as_json)
            return
        demangler = Demangler() if demangle else None
        with client.watch(list(wanted.values()), only_new=only_new) as watch:
            for event in watch:
                if isinstance(event, Resolved):
                    _write_resolved(event, demangler, as_json=as_json)


def _watch_modules(client: Client, position: str, contexts: Sequence[str], *, only_new: bool, as_json: bool) -> None:
    chosen = [chosen_context(client.contexts, each).id for each in contexts]
    try:
        with client.watch_modules(position, only_new=only_new, contexts=chosen) as watch:
            for event in watch:
                if as_json:
                    write_json(event_json(event))
                elif text := event_text(event):
                    write_line(text)
                sys.stdout.flush()
                position = event.position or position
    except Unavailable as error:
        if position:
            error.hint = f"go on with --resume-after {position}"
        raise


def _write_resolved(event: Resolved, demangler: Demangler | None, *, as_json: bool) -> None:
    names = readable([event.answer], demangler)
    module = f"modules/{event.digest}"
    if as_json:
        loaded = {"loaded": loaded_json(event.loaded)} if event.loaded else {}
        write_answer(event.id, event.answer, names, as_json=True, first={"module": module, **loaded})
    else:
        where = f"{module} in {process_text(event.loaded.context)}" if event.loaded else module
        write_answer(event.id, event.answer, names, as_json=False, first={"module": where})
    sys.stdout.flush()

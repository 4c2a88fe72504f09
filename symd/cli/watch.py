"""``symd watch [SOURCE:LINE...]``: what happens to a daemon's modules, and breakpoints that wait for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from symd.cli.contexts import chosen_context, event_text, process_text
from symd.cli.locate import readable, write_answer
from symd.cli.options import daemon_option, demangle_option, every_option, example, json_option, rules_option
from symd.cli.output import write_json, write_line
from symd.client import Client
from symd.errors import Unavailable
from symd.model.breakpoints import Breakpoint, Event, Resolved, parse_source_line
from symd.model.captures import CaptureApi
from symd.model.contexts import EventStream, ModuleEvent
from symd.model.json.modules import event_json, loaded_json
from symd.model.sources import PathRule
from symd.query.demangler import Demangler

E = TypeVar("E", ModuleEvent, Event)


@click.command(
    "watch",
    epilog=example(
        "symd daemon watch --json\nsymd daemon watch vadd.cl:8\nsymd daemon watch --only-new --json vadd.cl:8 reduce.cl:20"
    ),
)
@daemon_option
@json_option
@rules_option
@demangle_option
@every_option
@click.option("--only-new", is_flag=True, help="Skip what the daemon already has.")
@click.option("--resume-after", metavar="POSITION", default="", help="Resume after this position of an event.")
@click.option(
    "--context",
    "contexts",
    multiple=True,
    metavar="CONTEXT",
    help="Without SOURCE:LINE: only what this process loads (see symd daemon contexts); can be given several times.",
)
@click.option(
    "--api",
    "apis",
    multiple=True,
    type=click.Choice([api.value for api in CaptureApi]),
    help="Without SOURCE:LINE: only what is loaded through this interface; can be given several times.",
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
    apis: tuple[str, ...],
    lines: tuple[str, ...],
) -> None:
    """Follow what happens to a daemon's modules, or with SOURCE:LINE, where breakpoints land in them.

    Without SOURCE:LINE, this shows each module that is added, loaded by a process, unloaded and removed, beginning with those that exist.
    With SOURCE:LINE, it shows where the line lands in each existing module, in each module that is added, and again with device addresses
    when a process loads it; modules without such a file are skipped. The command runs until you interrupt it. If the connection breaks,
    the error says after which position to resume.
    """

    if lines and (contexts or apis):
        raise click.UsageError("--context and --api are about modules, not about SOURCE:LINE")
    wanted = {text: Breakpoint(text, parse_source_line(text), every_address, None, rules) for text in lines}
    with Client(server) as client:
        if not wanted:
            chosen = [chosen_context(client.contexts, each).id for each in contexts]
            modules = client.watch_modules(resume_after, only_new=only_new, contexts=chosen, apis=apis)
            _written(modules, resume_after, lambda event: _write_event(event, as_json=as_json))
            return
        demangler = Demangler() if demangle else None
        breakpoints = client.watch(list(wanted.values()), only_new=only_new, resume_after=resume_after)
        _written(breakpoints, resume_after, lambda event: _write_resolved(event, demangler, as_json=as_json))


def _written(watch: EventStream[E], position: str, write: Callable[[E], None]) -> None:
    """Each event as it comes. Where the connection breaks, the error says how to go on."""
    try:
        with watch:
            for event in watch:
                write(event)
                sys.stdout.flush()
                position = event.position or position
    except Unavailable as error:
        if position:
            error.hint = f"go on with --resume-after {position}"
        raise


def _write_event(event: ModuleEvent, *, as_json: bool) -> None:
    if as_json:
        write_json(event_json(event))
    elif text := event_text(event):
        write_line(text)


def _write_resolved(event: Event, demangler: Demangler | None, *, as_json: bool) -> None:
    if not isinstance(event, Resolved):
        return
    names = readable([event.answer], demangler)
    module = f"modules/{event.digest}"
    if as_json:
        loaded = {"loaded": loaded_json(event.loaded)} if event.loaded else {}
        first = {"module": module, "position": event.position, **loaded}
        write_answer(event.id, event.answer, names, as_json=True, first=first)
    else:
        where = f"{module} in {process_text(event.loaded.context)}" if event.loaded else module
        write_answer(event.id, event.answer, names, as_json=False, first={"module": where})

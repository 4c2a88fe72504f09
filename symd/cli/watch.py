"""``symd watch [PLACE...]``: what happens to a daemon's modules, and breakpoints that wait for them."""

from __future__ import annotations

import os
import sys

import click

from symd.capture.process import is_running
from symd.cli.contexts import chosen_context, event_text, process_text
from symd.cli.lines import readable, write_answer
from symd.cli.options import (
    daemon_option,
    demangle_option,
    every_option,
    example,
    json_option,
    rules_option,
    target_option,
)
from symd.cli.output import write_json, write_line
from symd.client import Client
from symd.errors import Unavailable
from symd.model.breakpoints import Breakpoint, parse_place
from symd.model.captures import CaptureApi
from symd.model.contexts import Context
from symd.model.json.contexts import event_json, loaded_json
from symd.model.sources import PathRule
from symd.model.watches import ChangeAcknowledged, PlacesGone, Resolved, Watch, WatchEvent
from symd.query.demangler import Demangler
from symd.system.messages import complain


@click.command(
    "watch",
    epilog=example(
        "symd daemon watch --json\nsymd daemon watch vadd.cl:8 kernel:reduce\nsymd daemon watch --only-new --json vadd.cl:8 reduce.cl:20"
    ),
)
@daemon_option
@json_option
@rules_option
@demangle_option
@every_option
@target_option
@click.option("--only-new", is_flag=True, help="Skip what the daemon already has.")
@click.option("--resume-token", metavar="TOKEN", default="", help="Resume after the event that had this token.")
@click.option(
    "--context",
    "contexts",
    multiple=True,
    metavar="CONTEXT",
    help="Show only what this process loads (see symd daemon contexts); can be given several times.",
)
@click.option(
    "--api",
    "apis",
    multiple=True,
    type=click.Choice([api.value for api in CaptureApi]),
    help="Show only what is loaded through this interface; can be given several times.",
)
@click.argument("places", nargs=-1, metavar="[PLACE...]")
def command(
    server: str | None,
    as_json: bool,
    rules: tuple[PathRule, ...],
    demangle: bool,
    every_address: bool,
    targets: tuple[str, ...],
    only_new: bool,
    resume_token: str,
    contexts: tuple[str, ...],
    apis: tuple[str, ...],
    places: tuple[str, ...],
) -> None:
    """Report what happens to a daemon's modules or, with PLACE, where breakpoints land in them. PLACE is what symd
    locate takes: SOURCE:LINE, a function, kernel:NAME or an address.

    Without PLACE: the existing modules, then each module that is added, loaded by a process, unloaded or removed.
    With PLACE: where it lands in each existing or added module, its device addresses whenever a process loads the
    module, and when they are gone. Modules that have no such file or function are skipped. The command runs until you
    interrupt it. If the connection breaks, the error says how to resume.
    """
    wanted = [Breakpoint(text, parse_place(text), every_address, None, rules, targets) for text in places]
    demangler = Demangler() if demangle else None
    with Client(server) as client:
        records = [chosen_context(client.contexts, each) for each in contexts]
        for each in records:
            if _is_gone(each.context):
                complain(
                    f"process {each.context.process} is gone: it loads nothing more (symd daemon contexts lists others)"
                )
        chosen = [each.id for each in records]
        watch = client.watch(wanted, contexts=chosen, apis=apis, only_new=only_new, resume_token=resume_token)
        _write(watch, resume_token, demangler, as_json=as_json, answers=bool(places))


def _is_gone(context: Context) -> bool:
    """Whether the process of a context was one of this machine, and has ended."""
    started = context.attributes.get("start_time", "")
    if context.host != os.uname().nodename or not started.isdecimal():
        return False
    return not is_running(context.process, int(started))


def _write(watch: Watch, token: str, demangler: Demangler | None, *, as_json: bool, answers: bool) -> None:
    """Each event as it comes: those of modules, or ``answers``. Where the connection breaks, the error says how to go
    on."""
    try:
        with watch:
            for event in watch:
                if isinstance(event, (Resolved, PlacesGone)):
                    _write_answer(event, demangler, as_json=as_json)
                elif not answers:
                    _write_event(event, as_json=as_json)
                sys.stdout.flush()
                token = event.resume_token or token
    except Unavailable as error:
        if token:
            error.hint = f"go on with --resume-token {token}"
        raise


def _write_event(event: WatchEvent, *, as_json: bool) -> None:
    if isinstance(event, (Resolved, PlacesGone, ChangeAcknowledged)):
        return
    if as_json:
        write_json(event_json(event))
    elif text := event_text(event):
        write_line(text)


def _write_answer(event: Resolved | PlacesGone, demangler: Demangler | None, *, as_json: bool) -> None:
    names = readable([event.answer], demangler)
    load = event.unloaded if isinstance(event, PlacesGone) else event.loaded
    what, gone = "loaded", ""
    if isinstance(event, PlacesGone):
        what, gone = "covered" if event.unloaded.load.unload_time is None else "unloaded", "gone from "
    module = f"modules/{event.digest}"
    if as_json:
        told = {what: loaded_json(load)} if load else {}
        first = {"module": module, "resume_token": event.resume_token, **told}
        write_answer(event.id, event.answer, names, as_json=True, first=first)
    else:
        where = f"{gone}{module} in {process_text(load.context)}" if load else module
        write_answer(event.id, event.answer, names, as_json=False, first={"module": where})

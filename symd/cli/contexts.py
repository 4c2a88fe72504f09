"""``symd contexts [CONTEXT]``: which processes a daemon knows, and what each loaded."""

from __future__ import annotations

from dataclasses import asdict

import click

from symd.api import ContextVerbs
from symd.cli.context_text import Life, chosen_context, life_of, places_text, process_text, seconds_text
from symd.cli.options import daemon_option, example, json_option
from symd.cli.output import NO, write_json, write_line
from symd.client import Client
from symd.model.contexts import ContextRecord
from symd.model.json.module_events import context_json, load_json
from symd.model.texts import plural


@click.command("contexts", epilog=example("symd contexts\nsymd contexts --process 4242 --json\nsymd contexts 3f2a"))
@daemon_option
@click.option("--process", type=click.IntRange(0), metavar="PID", help="Only those of this process.")
@json_option
@click.argument("context", required=False)
def command(server: str | None, process: int | None, as_json: bool, context: str | None) -> int:
    """List the contexts that a daemon knows: a process on a device, how many modules it loaded, when the first came and, where
    nothing is loaded any more, when the last one went.

    With CONTEXT, its id or the beginning of it: its loads, each with its module, key, times and device addresses. Times count the
    nanoseconds of the context's clock, in text its seconds. symd symbolize --context asks what is at a device address. Exit code
    1: there is none of that id or process.
    """

    with Client(server) as client:
        if context is not None:
            return _show_loads(client.contexts, chosen_context(client.contexts, context), as_json=as_json)
        found = [each for each in client.contexts.all() if process in (None, each.context.process)]
        for record in found:
            _show(record, life_of(client.contexts, record.id), as_json=as_json)
    if not found and process is None:
        click.echo("symd: no program was recorded yet; symd run -- PROGRAM records one", err=True)
    return 0 if found or process is None else NO


def _show(record: ContextRecord, life: Life, *, as_json: bool) -> None:
    if as_json:
        write_json({**context_json(record), **asdict(life)})
        return
    when = "" if life.began is None else f", from {seconds_text(life.began)} s"
    if life.ended is not None:
        when += f" to {seconds_text(life.ended)} s"
    command = record.context.attributes.get("command", "")
    modules = f"{life.modules} {plural(life.modules, 'module')}"
    write_line(f"{process_text(record)}: {modules}, {life.living} loaded{when}  {command}".rstrip())


def _show_loads(verbs: ContextVerbs, record: ContextRecord, *, as_json: bool) -> int:
    if not as_json:
        _show(record, life_of(verbs, record.id), as_json=False)
    for number, load in verbs.loads(record.id):
        if as_json:
            write_json(load_json(number, load))
            continue
        until = "" if load.unload_time is None else f" to {seconds_text(load.unload_time)} s"
        write_line(f"  modules/{load.module} as {load.key} from {seconds_text(load.time)} s{until}{places_text(load)}")
    return 0

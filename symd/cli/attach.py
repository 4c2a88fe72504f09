"""``symd attach PID``: the modules of a process that runs already."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from symd.capture.attach import Attachment
from symd.capture.process import RunningProcess
from symd.cli.collect import ModuleReport, destination_options, open_destination
from symd.cli.options import example, json_option, limit_option, named_server
from symd.cli.output import NO
from symd.config import Limits

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class _ProcessNumber(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if _NUMBER.fullmatch(str(value)) is None:
            self.fail(f"{str(value)[:80]!r} is not a process ID; `pgrep -a PROGRAM` lists them", param, ctx)
        return int(value)


@click.command("attach", epilog=example("symd attach 4711\nsymd attach --out modules --json 4711"))
@click.argument("pid", type=_ProcessNumber(1), metavar="PID")
@destination_options
@limit_option
@json_option
def command(pid: int, server: str | None, out: Path | None, limits: Limits, as_json: bool) -> int:
    """Take the modules that the running process PID has now: those that its runtime lists, and those in its memory, its
    mapped files and its compiler caches.

    The process keeps running undisturbed. What could not be read is reported. Exit code 1: no module was
    found.
    """
    report = ModuleReport(as_json=as_json)
    with ExitStack() as stack:
        process = stack.enter_context(RunningProcess(pid))
        attachment = Attachment(process, limits)
        sink = open_destination(named_server(server, out), out, stack)
        for event in attachment.events():
            report.keep(sink, event)
        for left in attachment.left_out:
            report.left_out(left.path, left.error)
        for note in attachment.notes:
            report.note(note)
    return 0 if report.modules else NO

"""``symd collect FOLDER...``: the modules of compilers' caches and dump folders, as they fill. Also where the verbs
that take modules from elsewhere put them, and what they report of each.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from symd.capture import Sink
from symd.capture.attach import Attachment
from symd.capture.daemon_sink import DaemonSink
from symd.capture.folder import Counts, Finding, FolderModule, FolderWatch, LeftOut, compiler_caches
from symd.capture.folder_sink import EVENTS, FolderSink, events_of
from symd.capture.process import RunningProcess
from symd.cli.options import complete_files, example, json_option, limit_option, named_server, server_option_that
from symd.cli.output import NO, write_json, write_line
from symd.client import Client
from symd.config import Limits
from symd.errors import (
    Busy,
    DeadlineExceeded,
    InvalidInput,
    LimitExceeded,
    ServerUnavailable,
    SymdError,
    Unavailable,
    Unsupported,
    error_to_dict,
)
from symd.formats import containers
from symd.model.captures import CapturedProcess, CaptureEvent, CaptureWay, ModuleForm, ModuleFound, ModuleLoaded
from symd.model.texts import counted, plural
from symd.system.messages import complain

Verb = TypeVar("Verb", bound=Callable[..., Any])
_SHOWN_KERNELS = 5


def destination_options(verb: Verb) -> Verb:
    """--server and --out."""
    to_server = server_option_that(
        "Add the modules to the daemon at unix:PATH, HOST:PORT or tls:HOST:PORT; the default is your own daemon."
    )
    to_folder = click.option(
        "-o",
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write the modules to this folder instead, as symd run does: modules/SHA256, and captures.jsonl.",
    )
    return to_server(to_folder(verb))


def open_destination(server: str | None, out: Path | None, stack: ExitStack) -> Sink:
    """Where the modules go. Raises click.UsageError where both are given."""
    if server and out:
        raise click.UsageError("--server and --out cannot be used together")
    if out is not None:
        return stack.enter_context(FolderSink(out))

    return _StrictDaemonSink(stack.enter_context(Client(server)))


class _StrictDaemonSink:
    """Says at once what a daemon refuses, because somebody waits for it. Several threads may tell it of modules that
    were found."""

    def __init__(self, client: Client) -> None:
        self._client, self._of_loads = client, DaemonSink(client)

    def take(self, event: CaptureEvent) -> None:
        sink = DaemonSink(self._client) if isinstance(event, ModuleFound) else self._of_loads
        sink.take(event)
        for error in sink.refused.values():
            sink.refused.clear()
            raise error


def source(event: ModuleFound | ModuleLoaded) -> str:
    """Where a module was found, in words."""
    return event.source if isinstance(event, ModuleFound) else f"loaded at {event.load_base or event.handle:#x}"


class ModuleReport:
    """Says each module, and what was left out, as they come; ``modules`` counts them."""

    def __init__(self, *, as_json: bool) -> None:
        self.modules = 0
        self._as_json = as_json

    def keep(self, sink: Sink, event: ModuleFound | ModuleLoaded) -> None:
        """Put a module where it belongs and say so; one that is refused there is left out."""
        data, kernels, place = event.data, event.kernels, source(event)
        try:
            sink.take(event)
        except (InvalidInput, LimitExceeded, Unsupported) as error:
            self.left_out(place, error)
            return
        self.modules += 1
        name, digest = containers.format_name(data), hashlib.sha256(data).hexdigest()
        if self._as_json:
            write_json(
                {
                    "source": place,
                    "module": f"modules/{digest}",
                    "format": name,
                    "bytes": len(data),
                    "kernels": list(kernels),
                }
            )
        else:
            write_line(f"modules/{digest}  {name}, {len(data):,} bytes{_listed(kernels)}  {place}")
        sys.stdout.flush()

    def left_out(self, source: str, error: SymdError) -> None:
        """Say what was not taken, and why."""
        if self._as_json:
            write_json({"source": source, "left_out": error_to_dict(error)})
        else:
            write_line(f"left out: {source}: {error}")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """A line beside the modules, for a person."""
        complain(text)


def _listed(kernels: Sequence[str]) -> str:
    if not kernels:
        return ""
    return f", kernels {', '.join(kernels[:_SHOWN_KERNELS])}{', ...' if len(kernels) > _SHOWN_KERNELS else ''}"


_WAIT_SECONDS = 1.0
"""How long nothing may arrive before folders that were not there are looked for again."""
_LONGEST_WAIT = 30.0
"""The longest between two tries to reach a daemon that has gone."""
_AT_ONCE = 4
"""How many modules are told to a daemon at a time."""
_TRIES = 5
"""How often a module is told to a daemon that is there and fails with it."""


@click.command(
    "collect",
    epilog=example(
        "symd collect --caches                              # until Ctrl-C\n"
        "symd collect --once --out modules ~/.triton/cache  # once, into a folder\n"
        "symd collect --once captures                       # a folder of symd run"
    ),
)
@click.argument("folders", nargs=-1, metavar="[FOLDER]...", shell_complete=complete_files)
@click.option(
    "--caches",
    is_flag=True,
    help="Also read the cache of every compiler that symd knows; environment variables can say where they are.",
)
@click.option("--once", is_flag=True, help="Read what is there now, then exit.")
@destination_options
@limit_option
@json_option
def command(
    folders: tuple[str, ...],
    caches: bool,
    once: bool,
    server: str | None,
    out: Path | None,
    limits: Limits,
    as_json: bool,
) -> None:
    """Take each module that is in or under FOLDER (such as a compiler cache or a dump folder), or arrives there
    later.

    Each file is read once, however many names it has, and only when it is complete. Other files are skipped, and links
    are not followed. A FOLDER need not exist yet. If symd run --out wrote FOLDER, the daemon
    also gets the processes and loads recorded there when the command starts. The command runs until you interrupt it,
    unless --once is given.
    """
    known = [cache.folder for cache in compiler_caches(os.environ)] if caches else []
    wanted = list(dict.fromkeys([*map(Path, folders), *known]))
    if not wanted:
        raise click.UsageError("name a FOLDER, or give --caches")
    report = ModuleReport(as_json=as_json)
    with ExitStack() as stack:
        sink = open_destination(named_server(server, out), out, stack)
        told: set[str] = set()
        if out is None:
            sink = _PatientSink(sink, report, watching=not once)
            for folder in filter(_holds_captures, wanted):
                told |= _tell_captures(folder, sink, report)
        watch = stack.enter_context(FolderWatch(wanted, limits, known=told))
        collector = _Collector(watch, report, sink)
        try:
            collector.take_present(folders if once else ())
            while not once or watch.unsettled:
                collector.take_arriving()
        finally:
            report.note(_counts_text(watch.counts, collector.kept, "further module" if told else "module"))


def _holds_captures(folder: Path) -> bool:
    return os.path.lexists(folder / EVENTS)


def _tell_captures(folder: Path, sink: Sink, report: ModuleReport) -> set[str]:
    """Tell a daemon what is in a folder of captures: modules, the processes that loaded them, when and where. What it
    knows already it is told again, which changes nothing. The digests of the modules."""
    digests: set[str] = set()
    processes: set[CapturedProcess] = set()
    for event, _ in events_of(folder, damaged=lambda error: report.left_out(str(folder / EVENTS), error)):
        if event.process is not None:
            processes.add(event.process)
        if isinstance(event, ModuleLoaded | ModuleFound):
            digest = hashlib.sha256(event.data).hexdigest()
            if digest not in digests:
                digests.add(digest)
                report.keep(sink, event)
                continue
        with suppress(InvalidInput, LimitExceeded, Unsupported):  # said of the first load
            sink.take(event)
    report.note(
        f"{folder / EVENTS}: recorded what {counted(len(processes), 'program')} loaded, and when; symd contexts lists them"
    )
    return digests


class _Collector:
    """Takes what a watch finds to where it is kept."""

    def __init__(self, watch: FolderWatch, report: ModuleReport, sink: Sink) -> None:
        self._watch, self._report, self._sink = watch, report, sink
        self._waited_for: list[str] = []
        self._before = report.modules

    @property
    def kept(self) -> int:
        """How many of the modules that the watch found are where they belong."""
        return self._report.modules - self._before

    def take_present(self, required: Iterable[str]) -> None:
        """What is there; raises InvalidInput where one of the ``required`` folders is not."""
        for folder in required:
            if not Path(folder).exists():
                raise InvalidInput("there is no such folder", where=folder)
        self._take(self._watch.present())

    def take_arriving(self) -> None:
        absent = self._watch.absent()
        for folder in set(absent).difference(self._waited_for):
            self._report.note(f"{folder} is not there; waiting for it")
        self._waited_for = absent
        self._take(self._watch.arriving(_WAIT_SECONDS))

    def _take(self, findings: Iterable[Finding]) -> None:
        """A daemon is told of several modules at a time; all are reported in the order in which they were found."""
        if not isinstance(self._sink, _PatientSink):
            for finding in findings:
                self._keep(finding, self._sink)
            return
        threads = ThreadPoolExecutor(_AT_ONCE)
        try:
            waiting: deque[tuple[Finding, Sink]] = deque()
            for finding in findings:
                if len(waiting) == _AT_ONCE:
                    self._keep(*waiting.popleft())
                waiting.append((finding, self._sink.begun(threads, finding)))
            while waiting:
                self._keep(*waiting.popleft())
        finally:
            threads.shutdown(wait=False, cancel_futures=True)  # what is under way ends with the connection

    def _keep(self, found: Finding, sink: Sink) -> None:
        if isinstance(found, LeftOut):
            self._report.left_out(found.path, found.error)
            return
        try:
            self._report.keep(sink, _event(found))
        except (DeadlineExceeded, Unavailable) as error:
            if not isinstance(self._sink, _PatientSink) or not self._sink.watching:
                raise
            self._report.left_out(found.path, error)  # others may do


class _Begun:
    """A module that another thread has begun to tell a sink of, as the sink of that module."""

    def __init__(self, threads: ThreadPoolExecutor, sink: Sink, event: CaptureEvent) -> None:
        self._sink = sink
        self._first: Future[None] | None = threads.submit(sink.take, event)

    def take(self, event: CaptureEvent) -> None:
        """Wait until it is told, and raise what that raised; another time tell it again."""
        first, self._first = self._first, None
        return self._sink.take(event) if first is None else first.result()


class _PatientSink:
    """Waits for a daemon that has gone or is busy, as long as somebody waits for modules, and some time for one that is
    slow or has no room: a module may be what holds it up."""

    def __init__(self, sink: Sink, report: ModuleReport, *, watching: bool) -> None:
        self._sink, self._report, self.watching = sink, report, watching

    def begun(self, threads: ThreadPoolExecutor, found: Finding) -> _PatientSink:
        """A sink for one module, which begins to be told now."""
        if isinstance(found, LeftOut):
            return self
        return _PatientSink(_Begun(threads, self._sink, _event(found)), self._report, watching=self.watching)

    def take(self, event: CaptureEvent) -> None:
        wait, tries = 1.0, 0
        while True:
            try:
                return self._sink.take(event)
            except (Busy, DeadlineExceeded, Unavailable) as error:
                tries += 1
                for_ever = isinstance(error, Busy) or (self.watching and isinstance(error, ServerUnavailable))
                if not for_ever and (tries == _TRIES or not self.watching):
                    raise
                if tries == 1:
                    self._report.note(f"{error}; trying again")
            time.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)


def _event(found: FolderModule) -> ModuleFound:
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return ModuleFound(CaptureWay.FOLDER, now, ModuleForm.NATIVE_BINARY, found.data, found.path, kernels=found.kernels)


def _counts_text(counts: Counts, kept: int, found: str) -> str:
    taken = "" if kept == counts.modules else f" found, {f'{kept:,}' if kept else 'none'} taken"
    others = (
        (counts.repeated, "with the bytes of another file"),
        (counts.other, "of other kinds"),
        (counts.left_out, "left out"),
    )
    told = (f"{number:,} {words}" for number, words in others if number)
    return "; ".join([f"{counts.modules:,} {plural(counts.modules, found)}{taken}", *told])


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
def attach(pid: int, server: str | None, out: Path | None, limits: Limits, as_json: bool) -> int:
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

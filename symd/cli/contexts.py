"""``symd contexts [CONTEXT]``: the processes that a daemon knows, and what each loaded; with ``symd symbolize --context
CONTEXT``, device addresses to frames, each as of a time, and the code at one for other verbs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from shlex import join
from typing import NamedTuple

import click
import numpy as np

from symd.api import ContextVerbs
from symd.cli.answer_lines import answer_text, names_nothing
from symd.cli.options import daemon_option, example, json_option
from symd.cli.output import MISUSED, NO, printable, write_json, write_line
from symd.cli.question_lines import arriving_lines
from symd.engine.files.added_module import OpenModule, daemon
from symd.errors import BadQuery, ContextNotFound, NotFound
from symd.model.addresses import LATEST_TIME, ByDevice, BySection
from symd.model.answers import Answer, Reason
from symd.model.breakpoints import SILENT, Breakpoint, Located
from symd.model.contexts import ContextRecord, DeviceAnswer, Load, LoadInContext
from symd.model.identities import Digest
from symd.model.json.answers import answer_json, unreadable_query_json
from symd.model.json.contexts import context_json, load_json
from symd.model.line_tables import Listing
from symd.model.summaries import ModuleRecord
from symd.model.texts import plural
from symd.model.watches import LoadBegan, LoadEnded, ModuleAdded, ModuleEvent, ModuleRemoved, Watching
from symd.query.demangler import Demangler
from symd.system.messages import complain

_NAME = "contexts/"
_DIGITS = 32
_SHORT = 8
"""Digits of an id that are typed: few contexts begin with the same."""
_SHOWN = 4
"""The most contexts that are named where the beginning of an id could mean several, and the most segments of a load."""


@dataclass(frozen=True, slots=True)
class Life:
    """What the loads of a context say of its life. ``modules`` were loaded in ``loads``, of which ``living`` have
    not ended; ``began`` and ``ended`` are nanoseconds of the context's clock: the first load, and the last end where
    nothing is loaded any more."""

    modules: int
    loads: int
    living: int
    began: int | None
    ended: int | None


def chosen_context(verbs: ContextVerbs, text: str) -> ContextRecord:
    """The context with that name or id, or whose id alone begins so. Raises ``ContextNotFound`` and ``BadQuery``."""
    beginning = text.removeprefix(_NAME)
    if len(beginning) == _DIGITS:
        return verbs.get(beginning)
    found = [record for record in verbs.all() if record.id.startswith(beginning)] if beginning else []
    if len(found) > 1:
        names = ", ".join(record.id for record in found[:_SHOWN])
        raise BadQuery(f"{len(found)} contexts begin with {text!r}", hint=f"give more of {names}")
    if not found:
        own = [f"--context {each.id[:_SHORT]}" for each in verbs.all() if str(each.context.process) == text]
        hint = f"for process {text} write {' or '.join(own[:_SHOWN])}" if own else "symd daemon contexts lists them"
        raise ContextNotFound(f"no context begins with {text[:80]!r}", hint=hint)
    return found[0]


def life_of(verbs: ContextVerbs, name: str) -> Life:
    """What the loads of a context say. Raises ``ContextNotFound``."""
    modules: set[str] = set()
    loads = living = 0
    began: int | None = None
    ended: int | None = None
    for _, load in verbs.loads(name):
        modules.add(load.module)
        loads += 1
        living += load.unload_time is None
        began = load.time if began is None else min(began, load.time)
        if load.unload_time is not None:
            ended = load.unload_time if ended is None else max(ended, load.unload_time)
    return Life(len(modules), loads, living, began, None if living else ended)


_SECOND = 1_000_000_000


def event_text(event: ModuleEvent) -> str:
    """One event in a line; "" where there is nothing to say to a person."""
    match event:
        case ModuleAdded(digest, record):
            return f"added     modules/{digest}{_described(record)}"
        case ModuleRemoved(digest):
            return f"removed   modules/{digest}"
        case LoadBegan(loaded):
            return f"loaded    modules/{loaded.load.module} {_happened(loaded, loaded.load.time)}{places_text(loaded.load)}"
        case LoadEnded(loaded):
            return f"unloaded  modules/{loaded.load.module} {_happened(loaded, loaded.load.unload_time or 0)}"
        case Watching():
            return ""


def process_text(record: ContextRecord) -> str:
    """The process that a context is of, with its host and device, and the context's name."""
    context = record.context
    host = f" of {context.host}" if context.host else ""
    device = f" on {context.device}" if context.device else ""
    return f"process {context.process}{host}{device} (contexts/{record.id})"


def places_text(load: Load) -> str:
    """Where a load put its module."""
    shown = ", ".join(f"{each.address:#x}" for each in load.segments[:_SHOWN])
    more = f" and {len(load.segments) - _SHOWN} more" if len(load.segments) > _SHOWN else ""
    return f" at {shown}{more}" if shown else ""


def seconds_text(time: int) -> str:
    """Nanoseconds of a context's clock as seconds, whole."""
    return f"{time // _SECOND}.{time % _SECOND:09d}"


def _happened(loaded: LoadInContext, time: int) -> str:
    return f"by {process_text(loaded.context)} as {loaded.load.key} at {seconds_text(time)} s"


def _described(record: ModuleRecord | None) -> str:
    if record is None:
        return " (gone again)"
    label = f" {record.label}" if record.label else ""
    return f" {record.format}, {record.size} bytes{label}"


_QUERY = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})(?:@([0-9]{1,19}))?", re.ASCII)


def answer_device_addresses(
    context: str,
    server: str | None,
    time: int | None,
    texts: Sequence[str],
    demangler: Demangler | None,
    *,
    as_json: bool,
) -> int:
    """Answer device addresses of a context that a daemon knows, those of standard input for "-"; the exit code."""
    with daemon(server) as client:
        record = chosen_context(client.contexts, context)
        session = DeviceSession(client.contexts, record, time, demangler, as_json=as_json)
        if texts == ("-",):
            session.follow(arriving_lines(sys.stdin.fileno()))
        else:
            session.answer(texts)
        return session.finish()


class CodeAtDevice(NamedTuple):
    """What a daemon knows of the device address that is ``asked``: ``found`` as of ``time``, and the ``module`` and the
    ``place`` in it where it is in one's code. ``server`` is the option for the daemon."""

    found: DeviceAnswer
    time: int
    module: OpenModule
    place: BySection | None
    asked: ByDevice
    server: Sequence[str]

    @property
    def hint(self) -> str:
        """The call that shows what was loaded where."""
        call = join(["symd", "daemon", "contexts", *self.server, self.asked.context[:_SHORT]])
        return f"{call} shows what was loaded where, and when"

    def in_module(self) -> BySection:
        """The place. Raises NotFound where the address is in no code, and BadQuery where it may be in several."""
        if self.place is not None:
            return self.place
        reason = self.found.answer.reason
        if reason is Reason.AMBIGUOUS:
            raise BadQuery(f"{self.found.address:#x} is in several loads or sections", hint=self.hint)
        raise NotFound(f"there is no code at {self.found.address:#x} [{reason.name}]", hint=self.hint)

    def on_device(self, listing: Listing) -> Listing:
        """A listing of the code around the place, with the module and the device addresses of its instructions."""
        start = (self.found.address - self.in_module().offset) % (1 << 64)
        return replace(listing, module=self.found.module, section_device_address=start)

    def text(self, query: str, answer: Answer) -> str:
        """An answer about the address as ``symd symbolize`` writes it."""
        return device_answer_text(query, self.found, answer)

    def json(self) -> dict[str, object]:
        """The members of an answer about the address that name it, its time and its module."""
        return _device_json(self.time, self.found)


@contextmanager
def code_at_device(context: str, server: str | None, time: int | None, text: str) -> Iterator[CodeAtDevice]:
    """What is at a device address (``text``) of a context, whose module may be asked while the ``with`` lasts. Raises
    ``ContextNotFound`` and ``BadQuery``."""
    with daemon(server) as client:
        record = chosen_context(client.contexts, context)
        found, asked = DeviceSession(client.contexts, record, time, None, as_json=True).found(text)
        section, offset = found.answer.section_index, found.answer.section_offset
        place = None
        if found.module is not None and section is not None and offset is not None:
            place = BySection(section, offset)
        module = OpenModule(client, found.module or "", f"modules/{found.module}")
        query = ByDevice(record.id, found.address, None if asked == LATEST_TIME else asked)
        yield CodeAtDevice(found, asked, module, place, query, ("--server", server or "default"))


def places_loaded(context: str, server: str | None, asked: Sequence[Breakpoint]) -> list[tuple[str, Digest, Located]]:
    """The id of each place with the modules that are loaded in a context, and what each says of it; those that it does
    not mean are passed over where another one is meant. Raises ``NotFound`` where nothing is loaded."""
    found: list[tuple[str, Digest, Located]] = []
    with daemon(server) as client:
        record = chosen_context(client.contexts, context)
        loads = [load for _, load in client.contexts.loads(record.id) if load.unload_time is None]
        if not loads:
            raise NotFound(f"nothing is loaded in contexts/{record.id}", hint="symd daemon contexts shows what was")
        for each in asked:
            every = []
            for digest in dict.fromkeys(load.module for load in loads):
                located = client.locate(
                    digest,
                    each.where,
                    every_address=each.every_address,
                    rules=each.rules,
                    targets=each.targets,
                    context=record.id,
                )
                every.append((each.id, digest, located))
            found += [one for one in every if one[2].refusal not in SILENT] or every[:1]
    return found


class DeviceQuery(NamedTuple):
    """A device address as of a time, nanoseconds of the context's clock; None: what ``ByDevice`` says of none."""

    address: int
    time: int | None


class DeviceSession:
    """Answers batches of device addresses in one context, and counts what went wrong. ``time`` is that of addresses
    without one;
    None: what ``ByDevice`` says of none."""

    def __init__(
        self,
        verbs: ContextVerbs,
        record: ContextRecord,
        time: int | None,
        demangler: Demangler | None,
        *,
        as_json: bool,
    ) -> None:
        self._verbs = verbs
        self._record = record
        self._time = time
        self._demangler = demangler
        self._as_json = as_json
        self._unanswered = self._unreadable = 0

    def answer(self, texts: Sequence[str]) -> None:
        """Raises ``BadQuery`` for a text that is no address."""
        self._write(texts, [_parsed(text, self._time) for text in texts])

    def follow(self, batches: Iterator[Sequence[str]]) -> None:
        """Answer line by line; what cannot be read is answered by an error in its place."""
        for texts in batches:
            for text in texts:
                try:
                    self._write([text], [_parsed(text, self._time)])
                except BadQuery as error:
                    self._refuse(text, error)
            sys.stdout.flush()

    def found(self, text: str) -> tuple[DeviceAnswer, int]:
        """What is at one address, and as of when. Raises ``BadQuery`` for a text that is no address."""
        found, times = self._ask([_parsed(text, self._time)])
        return found[0], times[0]

    def finish(self) -> int:
        """The exit code: 2 when an address could not be read, 1 when one names what does not exist."""
        if self._unreadable:
            complain(f"{self._unreadable} of the addresses could not be read")
            return MISUSED
        return NO if self._unanswered else 0

    def _ask(self, queries: Sequence[DeviceQuery]) -> tuple[list[DeviceAnswer], list[int]]:
        """The answers, and as of when each is."""
        addresses = np.array([query.address for query in queries], np.uint64)
        times = [LATEST_TIME if query.time is None else query.time for query in queries]
        found = list(self._verbs.symbolize(self._record.id, addresses, np.array(times, np.int64)))
        ended = life_of(self._verbs, self._record.id).ended if self._as_json and LATEST_TIME in times else None
        return found, times if ended is None else [ended - 1 if time == LATEST_TIME else time for time in times]

    def _write(self, texts: Sequence[str], queries: Sequence[DeviceQuery]) -> None:
        found, times = self._ask(queries)
        answers = [each.answer for each in found]
        if self._demangler is not None:
            answers = self._demangler.answers(answers)
        for text, time, each, answer in zip(texts, times, found, answers, strict=True):
            self._unanswered += names_nothing(answer)
            if self._as_json:
                write_json(device_answer_json(text, time, each, answer))
            else:
                sys.stdout.write(device_answer_text(text, each, answer))

    def _refuse(self, text: str, error: BadQuery) -> None:
        self._unreadable += bool(text)
        said = str(error) if text else "an empty line"
        if self._as_json:
            write_json(unreadable_query_json(text, said))
        else:
            sys.stdout.write(f"{printable(text)}: error: {printable(said)}\n")


def device_answer_json(text: str, time: int, found: DeviceAnswer, answer: Answer) -> dict[str, object]:
    """One answer. ``time`` is null where it is after everything that was told."""
    return answer_json(text, answer) | _device_json(time, found)


def _device_json(time: int, found: DeviceAnswer) -> dict[str, object]:
    fields: dict[str, object] = {
        "device_address": found.address,
        "time": None if time == LATEST_TIME else time,
        "module": None if found.module is None else f"modules/{found.module}",
    }
    if found.candidates:
        fields["loads"] = [
            {"module": f"modules/{each.module}", "object": each.path, "device_address": each.address}
            for each in found.candidates
        ]
    return fields


def device_answer_text(text: str, found: DeviceAnswer, answer: Answer) -> str:
    """The answer as for other addresses, and the module it is from."""
    module = f"  in modules/{found.module}\n" if found.module is not None else ""
    could = "".join(f"  could be in modules/{each.module}\n" for each in found.candidates)
    return answer_text(text, answer) + module + could


def _parsed(text: str, default: int | None) -> DeviceQuery:
    found = _QUERY.fullmatch(text.strip())
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    hint = "write ADDRESS or ADDRESS@TIME, with decimal or 0x numbers, the time in nanoseconds"
    if not found:
        raise BadQuery(f"{shown!r} is not a device address", hint=hint)
    address = int(found[1], 16 if found[1][:2] in ("0x", "0X") else 10)
    query = DeviceQuery(address, int(found[2]) if found[2] else default)
    if address >= 1 << 64 or (query.time or 0) > LATEST_TIME:
        raise BadQuery(f"{shown!r} has a number that does not fit", hint=hint)
    return query


@click.command(
    "contexts",
    epilog=example("symd daemon contexts\nsymd daemon contexts --process 4242 --json\nsymd daemon contexts 3f2a"),
)
@daemon_option
@click.option("--process", type=click.IntRange(0), metavar="PID", help="Only those of this process.")
@json_option
@click.argument("context", required=False)
def command(server: str | None, process: int | None, as_json: bool, context: str | None) -> int:
    """List a daemon's contexts, each a process on a device: how many modules it loaded, when the first was loaded and,
    if none is loaded now, when the last was unloaded.

    With CONTEXT (its ID, or the beginning of it), show its loads, each with its module, key, times and device
    addresses. Times are nanoseconds of the context's clock, shown as seconds in text. To ask what is at a device
    address, use symd symbolize --context. Exit code 1: there is no context with that ID or process.
    """
    with daemon(server) as client:
        if context is not None:
            return _show_loads(client.contexts, chosen_context(client.contexts, context), as_json=as_json)
        found = [each for each in client.contexts.all() if process in (None, each.context.process)]
        for record in found:
            _show(record, life_of(client.contexts, record.id), as_json=as_json)
    if not found and process is None:
        complain("no program was recorded yet; symd run -- PROGRAM records one")
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

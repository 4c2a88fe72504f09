"""``symd record``: what a debugger or a profiler sees loaded and unloaded, into a context of a daemon."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import click

from symd.cli.options import daemon_option, example, limit_option
from symd.cli.output import NO, write_json
from symd.client import Client
from symd.config import Limits
from symd.engine.files.added_module import add_module
from symd.errors import BadQuery, InvalidInput, LimitExceeded, NotFound, PermissionDenied, Unsupported
from symd.model.addresses import ByKernel, BySection, DeviceAddress, KernelOffset, SectionOffset
from symd.model.contexts import Context, Load, Segment, Unload
from symd.model.identities import Digest, ObjectPath

LINE_LENGTH = 1 << 20
"""Characters of one line."""
_DEFAULT = "the default"
"""The daemon where none is named."""
_WRITTEN = re.compile(r"0[xX][0-9a-fA-F]{1,32}|[0-9]{1,32}", re.ASCII)
"""A number as text: programs that keep JSON's numbers as floating point, as jq and JavaScript do, lose digits of one
above 2^53."""
_HINT = "symd record --help shows the lines"
_JSON_HELP = """\b
One JSON object per line:
  {"context": {"host": "", "process": 4711, "device": "gfx90a",
               "clock": "CLOCK_BOOTTIME", "address_bits": 64,
               "attributes": {"start_time": "81234"}}}
  {"load": {"file": "kernels.co", "load_base": 140737353089024,
            "key": "1", "time": 1234}}
  {"load": {"file": "a.elf", "object": null,
            "sections": {".text.vadd": 4096}, "kernels": {"move": 8192},
            "key": "2", "time": 1234}}
  {"unload": {"key": "1", "time": 5678}}

The first line names the context; equal lines name the same context. Every member of a context can be omitted.
A load needs file, key and time; file can be modules/SHA256. For addresses it needs load_base (device address
minus object address), or says where sections or kernels begin. If the file has several code objects, "object": PATH
names the one that was loaded, as symd info shows it. An unload needs the key of a load, and time. A number can also be a string, decimal or "0x7f0012345678": programs that keep numbers
as floating point lose digits above 2^53. Times are nanoseconds of the context's clock.

\b
Each line is answered by one line:
  {"context": "3f2a..."}
  {"key": "1", "module": "9b74..."}
  {"key": "1", "unloaded": 5678}

A load or unload that fails gets {"key": "2", "error": "..."}, with null for a key that it does not have; the others
still count. A line that is neither, and a context that is wrong, end the command with exit code 2.
"""


@click.command(
    "record",
    epilog=f"{_JSON_HELP}\n"
    + example("""echo '{"context": {"process": 4711}}' | symd daemon record\nsymd daemon record < loaded.json"""),
)
@daemon_option
@limit_option
def command(server: str | None, limits: Limits) -> int:
    """Tell a daemon which modules are loaded at which device addresses, and when they are unloaded. The command reads
    lines from standard input.

    symd does not run or sample a program here: use symd run for that. Afterward, symd symbolize --context answers
    device addresses. Recording the same thing twice changes nothing. Exit code 1: something could not be recorded; 3:
    no daemon answers, even if there are no lines.
    """
    failed = False
    with Client(server) as client:
        told = _Told(client, server, limits)
        for number, line in enumerate(_lines(), 1):
            try:
                answer = told.take(line)
            except BadQuery as error:
                raise error.prefix_where(f"line {number}") from None
            failed |= "error" in answer
            write_json(answer)
            sys.stdout.flush()
        if not told.lines:
            with suppress(PermissionDenied):  # one answers
                client.health()
    return NO if failed else 0


class _Told:
    """The context at hand, and what was told of it."""

    def __init__(self, client: Client, server: str | None, limits: Limits) -> None:
        self._client, self._server, self._limits = client, server, limits
        self._context: str | None = None
        self.lines = 0

    def take(self, line: str) -> dict[str, Any]:
        """What one line is answered. Raises BadQuery for one that is no load or unload, and for a context that is
        wrong, because later lines would be told of another one; and what no later line could do better."""
        self.lines += 1
        said = dict(_members(_parsed(line), "the line"))
        if len(said) != 1 or not said.keys() <= {"context", "load", "unload"}:
            raise BadQuery("a line has one member: context, load or unload", hint=_HINT)
        [(kind, value)] = said.items()
        if kind == "context":
            self._context = self._client.contexts.add(_context(_Members(value, kind)))
            return {"context": self._context}
        if self._context is None:
            raise BadQuery("no line before this one names a context", hint=_HINT)
        key = value.get("key") if isinstance(value, dict) else None
        key = key if isinstance(key, str) else None
        try:
            members = _Members(value, kind)
            told = self._loaded if kind == "load" else self._unloaded
            return {"key": key, **told(self._context, members.text("key"), members)}
        except BadQuery as error:
            return {"key": key, "error": str(error.prefix_where(f"line {self.lines}"))}
        except (InvalidInput, NotFound, Unsupported, LimitExceeded) as error:
            return {"key": key, "error": str(error)}

    def _loaded(self, context: str, key: str, members: _Members) -> dict[str, Any]:
        file, path, base, time = (
            members.text("file"),
            members.text("object", ""),
            members.number("load_base", -1),
            members.number("time"),
        )
        segments = [
            *(_segment(each, BySection(each[0], SectionOffset(0))) for each in members.numbers("sections")),
            *(_segment(each, ByKernel(each[0], KernelOffset(0))) for each in members.numbers("kernels")),
        ]
        members.check_all_read()
        digest = Digest(add_module(self._client, file, self._server or _DEFAULT, self._limits))
        within = ObjectPath(path) if path else None
        load = Load(digest, time, tuple(segments), None if base < 0 else base, within, key)
        self._client.contexts.record(context, [load])
        return {"module": digest}

    def _unloaded(self, context: str, key: str, members: _Members) -> dict[str, Any]:
        time = members.number("time")
        members.check_all_read()
        self._client.contexts.record(context, [Unload(key, time)])
        return {"unloaded": time}


def _context(members: _Members) -> Context:
    made = Context(
        members.text("host", ""),
        members.number("process", 0),
        members.text("device", ""),
        members.text("clock", ""),
        members.number("address_bits", 64),
        members.texts("attributes"),
    )
    members.check_all_read()
    return made


def _segment(place: tuple[str, int], start: BySection | ByKernel) -> Segment:
    """The segment from the address of a place to the end of its section or kernel."""
    return Segment(DeviceAddress(place[1]), 0, start)


class _Members:
    """The members of an object, each read once as what it has to be. Raises BadQuery."""

    def __init__(self, value: Any, name: str) -> None:
        self._name = name
        self._left = dict(_members(value, name))

    def text(self, name: str, default: str | None = None) -> str:
        value = self._taken(name, default)
        if not isinstance(value, str):
            raise BadQuery(f"{name} of {self._name} must be a string", hint=_HINT)
        return value

    def number(self, name: str, default: int | None = None) -> int:
        return _number(self._taken(name, default), name)

    def numbers(self, name: str) -> list[tuple[str, int]]:
        return [(key, _number(value, key)) for key, value in _members(self._left.pop(name, {}), name)]

    def texts(self, name: str) -> dict[str, str]:
        return {key: str(value) for key, value in _members(self._left.pop(name, {}), name)}

    def _taken(self, name: str, default: object) -> object:
        value = self._left.pop(name, None)
        if value is None and default is None:
            raise BadQuery(f"{self._name} has no {name}", hint=_HINT)
        return default if value is None else value

    def check_all_read(self) -> None:
        if self._left:
            raise BadQuery(f"{self._name} has an unknown member {next(iter(self._left))[:80]!r}", hint=_HINT)


def _members(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise BadQuery(f"{name} is an object", hint=_HINT)
    return iter(value.items())


def _number(value: object, name: str) -> int:
    if isinstance(value, str) and _WRITTEN.fullmatch(value):
        value = int(value, 16 if value[:2] in ("0x", "0X") else 10)
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 1 << 64:
        raise BadQuery(f'{name[:80]} must be a number below 2^64, or a string with one, such as "0x7f00"', hint=_HINT)
    return value


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadQuery("it is not JSON", hint=_HINT) from error


def _lines() -> Iterator[str]:
    """The lines of standard input that are not empty. Raises BadQuery for one that is too long."""
    while line := sys.stdin.readline(LINE_LENGTH + 1):
        if len(line) > LINE_LENGTH:
            raise BadQuery(f"a line has more than {LINE_LENGTH} characters", where="standard input", hint=_HINT)
        if line.strip():
            yield line

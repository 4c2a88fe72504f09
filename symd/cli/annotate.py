"""``symd annotate < log``: frames under every line of fault text that names an address."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import BinaryIO, Protocol

import click

from symd.api import Symbolizer
from symd.cli.answer_lines import answer_text
from symd.cli.call_files import FilesInAnyOrder, call_text, call_with, hottest_lines, profile_kind
from symd.cli.options import complete_files, demangle_option, example, limit_option, module_server_option, object_option
from symd.cli.output import printable
from symd.config import Limits
from symd.cores.fault_text import Annotator, FoundAddress, GivenModule
from symd.engine.files.added_module import add_module
from symd.engine.files.input import is_regular_file
from symd.engine.files.module import open_symbolizer
from symd.engine.files.opened_file import OpenedFile
from symd.errors import InvalidInput, SymdError
from symd.formats.containers import identify
from symd.formats.containers.uri import parse_uri
from symd.model.addresses import ByAddress, ObjectAddress, Query
from symd.model.answers import Answer, Reason
from symd.query.demangler import Demangler
from symd.system.messages import complain, os_error_text

READ_BYTES = 1 << 16
LONGEST_LINE = 1 << 20
"""Bytes of a line without end, beyond which it is passed on as it comes."""
INDENT = "    symd: "
_BARE = re.compile(rb"\b0[xX][0-9a-fA-F]{1,16}\b")
_DATA = re.compile(rb'\s*[\[{"=]')
"""How profiles that are text begin: JSON, a table, or the heading of one. Folded stacks are annotated as logs are."""
_BINARY = ("otlp", "perfetto", "pprof")
"""Formats of profiles that text may be taken for."""
_MOST_NUMBERS = 16
"""Numbers of a text that are looked up where nothing else in it is known."""
_BASE = re.compile(r"(.+)@(0[xX][0-9a-fA-F]{1,16})", re.ASCII | re.DOTALL)
_BASE_WITHOUT_0X = re.compile(r"(.+)@([0-9a-fA-F]{1,16})", re.ASCII | re.DOTALL)


@click.command(
    "annotate",
    cls=FilesInAnyOrder,
    epilog=example(
        "symd annotate rocr-debug-agent.log\n"
        "compute-sanitizer ./program 2>&1 | symd annotate -m program\n"
        "symd annotate -m kernels.co@0x7f0000000000 < gdb.log"
    ),
)
@click.option(
    "-m",
    "--module",
    "modules",
    multiple=True,
    metavar="MODULE[@ADDRESS]",
    shell_complete=complete_files,
    help="A file that the text may be about; ADDRESS is where its code object was loaded.",
)
@click.option(
    "--files/--no-files",
    default=None,
    help="Whether to open files that the text names; with --server, they are sent to the daemon.  [default: without --server]",
)
@object_option
@demangle_option
@module_server_option
@limit_option
@click.argument("log", default="-", metavar="[LOG]", shell_complete=complete_files)
def command(
    modules: tuple[str, ...],
    files: bool | None,
    path: str | None,
    demangle: bool,
    server: str | None,
    limits: Limits,
    log: str,
) -> None:
    """Copy the file LOG, or standard input, to standard output, and add frames below each line that names a place in
    GPU code: KERNEL+0x68, addresses of waves whose code object the text names, or program counters in a MODULE that is
    loaded at ADDRESS.

    symd understands the output of rocr-debug-agent, compute-sanitizer, cuda-gdb, rocgdb, gdb-oneapi and LLVM's
    runtimes. Added lines begin with four spaces and "symd:". Everything else is copied byte for byte, line by line as
    it arrives.

    Files that the text names are opened here. With --server, they are opened and sent only if --files is given, because
    the text may come from someone else. A MODULE is always sent.

    If a MODULE has a function for several architectures, there is an answer for each of them, or a single one if they
    are the same; --object chooses one by its path, which symd info prints.
    """
    with _open_log(log, modules) as handle, _answering(server, limits) as answering:
        given = [_given(text, answering) for text in modules]
        source = _Modules(answering, files, path, given, is_server=server is not None)
        annotator = Annotator(source, given)
        demangler = Demangler() if demangle else None
        annotated, numbers = False, dict[bytes, None]()
        for piece, whole in _lines(handle):
            annotated |= _pass_on(sys.stdout.buffer, piece, annotator, demangler, whole=whole)
            numbers.update(dict.fromkeys(_BARE.findall(piece)[: _MOST_NUMBERS - len(numbers)]))
        if not annotated and not source.has_complained:
            _say_nothing_is_known(log, given, source, [int(each, 16) for each in numbers])


@contextmanager
def _open_log(log: str, modules: Sequence[str]) -> Iterator[int]:
    """The descriptor of a file, or of standard input for "-". Raises InvalidInput for one that cannot be read."""
    if log == "-":
        yield sys.stdin.fileno()
        return
    try:
        file = open(log, "rb")  # noqa: PTH123, SIM115 - pathlib is slow to load
    except OSError as error:
        reason = os_error_text(error)
        raise InvalidInput(f"cannot read the file: {reason}", where=log) from error
    with file:
        _check_text(file.fileno(), log, modules)
        yield file.fileno()


def _check_text(handle: int, log: str, modules: Sequence[str]) -> None:
    """Raises InvalidInput for a module or a profile: what is in them would fill the terminal."""
    beginning = os.pread(handle, READ_BYTES, 0) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    if b"\0" not in beginning and not _DATA.match(beginning):
        return
    kind, module = profile_kind(log), next(iter(modules), "FILE")
    if kind is not None and (b"\0" in beginning or kind not in _BINARY):
        listing = call_text(["listing", "--profile", log, module])
        hint = f"{listing} shows its samples beside the source, {hottest_lines([module], log)}"
        raise InvalidInput(f"this is a profile ({kind}), not a log", where=log, hint=hint)
    if b"\0" in beginning and (found := identify(beginning)) is not None:
        hint = f"symd annotate -m {quote(log)} LOG"
        raise InvalidInput(f"this is {found.NAME}, a module, not text", where=log, hint=hint)


def _say_nothing_is_known(log: str, given: Sequence[GivenModule], source: _Modules, numbers: Sequence[int]) -> None:
    """Say that no line was annotated, what the text is where it is a profile, and what asks for one of the ``numbers``
    in it."""
    name = "standard input" if log == "-" else log
    kind = None if log == "-" else profile_kind(log)
    file = quote(given[0].name if given else "FILE")
    if kind is not None:
        complain(
            f"{name}: 0 lines annotated; it is a profile ({kind}): {hottest_lines([each.name for each in given], log)}"
        )
        return
    said = f"{name}: 0 lines annotated: none names a place in a module that is known"
    if not given:
        said += f"; write {call_with(['-m', 'FILE'])}, where FILE is the module that ran"
    elif numbers:
        asked = [(each, source.symbolize(given[0].digest, ByAddress(ObjectAddress(each)))) for each in numbers]
        inside = next((each for each, answer in asked if answer.reason is not Reason.OUTSIDE_TEXT), None)
        said += (
            "; an address follows pc, PC, or a function and +, and is that of the code object, or of a MODULE@ADDRESS"
        )
        if inside is not None:
            said += f": symd symbolize {file} {inside:#x} asks for {inside:#x}"
    complain(said)


def _pass_on(out: BinaryIO, piece: bytes, annotator: Annotator, demangler: Demangler | None, *, whole: bool) -> bool:
    """Write a line, and what belongs under it, and return whether anything does. A last line without an end gets one
    only where something follows."""
    out.write(piece)
    found = annotator.line(piece.decode("utf-8", "replace")) if whole else []
    if found:
        text = "".join(_text(each, demangler) for each in found)
        out.write(
            (text if piece.endswith(b"\n") else "\n" + text.removesuffix("\n")).encode("utf-8", "backslashreplace")
        )
    out.flush()
    return bool(found)


def _text(found: FoundAddress, demangler: Demangler | None) -> str:
    answer = demangler.answers([found.answer])[0] if demangler else found.answer
    lines = answer_text(found.subject, answer).splitlines()
    return "".join(f"{INDENT}{line}\n" for line in lines)


class _Answering(Protocol):
    """What answers questions about files."""

    def add(self, file: str) -> str:
        """What a file is called from then on. Raises what opening it raises."""
        ...

    def symbolize(self, name: str, queries: Sequence[Query], path: str | None) -> Sequence[Answer]: ...


class _Here:
    """Files that are read in this process, as much of each as questions need."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._files: dict[str, OpenedFile] = {}

    def add(self, file: str) -> str:
        name = file if file == "-" else _real(file)
        if name not in self._files:
            self._files[name] = OpenedFile(file, self._limits)
        return name

    def symbolize(self, name: str, queries: Sequence[Query], path: str | None) -> Sequence[Answer]:
        return self._files[name].symbolize(queries, path)


class _AtServer:
    def __init__(self, symbolizer: Symbolizer, server: str, limits: Limits) -> None:
        self._symbolizer, self._server, self._limits = symbolizer, server, limits

    def add(self, file: str) -> str:
        return add_module(self._symbolizer, file, self._server, self._limits)

    def symbolize(self, name: str, queries: Sequence[Query], path: str | None) -> Sequence[Answer]:
        return self._symbolizer.symbolize(name, queries, path)


@contextmanager
def _answering(server: str | None, limits: Limits) -> Iterator[_Answering]:
    if server is None:
        yield _Here(limits)
        return

    with open_symbolizer(server, limits) as symbolizer:
        yield _AtServer(symbolizer, server, limits)


def _real(file: str) -> str:
    """One name for a file, whatever path or URI names all of it."""
    if not file.startswith("file://"):
        return os.path.realpath(file)
    return file if "#" in file else os.path.realpath(parse_uri(file).path)


class _Modules:
    """Modules that the text may be about. ``files`` says whether files are opened that the text names, None: where they
    stay in this process; those that are ``given`` are in any case. ``path`` restricts the answers of those that are
    given to one code object."""

    def __init__(
        self,
        answering: _Answering,
        files: bool | None,
        path: str | None,
        given: Sequence[GivenModule],
        *,
        is_server: bool,
    ) -> None:
        self._answering, self._files, self._path, self._is_server = answering, files, path, is_server
        self._digests = frozenset(each.digest for each in given)
        self._given = frozenset(os.path.realpath(each.name) for each in given)
        self.has_complained = False

    def symbolize(self, digest: str, query: Query, path: str | None = None) -> Answer:
        chosen = self._path if digest in self._digests else None
        return self._answering.symbolize(digest, [query], chosen if path is None else path)[0]

    def open(self, uri: str) -> str | None:
        """A file that is not here, stays here, or is no module, is said once on standard error."""
        try:
            is_given = uri.startswith("file://") and os.path.realpath(parse_uri(uri).path) in self._given
            if self._files is False and not is_given:
                return None
            if uri.startswith("file://") and not is_regular_file(uri):
                raise InvalidInput("there is no such file here", where=printable(uri))
            if self._is_server and self._files is None and not is_given:
                hint = "-m FILE sends it, --files sends all that the text names"
                raise InvalidInput("it stays here", where=printable(uri), hint=hint)
            return self._answering.add(uri)
        except SymdError as error:
            self.has_complained = True
            complain(str(error))
            return None


def _given(text: str, answering: _Answering) -> GivenModule:
    """``FILE@ADDRESS``, unless there is a file of that whole name."""
    whole = os.path.lexists(text)  # pathlib is slow to load
    found = None if whole else _BASE.fullmatch(text)
    digits = None if whole or found else _BASE_WITHOUT_0X.fullmatch(text)
    if digits:
        hint = f"write {quote(f'{digits[1]}@0x{digits[2]}')}"
        raise InvalidInput(f"{digits[2]!r} is not an address, which begins with 0x", where=f"-m {text}", hint=hint)
    file, base = (found[1], int(found[2], 16)) if found else (text, None)
    return GivenModule(file, answering.add(file), base)


def _lines(handle: int) -> Iterator[tuple[bytes, bool]]:
    """Lines with their ends, as soon as they are there, and whether each is whole: one that is longer than any is
    handed on in pieces."""
    rest, whole = b"", True
    while read := os.read(handle, READ_BYTES):
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            yield line + b"\n", whole
            whole = True
        if len(rest) > LONGEST_LINE:
            yield rest, False
            rest, whole = b"", False
    if rest:
        yield rest, whole

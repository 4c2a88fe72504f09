"""``symd annotate < log``: frames under every line of fault text that names an address."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import BinaryIO

import click

from symd.api import Symbolizer
from symd.cli.answer_text import answer_text
from symd.cli.demangle import Demangler
from symd.cli.input import is_regular_file
from symd.cli.module import add_module, open_symbolizer
from symd.cli.options import complete_files, demangle_option, example, limit_option, module_server_option
from symd.cli.output import complain, printable
from symd.config import Limits
from symd.containers import identify
from symd.containers.uri import parse as parse_uri
from symd.errors import InvalidInput, SymdError
from symd.fault_text.annotating import Annotator, Found, GivenModule
from symd.model.addresses import Query
from symd.model.answers import Answer
from symd.system_reason import system_reason

READ_BYTES = 1 << 16
LONGEST_LINE = 1 << 20
"""Bytes of a line without end, beyond which it is passed on as it comes."""
INDENT = "    symd: "
_BASE = re.compile(r"(.+)@(0[xX][0-9a-fA-F]{1,16})", re.ASCII | re.DOTALL)


@click.command(
    "annotate",
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
    help="Whether to open files that the text names; with --server they are sent to it.  [default: without --server]",
)
@demangle_option
@module_server_option
@limit_option
@click.argument("log", default="-", metavar="[LOG]", shell_complete=complete_files)
def command(
    modules: tuple[str, ...], files: bool | None, demangle: bool, server: str | None, limits: Limits, log: str
) -> None:
    """Copy the file LOG, or standard input, to standard output, and put frames under each line that names a place in GPU code: KERNEL+0x68,
    addresses of waves whose code object the text names, program counters of a MODULE that is loaded at ADDRESS.

    Understood is what rocr-debug-agent, compute-sanitizer, cuda-gdb, rocgdb, gdb-oneapi and LLVM's runtimes print. Added
    lines begin with four spaces and "symd:"; everything else stays as it is, byte for byte, and comes line by line.

    Files that the text names are opened here. With --server they stay here, but for those that are given as a MODULE, unless
    --files is given: the text may come from somebody else.
    """
    with _opened(log) as handle, open_symbolizer(server, limits) as symbolizer:
        given = [_given(text, symbolizer, server, limits) for text in modules]
        source = _Modules(symbolizer, server, limits, files, frozenset(os.path.realpath(each.name) for each in given))
        annotator = Annotator(source, given)
        demangler = Demangler(limits) if demangle else None
        for piece, whole in _lines(handle):
            _pass_on(sys.stdout.buffer, piece, annotator, demangler, whole=whole)


@contextmanager
def _opened(log: str) -> Iterator[int]:
    """The descriptor of a file, or of standard input for "-". Raises InvalidInput for one that cannot be read."""
    if log == "-":
        yield sys.stdin.fileno()
        return
    try:
        file = open(log, "rb")  # noqa: PTH123, SIM115 - pathlib is slow to load
    except OSError as error:
        reason = system_reason(error)
        raise InvalidInput(f"cannot read the file: {reason}", where=log) from error
    with file:
        _check_text(file.fileno(), log)
        yield file.fileno()


def _check_text(handle: int, log: str) -> None:
    """Raises InvalidInput for a module: its bytes would fill the terminal."""
    beginning = os.pread(handle, READ_BYTES, 0) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    if b"\0" in beginning and (found := identify(beginning)) is not None:
        hint = f"symd annotate -m {quote(log)} LOG"
        raise InvalidInput(f"this is {found.NAME}, a module and no text", where=log, hint=hint)


def _pass_on(out: BinaryIO, piece: bytes, annotator: Annotator, demangler: Demangler | None, *, whole: bool) -> None:
    """Write a line, and what belongs under it. A last line without an end gets one only where something follows."""
    out.write(piece)
    found = annotator.line(piece.decode("utf-8", "replace")) if whole else []
    if found:
        text = "".join(_text(each, demangler) for each in found)
        out.write(
            (text if piece.endswith(b"\n") else "\n" + text.removesuffix("\n")).encode("utf-8", "backslashreplace")
        )
    out.flush()


def _text(found: Found, demangler: Demangler | None) -> str:
    answer = demangler.answers([found.answer])[0] if demangler else found.answer
    lines = answer_text(found.subject, answer).splitlines()
    return "".join(f"{INDENT}{line}\n" for line in lines)


class _Modules:
    """The modules of a symbolizer. ``files`` says whether it gets files that the text names, None: where it is in this process; it gets
    those that are ``given``, real paths, in any case."""

    def __init__(
        self, symbolizer: Symbolizer, server: str | None, limits: Limits, files: bool | None, given: frozenset[str]
    ) -> None:
        self._symbolizer, self._server, self._limits = symbolizer, server, limits
        self._files, self._given = files, given

    def symbolize(self, digest: str, queries: Sequence[Query]) -> Sequence[Answer]:
        return self._symbolizer.symbolize(digest, queries)

    def open(self, uri: str) -> str | None:
        """A file that is not here, stays here, or is no module, is said once on standard error."""
        try:
            is_given = uri.startswith("file://") and os.path.realpath(parse_uri(uri).path) in self._given
            if self._files is False and not is_given:
                return None
            if uri.startswith("file://") and not is_regular_file(uri):
                raise InvalidInput("there is no such file here", where=printable(uri))
            if self._server is not None and self._files is None and not is_given:
                hint = "-m FILE sends it, --files sends all that the text names"
                raise InvalidInput("it stays here", where=printable(uri), hint=hint)
            return add_module(self._symbolizer, uri, self._server, self._limits)
        except SymdError as error:
            complain(str(error))
            return None


def _given(text: str, symbolizer: Symbolizer, server: str | None, limits: Limits) -> GivenModule:
    """``FILE@ADDRESS``, unless there is a file of that whole name."""
    whole = os.path.lexists(text)  # pathlib is slow to load
    found = None if whole else _BASE.fullmatch(text)
    file, base = (found[1], int(found[2], 16)) if found else (text, None)
    digest = add_module(symbolizer, file, server, limits)
    return GivenModule(file, digest, base)


def _lines(handle: int) -> Iterator[tuple[bytes, bool]]:
    """Lines with their ends, as soon as they are there, and whether each is whole: one that is longer than any is handed
    on in pieces."""
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

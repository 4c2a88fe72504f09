"""``symd symbolize FILE QUERY... | -``: addresses to frames; a session on standard input answers as it is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING

import click

from symd.cli.answer_text import answer_text, names_nothing
from symd.cli.garbage import gc_frozen
from symd.cli.input import module_digest
from symd.cli.large_file import opened_file
from symd.cli.options import (
    debug_option,
    demangle_option,
    example,
    json_option,
    limit_option,
    object_option,
    server_option,
)
from symd.cli.output import NO, printable
from symd.cli.progress import working
from symd.cli.style_options import Styled, style_options
from symd.config import Limits
from symd.errors import BadQuery, LimitExceeded
from symd.model.addresses import Query
from symd.model.answers import Answer, Answers, Reason
from symd.model.query_syntax import parse_query

if TYPE_CHECKING:
    from symd.cli.demangle import Demangler

READ_BYTES = MAX_LINE_BYTES = 1 << 16
MISUSED = 2


@click.command(
    "symbolize",
    epilog=example(
        "symd symbolize program.bin vadd+0x1b0 '(.text.vadd)+432' '(#3)+0x20' 0x110\n"
        "cut -f1 samples.tsv | symd symbolize --json program.bin -\n"
        "symd symbolize --context 3f2a 0xffff8000ffbf0368@81234567890"
    ),
)
@server_option
@limit_option
@json_option
@object_option
@debug_option
@demangle_option
@click.option(
    "--as-written", is_flag=True, help="Answer what rows and scopes say, also where they contradict each other."
)
@click.option(
    "--context",
    metavar="CONTEXT",
    help="QUERY is a device address in this context of a daemon (symd contexts); there is no FILE then.",
)
@click.option(
    "--time",
    type=click.IntRange(0, (1 << 63) - 2),
    metavar="NANOSECONDS",
    help="With --context: as of when, by the context's clock.  [default: now, or when the last module went]",
)
@style_options
@click.argument("queries", nargs=-1, metavar="[QUERY... | -]")
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    demangle: bool,
    as_written: bool,
    context: str | None,
    time: int | None,
    queries: tuple[str, ...],
    styled: Styled | None,
) -> int:
    """Turn addresses of FILE into source frames, innermost first.

    QUERY is ADDRESS, FUNCTION+OFFSET, (SECTION)+OFFSET or (#INDEX)+OFFSET. FUNCTION is a kernel or another function with
    code of its own, mangled or readable. Numbers are decimal, or hexadecimal with 0x in front (addr2line takes all for
    hexadecimal). "-", or no query at all, reads queries from standard input, one a line, and answers each line as it comes.
    FILE may be "-" for standard input, or file://PATH#offset=N&size=N for a part of a file. With --context a QUERY is a device
    address, ADDRESS or ADDRESS@TIME, and is answered as of that time. Exit code 1: something that a query names does not
    exist.
    """
    if context is not None:
        if path is not None or debug is not None or as_written or styled:
            raise click.UsageError("--object, --debug, --as-written and --style are about a FILE, not about --context")
        return _device_addresses(
            context, server, time, (file, *queries), _demangler(limits) if demangle else None, as_json=as_json
        )
    if time is not None:
        raise click.UsageError("--time is about device addresses: it takes --context")
    from_input = queries in ((), ("-",))
    if from_input and file == "-":
        raise click.UsageError("the file and the queries cannot both come from standard input")
    asked = [] if from_input else [parse_query(text) for text in queries]
    with _answering(file, server, limits, debug) as answers:
        ask = partial(answers, path=path, as_written=as_written or styled is not None)
        lines = _styled_lines(styled) if styled else _json_lines() if as_json else _text_lines()
        demangler = _demangler(limits) if demangle and not styled else None
        session = Session(styled.asking(ask) if styled else ask, lines, demangler)
        if asked:
            with gc_frozen():  # the process ends after the answer; a session goes on and collects
                session.answer(queries, asked)
        else:
            session.follow(arriving_lines(sys.stdin.fileno()))
    if session.unlike and not as_json and not styled:
        click.echo(f"symd: nothing is called like that; symd names {quote(file)} '*' shows all names", err=True)
    return session.finish()


Ask = Callable[[Sequence[Query]], Sequence[Answer]]
OutputLines = tuple[Callable[[str, Answer], str], Callable[[str, str], str]]
"""How the line of an answer is written, and that of a query that cannot be read with its error; both have the query's text first."""


def _device_addresses(
    context: str,
    server: str | None,
    time: int | None,
    texts: Sequence[str],
    demangler: Demangler | None,
    *,
    as_json: bool,
) -> int:
    from symd.cli.context_life import chosen_context  # noqa: PLC0415 - needed for device addresses alone
    from symd.cli.device_addresses import DeviceSession  # noqa: PLC0415 - NumPy is slow to import
    from symd.client import Client  # noqa: PLC0415 - as gRPC is

    with Client(server) as client:
        record = chosen_context(client.contexts, context)
        session = DeviceSession(client.contexts, record, time, demangler, as_json=as_json)
        if texts == ("-",):
            session.follow(arriving_lines(sys.stdin.fileno()))
        else:
            session.answer(texts)
        return session.finish()


@contextmanager
def _answering(file: str, server: str | None, limits: Limits, debug: str | None) -> Iterator[Callable[..., Answers]]:
    """What answers: this process, as directly as it can, where it needs neither a daemon nor two files."""
    if server is None and debug is None and module_digest(file) is None:
        with working(f"reading {printable(file)}"):
            opened = opened_file(file, limits)

        def answers(queries: Sequence[Query], path: str | None, *, as_written: bool) -> Answers:
            with working(f"reading {printable(file)}"):  # as much of it as these queries need
                return opened.symbolize(queries, path, as_written=as_written)

        yield answers
        return
    from symd.cli.module import open_module  # noqa: PLC0415 - the engine is slow to import and not needed for one file

    with open_module(file, server, limits, debug) as module:
        yield partial(module.symbolizer.symbolize, module.digest)


def _demangler(limits: Limits) -> Demangler:
    from symd.cli.demangle import Demangler  # noqa: PLC0415 - few ask for it

    return Demangler(limits)


def _text_lines() -> OutputLines:
    return answer_text, lambda query, error: f"{printable(query)}: error: {printable(error)}\n"


def _styled_lines(styled: Styled) -> OutputLines:
    return styled.answer, lambda query, _error: styled.answer(query, None)


def _json_lines() -> OutputLines:
    from symd.answers_json import to_json  # noqa: PLC0415 - text needs none of it
    from symd.answers_json.answers import answer_json, unreadable_query_json  # noqa: PLC0415

    return (
        lambda query, answer: to_json(answer_json(query, answer)) + "\n",
        lambda query, error: to_json(unreadable_query_json(query, error)) + "\n",
    )


class Session:
    """Answers batches of queries about one module and counts what went wrong."""

    def __init__(self, ask: Ask, lines: OutputLines, demangler: Demangler | None) -> None:
        self.unanswered = 0
        self.unreadable = 0
        self.unlike = False
        """Whether a name was asked for, and nothing has one like it."""
        self._ask_module = ask
        self._answer_line, self._refusal_line = lines
        self._demangler = demangler

    def follow(self, batches: Iterator[Sequence[str]]) -> None:
        """Answer lines of text batch by batch; what cannot be read is answered by an error in its place, and an empty line,
        which is no mistake, too."""
        for texts in batches:
            read = [(text, _parsed(text)) for text in texts]
            good = [query for _, query in read if not isinstance(query, BadQuery)]
            answers = iter(self._ask(good))
            for text, query in read:
                if isinstance(query, BadQuery):
                    self._refuse(text, query)
                else:
                    self._write(text, next(answers))
            sys.stdout.flush()

    def answer(self, texts: Sequence[str], queries: Sequence[Query]) -> None:
        for text, answer in zip(texts, self._ask(queries), strict=True):
            self._write(text, answer)

    def finish(self) -> int:
        """The exit code: 2 when a query could not be read, 1 when one names what does not exist."""
        if self.unreadable:
            click.echo(
                f"symd: {self.unreadable} of the queries could not be read (see symd symbolize --help)", err=True
            )
            return MISUSED
        return NO if self.unanswered else 0

    def _ask(self, queries: Sequence[Query]) -> Sequence[Answer]:
        if not queries:
            return ()
        answers = list(self._ask_module(queries))
        return self._demangler.answers(answers) if self._demangler else answers

    def _write(self, text: str, answer: Answer) -> None:
        self.unlike |= answer.reason is Reason.UNKNOWN_KERNEL and not answer.candidates
        self.unanswered += names_nothing(answer)
        sys.stdout.write(self._answer_line(text, answer))

    def _refuse(self, text: str, error: BadQuery) -> None:
        self.unreadable += bool(text)
        sys.stdout.write(self._refusal_line(text, str(error) if text else "an empty line"))


def _parsed(text: str) -> Query | BadQuery:
    try:
        return parse_query(text)
    except BadQuery as error:
        return error


def arriving_lines(handle: int) -> Iterator[list[str]]:
    """The lines of each piece that can be read without waiting for more, stripped."""
    rest = b""
    while piece := os.read(handle, READ_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise LimitExceeded(
                f"a line of more than {MAX_LINE_BYTES} bytes", where="standard input", hint="one query a line"
            )
        yield [_text(line) for line in lines]
    if rest:
        yield [_text(rest)]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()

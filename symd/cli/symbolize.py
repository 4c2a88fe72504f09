"""``symd symbolize FILE QUERY... | -``: addresses to frames; a session on standard input answers as it is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from symd.cli.answer_text import UNANSWERED, answer_text
from symd.cli.garbage import gc_frozen
from symd.cli.input import module_digest
from symd.cli.one_file import OneFile
from symd.cli.options import debug_option, demangle_option, example, file_verb, object_option
from symd.cli.output import NO, printable
from symd.config import Limits
from symd.errors import BadQuery, LimitExceeded
from symd.model.addresses import Query
from symd.model.answers import Answer
from symd.query.syntax import parse_query

if TYPE_CHECKING:
    from symd.cli.demangle import Demangler

READ_BYTES = MAX_LINE_BYTES = 1 << 16
MISUSED = 2


@click.command(
    "symbolize",
    epilog=example(
        "symd symbolize program.bin vadd+0x1b0 '(.text.vadd)+432' '(#3)+0x20' 0x110\n"
        "cut -f1 samples.tsv | symd symbolize --json program.bin -"
    ),
)
@file_verb
@object_option
@debug_option
@demangle_option
@click.argument("queries", nargs=-1, required=True, metavar="QUERY... | -")
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    demangle: bool,
    queries: tuple[str, ...],
) -> int:
    """Turn addresses of FILE into source frames, innermost first.

    QUERY is ADDRESS, KERNEL+OFFSET, (SECTION)+OFFSET or (#INDEX)+OFFSET. "-" reads queries from standard input, one a
    line, and answers each as it comes. FILE may be "-" for standard input, or file://PATH#offset=N&size=N for a part of a
    file. Exit code 1: something that a query names does not exist.
    """
    if queries == ("-",) and file == "-":
        raise click.UsageError("the file and the queries cannot both come from standard input")
    asked = [] if queries == ("-",) else [parse_query(text) for text in queries]
    with _answering(file, server, limits, debug, path) as ask:
        lines = _json_lines() if as_json else _text_lines()
        session = Session(ask, lines, _demangler(limits) if demangle else None)
        if asked:
            with gc_frozen():  # the process ends after the answer; a session goes on and collects
                session.answer(queries, asked)
        else:
            session.follow(_arriving_lines(sys.stdin.fileno()))
    return session.finish()


Ask = Callable[[Sequence[Query]], Sequence[Answer]]
OutputLines = tuple[Callable[[str, Answer], str], Callable[[str, str], str]]
"""How the line of an answer is written, and that of a query that cannot be read with its error; both have the query's text first."""


@contextmanager
def _answering(file: str, server: str | None, limits: Limits, debug: str | None, path: str | None) -> Iterator[Ask]:
    """What answers: this process, as directly as it can, where it needs neither a daemon nor two files."""
    if server is None and debug is None and module_digest(file) is None:
        yield partial(OneFile(file, limits).symbolize, path=path)
        return
    from symd.cli.module import open_module  # noqa: PLC0415 - the engine is slow to import and not needed for one file

    with open_module(file, server, limits, debug) as module:
        yield partial(module.symbolizer.symbolize, module.digest, path=path)


def _demangler(limits: Limits) -> Demangler:
    from symd.cli.demangle import Demangler  # noqa: PLC0415 - few ask for it

    return Demangler(limits)


def _text_lines() -> OutputLines:
    return answer_text, lambda query, error: f"{printable(query)}: error: {printable(error)}\n"


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
        self._ask_module = ask
        self._answer_line, self._refusal_line = lines
        self._demangler = demangler

    def follow(self, batches: Iterator[Sequence[str]]) -> None:
        """Answer lines of text batch by batch; what cannot be read is answered by an error in its place."""
        for texts in batches:
            read = [(text, _parsed(text)) for text in texts if text]
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
        self.unanswered += answer.reason in UNANSWERED
        sys.stdout.write(self._answer_line(text, answer))

    def _refuse(self, text: str, error: BadQuery) -> None:
        self.unreadable += 1
        sys.stdout.write(self._refusal_line(text, str(error)))


def _parsed(text: str) -> Query | BadQuery:
    try:
        return parse_query(text)
    except BadQuery as error:
        return error


def _arriving_lines(handle: int) -> Iterator[list[str]]:
    """The lines of each piece that can be read without waiting for more, stripped."""
    rest = b""
    while piece := os.read(handle, READ_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise LimitExceeded(
                f"a line of more than {MAX_LINE_BYTES} bytes", where="standard input", hint="one query a line"
            )
        yield [_text(line) for line in lines]
    yield [_text(rest)]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()

"""A session: questions about one module, answered batch by batch; what was asked before is answered as before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

import click

from symd.cli import MISUSED
from symd.cli.answer_lines import AnswerLines
from symd.cli.answer_text import names_nothing
from symd.cli.garbage import gc_paused
from symd.cli.output import NO
from symd.cli.question_lines import addresses_in, line_text
from symd.errors import BadQuery
from symd.model.addresses import Query
from symd.model.answers import Answer, Answers, Reason
from symd.model.columns import U64
from symd.model.query_syntax import parse_query
from symd.model.written_locations import unusual

if TYPE_CHECKING:
    from symd.cli.demangle import Demangler

Ask = Callable[[Sequence[Query] | U64], Sequence[Answer]]
"""Asks a module: queries, or a column of object addresses."""
Pieces = tuple[str, ...]
"""What is written for an answer, put together when it is written."""
SINGLE_LINES = 64
"""So many new lines are read one by one: a column does not pay."""
_SAMPLE = 2048
"""Lines that show whether lines come again."""
_AT_ONCE = 1 << 17
"""Lines that are answered at a time, and new ones that are kept; fewer where answers are long."""
_FIRST = 1 << 12
"""Lines that are answered before it is known how long answers are."""
_WRITTEN_AT_ONCE = 1 << 13
"""Answers that are put together before they are written: their text fits the processor's caches."""
_BYTES_AT_ONCE = 1 << 26


class Session:
    """Answers questions and counts what went wrong. ``lines`` write the answers, with the names that ``demangler`` reads."""

    def __init__(self, ask: Ask, lines: AnswerLines, demangler: Demangler | None) -> None:
        self.unlike = False
        """Whether a name was asked for, and nothing has one like it."""
        self._ask = ask
        self._lines = lines
        self._demangler = demangler
        self._unanswered = 0
        self._unreadable = 0
        self._known: dict[bytes, bytes] = {}
        self._refused: set[bytes] = set()
        self._longest = 1
        self._step = _FIRST

    def answer(self, texts: Sequence[str], queries: Sequence[Query]) -> None:
        """Write the answers to queries."""
        sys.stdout.writelines(chain.from_iterable(self._written(texts, self._ask(queries))))

    def follow(self, batches: Iterator[Sequence[bytes]]) -> None:
        """Answer lines batch by batch. A line that cannot be read is answered by an error in its place; so is an empty one, which
        ``finish`` does not count."""
        sys.stdout.flush()
        out = sys.stdout.buffer
        for lines in batches:
            with gc_paused():
                for part in self._answered(lines):
                    out.write(part)
            out.flush()

    def finish(self) -> int:
        """The exit code: 2 when a query could not be read, 1 when one names what does not exist."""
        if self._unreadable:
            click.echo(
                f"symd: {self._unreadable} of the queries could not be read (see symd symbolize --help)", err=True
            )
            return MISUSED
        return NO if self._unanswered else 0

    def _answered(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        """The answers to lines, some at a time. Where most lines are new it does not pay to keep what is answered."""
        first = 0
        while first < len(lines):
            some = lines[first : first + min(self._step, max(1, _BYTES_AT_ONCE // self._longest))]
            first += len(some)
            sample = some[:_SAMPLE]
            if len(sample) > SINGLE_LINES and 2 * len(set(sample).difference(self._known)) > len(sample):
                written, refused = self._new(some)
                rows = iter(written)
                while text := "".join(chain.from_iterable(islice(rows, _WRITTEN_AT_ONCE))):
                    self._longest = max(self._longest, len(text) // _WRITTEN_AT_ONCE)
                    yield text.encode("utf-8", "backslashreplace")
            else:
                yield self._again(some)
                refused = self._refused
            self._unreadable += sum(line in refused for line in some) if refused else 0
            self._step = _AT_ONCE

    def _again(self, lines: Sequence[bytes]) -> bytes:
        """The answers to lines of which most were answered before."""
        known = self._known
        new = [line for line in dict.fromkeys(lines) if line not in known]
        if new:
            if len(known) > _AT_ONCE or self._longest * len(known) > _BYTES_AT_ONCE:
                known.clear()
                self._refused = set()
                new = list(dict.fromkeys(lines))
            written, refused = self._new(new)
            answered = ["".join(pieces).encode("utf-8", "backslashreplace") for pieces in written]
            known.update(zip(new, answered, strict=True))
            self._longest = max(self._longest, *map(len, answered))
            self._refused |= refused
        return b"".join([known[line] for line in lines])

    def _new(self, lines: Sequence[bytes]) -> tuple[Iterable[Pieces], set[bytes]]:
        """What is written for each line, and those lines that cannot be read; an empty one is none of these."""
        asked = addresses_in(lines) if len(lines) > SINGLE_LINES else None
        if asked is None:
            return self._read(lines)
        texts, column = asked
        return self._written(texts, self._ask(column)), set()

    def _read(self, lines: Sequence[bytes]) -> tuple[Iterable[Pieces], set[bytes]]:
        """``_new`` for lines of any kind."""
        texts = [line_text(line) for line in lines]
        read = [_parsed(text) for text in texts]
        queries = [query for query in read if not isinstance(query, BadQuery)]
        if len(queries) == len(lines):
            return self._written(texts, self._ask(queries)), set()
        good = [text for text, query in zip(texts, read, strict=True) if not isinstance(query, BadQuery)]
        answered = iter(self._written(good, self._ask(queries)) if good else ())
        written = [
            (self._refusal(text, query),) if isinstance(query, BadQuery) else next(answered)
            for text, query in zip(texts, read, strict=True)
        ]
        every = zip(lines, texts, read, strict=True)
        return written, {line for line, text, query in every if text and isinstance(query, BadQuery)}

    def _refusal(self, text: str, error: BadQuery) -> str:
        return self._lines.refusal(text, str(error) if text else "an empty line")

    def _written(self, texts: Sequence[str], answers: Sequence[Answer]) -> Iterable[Pieces]:
        """The lines of each answer, in pieces."""
        if not isinstance(answers, Answers):
            shown = self._readable(answers)
            return [(self._one(text, answer),) for text, answer in zip(texts, shown, strict=True)]
        written, odd = self._lines.answers(texts, answers), unusual(answers)
        if not odd:
            return written
        pieces = list(written)
        each: Sequence[Answer] = list(answers) if len(odd) > SINGLE_LINES else answers
        for number, answer in zip(odd, self._readable([each[number] for number in odd]), strict=True):
            pieces[number] = (self._one(texts[number], answer),)
        return pieces

    def _readable(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        return self._demangler.answers(answers) if self._demangler else answers

    def _one(self, text: str, answer: Answer) -> str:
        self.unlike |= answer.reason is Reason.UNKNOWN_KERNEL and not answer.candidates
        self._unanswered += names_nothing(answer)
        return self._lines.answer(text, answer)


def _parsed(text: str) -> Query | BadQuery:
    try:
        return parse_query(text)
    except BadQuery as error:
        return error

"""A session: questions about one module, answered batch by batch; what was asked before is answered as before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Protocol

from symd.cli.answer_lines import AnswerLines, elsewhere_note, may_be_elsewhere, names_nothing
from symd.cli.call_files import PROSE, standard_input_file
from symd.cli.output import MISUSED, NO
from symd.cli.question_lines import Lines, addresses_in, line_text
from symd.engine.files import WHERE_CUT_OFF, gc_paused
from symd.errors import BadQuery
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, Query, as_hexadecimal, has_decimal, parse_query
from symd.model.answers import Answer, Answers, Reason
from symd.model.columns import U64
from symd.model.compile_advice import compile_advice
from symd.model.rendered_answers import RenderedAnswers, encoded, unusual
from symd.model.summaries import NO_SECTIONS, KernelSummary, ObjectSummary
from symd.model.texts import plural
from symd.system.messages import complain

if TYPE_CHECKING:
    from symd.query.demangler import Demangler


class AskedKernels(Protocol):
    """What knows of a module's kernels."""

    def spirv_with(self, kernel: str) -> str:
        """The path of the first SPIR-V inside the module that has a kernel of that name; "" where none has."""

    def unread(self, path: str | None) -> str:
        """Why the debug data of the code object at ``path`` cannot be read or found, or, where ``path`` is None, why
        the module has no code object; "" where neither is so."""

    def described(self) -> Sequence[ObjectSummary]:
        """The code objects, as much of them as was opened."""


Ask = Callable[[Sequence[Query] | U64], Sequence[Answer]]
"""Asks a module: queries, or a column of object addresses."""
_UNREAD = (Reason.MALFORMED, Reason.NO_DEBUG_INFO)
"""Reasons of which the module may say more."""
SINGLE_LINES = 64
"""Up to this many new lines are read one by one; a column would not pay."""
_SAMPLE_LINES = 2048
"""Lines that show whether lines come again."""
_LINES_AT_ONCE = 1 << 18
"""Lines that are answered at a time; fewer where answers are long."""
_KNOWN_LINES_AT_ONCE = 1 << 17
"""Lines that are answered at a time where most were answered before."""
_KEPT_ANSWERS = 1 << 17
"""Lines whose answers are kept; fewer where answers are long."""
_FIRST_LINES = 1 << 10
"""Lines that are answered before it is known how long answers are."""
_ANSWERS_WRITTEN_AT_ONCE = 1 << 11
"""Answers that are put together before they are written: their text fits the processor's caches."""
_BYTES_AT_ONCE = 1 << 26
"""Bytes of lines and their answers that are held at a time."""
_FIRST_DEVICE_ADDRESS = 1 << 32
"""Code objects are smaller than that, and device addresses are larger."""
_SHOWN_PLACES = 3
"""Places that are named where an address may be an offset in them."""


class Session:
    """Answers questions and counts what went wrong. ``lines`` write the answers, with the names that ``demangler``
    reads."""

    def __init__(self, ask: Ask, lines: AnswerLines, demangler: Demangler | None) -> None:
        self.unlike = ""
        """The first query that asked for a name where nothing has one like it."""
        self.misspelled: tuple[str, list[str]] | None = None
        """The name in the first query that asked for a function which nothing is called, and the names like it."""
        self._is_prose = False
        """Whether a line of standard input that is no query has several words, as those of logs have."""
        self._decimal = ""
        """The first query of the command line with a decimal offset that may be meant as a hexadecimal one."""
        self.contradictory = ""
        """The first query of the command line whose place is CONTRADICTORY."""
        self._outside: list[str] = []
        self._beyond: ByKernel | None = None
        self._elsewhere: tuple[ByKernel, Answer] | None = None
        """The first query of the command line whose offset lies outside the code of its function."""
        self._outside_address: int | None = None
        self._unread: str | None = None
        self._asked_without_object = False
        self._ask = ask
        self._lines = lines
        self._demangler = demangler
        self._unanswered = 0
        self._unreadable = 0
        self._known: dict[bytes, bytes] = {}
        self._refused: set[bytes] = set()
        self._longest = 1
        self._step = _FIRST_LINES

    def answer(self, texts: Sequence[str], queries: Sequence[Query]) -> None:
        """Write the answers to queries."""
        answers = self._ask(queries)
        for text, query, answer in zip(texts, queries, answers, strict=True) if len(texts) <= SINGLE_LINES else ():
            if not self._decimal and isinstance(query, ByKernel) and has_decimal(text) and answer.frames:
                self._decimal = text
            if not self.contradictory and answer.reason is Reason.CONTRADICTORY:
                self.contradictory = text
            if self._elsewhere is None and isinstance(query, ByKernel) and may_be_elsewhere(query, answer):
                self._elsewhere = query, answer
        written = self._rendered(texts, answers)
        sys.stdout.write(written.text(0, len(written)).decode())

    def follow(self, batches: Iterator[Sequence[bytes]]) -> bool:
        """Answer lines batch by batch, and tell whether any came. A line that cannot be read is answered by an error in
        its place; so is an empty one, which ``finish`` does not count."""
        sys.stdout.flush()
        out = sys.stdout.buffer
        any_came = False
        for lines in batches:
            any_came = True
            with gc_paused():
                for part in self._answer(lines):
                    out.write(part)
            out.flush()
        return any_came

    def meant_hexadecimal(self) -> str | None:
        """A query as it should have been written, with hexadecimal digits: one of the first queries whose decimal
        number lies outside the text, where the same digits read as hexadecimal lie inside. None where there is no
        such query."""
        places = list(map(as_hexadecimal, self._outside))
        answers = self._ask(list(map(parse_query, places))) if places else ()
        inside = (
            place for place, answer in zip(places, answers, strict=True) if answer.reason is not Reason.OUTSIDE_TEXT
        )
        return next(inside, None)

    def say_what_was_meant(self, file: str, kernels: Callable[[], AskedKernels], path: str | None = None) -> None:
        """Tell the user how the names of ``file`` are found, where one that was asked for is like none, how large a
        kernel is that an offset lies behind, which number may have been meant, and why debug data is not read.
        ``kernels`` is called where that is wanted; ``path`` is the code object that was asked."""
        hints = [
            _log_hint(file) if self._is_prose else "",
            self._unread_hint(kernels),
            self._unlike_hint(file, kernels, path),
            self._decimal_hint() or self._beyond_hint(kernels, path) or self._small_hint(kernels, path),
            self._elsewhere_hint(kernels, path),
            self._either_hint() if is_read_by_a_person() else "",
        ]
        for hint in filter(None, hints):
            complain(hint)

    def _unread_hint(self, kernels: Callable[[], AskedKernels]) -> str:
        if self._unread is not None:
            why = kernels().unread(self._unread)
            if not why:
                advice = compile_advice(kernels().described(), self._unread) if is_read_by_a_person() else ()
                return f"there is no debug info: {'; '.join(advice)}" if advice else ""
            return f"{why}; {WHERE_CUT_OFF}" if why.startswith(NO_SECTIONS) else why
        return kernels().unread(None) if self._asked_without_object else ""

    def _unlike_hint(self, file: str, kernels: Callable[[], AskedKernels], path: str | None) -> str:
        if self._is_prose or not self.unlike:
            return ""

        query = parse_query(self.unlike)
        spirv = kernels().spirv_with(query.kernel) if path is None and isinstance(query, ByKernel) else ""
        if spirv:
            return f"SPIR-V alone has that: symd symbolize {quote(file)} --object {quote(spirv)} {quote(self.unlike)}"
        if isinstance(query, ByKernel) and query.kernel.startswith("."):
            place = f"({query.kernel})+{self.unlike.rpartition('+')[2].strip()}"
            return f"put section names in parentheses: symd symbolize {quote(file)} {quote(place)}"
        if isinstance(query, ByKernel) and " " in query.kernel.split("(")[0].strip():
            return _log_hint(file)
        said = f"there is no kernel or function of that name; symd names {quote(file)} '*' shows all names"
        if not isinstance(query, ByKernel):
            return said
        return f"{said}, symd locate {quote(file)} {quote(query.kernel)} finds one that is only inlined"

    def _beyond_hint(self, kernels: Callable[[], AskedKernels], path: str | None) -> str:
        query = self._beyond
        sizes = sorted({each.size for each in _kernels(kernels(), path) if each.name == query.kernel}) if query else []
        if query is None or not sizes:
            return ""
        if sizes == [0]:
            return f"{query.kernel} has no code: its symbol has size 0"
        several = " or ".join(f"{size} ({size:#x})" for size in sizes)
        return f"{query.kernel} is {several} bytes long; {query.offset:#x} is past the end"

    def _elsewhere_hint(self, kernels: Callable[[], AskedKernels], path: str | None) -> str:
        if self._elsewhere is None:
            return ""
        query, answer = self._elsewhere
        (begin,) = self._ask([ByKernel(query.kernel, KernelOffset(0))])
        return elsewhere_note(query, answer, begin, _kernels(kernels(), path))

    def _decimal_hint(self) -> str:
        meant = self.meant_hexadecimal()
        if not meant:
            return ""

        number = meant.rpartition("0x")[2]
        return f"{number} is decimal and lies outside the text; did you mean {quote(meant)}?"

    def _either_hint(self) -> str:
        """What a decimal offset would be in hexadecimal, where the function has that too."""
        if not self._decimal:
            return ""
        other = as_hexadecimal(self._decimal)
        (answer,) = self._ask([parse_query(other)])
        return f"{self._decimal} is decimal; {quote(other)} is another place" if answer.frames else ""

    def _small_hint(self, kernels: Callable[[], AskedKernels], path: str | None) -> str:
        """Where an address outside every text may be an offset, as the tools of some vendors print them."""
        if self._outside_address is None:
            return ""
        offset = self._outside_address
        if offset >= _FIRST_DEVICE_ADDRESS:
            return f"{offset:#x} lies outside the text; is it a device address? Subtract the load address, or use --context"
        within = [each for each in _kernels(kernels(), path) if offset < each.size]
        places = [quote(f"({each.section or f'#{each.section_index}'})+{offset:#x}") for each in within]
        places += [quote(f"{each.name}+{offset:#x}") for each in within]
        meant = list(dict.fromkeys([*places[:1], *places[len(within) :]]))
        if not meant:
            where = self._where_kernels_are(_kernels(kernels(), path))
            return f"{offset:#x} lies outside the text; {where}" if where else ""
        shown = " or ".join(meant[:_SHOWN_PLACES]) + (", ..." if len(meant) > _SHOWN_PLACES else "")
        return f"{offset:#x} lies outside the text; did you mean {shown}?"

    def _where_kernels_are(self, kernels: Sequence[KernelSummary]) -> str:
        """The object addresses of the kernels; "" where there are none, too many, or several of one address."""
        named = {each.name: each for each in kernels if each.size}
        if not 0 < len(named) == len(kernels) <= SINGLE_LINES:
            return ""
        answers = self._ask([ByKernel(name, KernelOffset(0)) for name in named])
        begins = [answer.address for answer in answers if answer.address is not None]
        if not len(set(begins)) == len(begins) == len(named):
            return ""
        end = max(begin + each.size for begin, each in zip(begins, named.values(), strict=True))
        return f"{plural(len(named), 'its kernel lies', 'its kernels lie')} at {min(begins):#x} to {end - 1:#x}"

    def finish(self) -> int:
        """The exit code: 2 when a query could not be read, 1 when one names what does not exist."""
        if self._unreadable:
            complain(f"{self._unreadable} of the queries could not be read (see symd symbolize --help)")
            return MISUSED
        return NO if self._unanswered else 0

    def _answer(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        """The answers to lines, some at a time. Where most lines are new it does not pay to keep what is answered."""
        first = 0
        while first < len(lines):
            count = min(self._step, max(1, _BYTES_AT_ONCE // self._longest))
            sample = lines[first : first + min(count, _SAMPLE_LINES)]
            if len(sample) > SINGLE_LINES and 2 * len(set(sample).difference(self._known)) > len(sample):
                stop = first + count
                some = lines.part(first, stop) if isinstance(lines, Lines) else lines[first:stop]
                written, refused = self._new(some)
                for start in range(0, len(some), _ANSWERS_WRITTEN_AT_ONCE):
                    text = written.text(start, start + _ANSWERS_WRITTEN_AT_ONCE)
                    self._longest = max(self._longest, len(text) // _ANSWERS_WRITTEN_AT_ONCE)
                    yield text
            else:
                if isinstance(lines, Lines):
                    lines = lines[:]  # all at once, as none of their addresses is read
                some = lines[first : first + min(count, _KNOWN_LINES_AT_ONCE)]
                for start in range(0, len(some), _ANSWERS_WRITTEN_AT_ONCE):
                    yield self._again(some, start, start + _ANSWERS_WRITTEN_AT_ONCE)
                refused = self._refused
            self._unreadable += sum(line in refused for line in some) if refused else 0
            first += len(some)
            self._step = _LINES_AT_ONCE

    def _again(self, lines: Sequence[bytes], start: int, stop: int) -> bytes:
        """The answers to the lines from ``start`` to ``stop``, of which most were answered before."""
        try:
            return b"".join(map(self._known.__getitem__, lines[start:stop]))
        except KeyError:
            self._learn(lines)
        return b"".join(map(self._known.__getitem__, lines[start:stop]))

    def _learn(self, lines: Sequence[bytes]) -> None:
        """Keep the answers to lines, and forget others where there are many."""
        known = self._known
        new = [line for line in dict.fromkeys(lines) if line not in known]
        if len(known) > _KEPT_ANSWERS or self._longest * len(known) > _BYTES_AT_ONCE:
            known.clear()
            self._refused = set()
            new = list(dict.fromkeys(lines))
        written, refused = self._new(new)
        answered = written.each()
        known.update(zip(new, answered, strict=True))
        self._longest = max(self._longest, *map(len, answered))
        self._refused |= refused

    def _new(self, lines: Sequence[bytes]) -> tuple[RenderedAnswers, set[bytes]]:
        """What is written for each line, and those lines that cannot be read; an empty one is none of these."""
        column = addresses_in(lines) if len(lines) > SINGLE_LINES else None
        if column is None:
            return self._read(lines)
        answers = self._ask(column)
        if isinstance(answers, Answers):
            return self._in_columns(lines, lambda number: line_text(lines[number]), answers), set()
        return self._rendered([line_text(line) for line in lines], answers), set()

    def _read(self, lines: Sequence[bytes]) -> tuple[RenderedAnswers, set[bytes]]:
        """``_new`` for lines of any kind."""
        texts = [line_text(line) for line in lines]
        read = [_parsed(text) for text in texts]
        queries = [query for query in read if not isinstance(query, BadQuery)]
        if len(queries) == len(lines):
            return self._rendered(texts, self._ask(queries)), set()
        good = [text for text, query in zip(texts, read, strict=True) if not isinstance(query, BadQuery)]
        answered = iter(self._rendered(good, self._ask(queries)).each() if good else ())
        written, unreadable = list[bytes](), set[bytes]()
        for line, text, query in zip(lines, texts, read, strict=True):
            if isinstance(query, BadQuery):
                written.append(b"".join(encoded([self._lines.refusal(text, str(query) if text else "an empty line")])))
                unreadable |= {line} if text else set()
                self._is_prose = self._is_prose or PROSE.search(text) is not None
            else:
                written.append(next(answered))
        return RenderedAnswers([written], len(written)), unreadable

    def _rendered(self, texts: Sequence[str], answers: Sequence[Answer]) -> RenderedAnswers:
        """The lines of each answer."""
        if len(texts) + len(self._outside) <= SINGLE_LINES:
            outside = [text for text, answer in zip(texts, answers, strict=True) if _is_outside(answer)]
            self._outside += filter(has_decimal, outside)
            queries = list(map(_parsed, outside))
            self._beyond = self._beyond or next((each for each in queries if isinstance(each, ByKernel)), None)
            if self._outside_address is None:
                self._outside_address = next((each.address for each in queries if isinstance(each, ByAddress)), None)
        if isinstance(answers, Answers):
            return self._in_columns(encoded(map(self._lines.query, texts)), texts.__getitem__, answers)
        shown = zip(texts, self._readable(answers), strict=True)
        return RenderedAnswers([encoded(self._one(text, answer) for text, answer in shown)], len(texts))

    def _in_columns(self, queries: Sequence[bytes], text: Callable[[int], str], answers: Answers) -> RenderedAnswers:
        """The lines of each answer to queries as they are written; ``text`` gives what was typed of one."""
        self._notice_first(answers)
        columns, odd = self._lines.answers(queries, answers), unusual(answers)
        some: Sequence[Answer] = list(answers) if len(odd) > SINGLE_LINES else answers
        shown = zip(odd, self._readable([some[number] for number in odd]), strict=True)
        instead = {number: self._one(text(number), answer) for number, answer in shown}
        return RenderedAnswers(columns, len(queries), dict(zip(instead, encoded(instead.values()), strict=True)))

    def _notice_first(self, answers: Answers) -> None:
        """``_notice`` the first of each reason that the module explains."""
        reasons = answers.locations.reason[answers.location]
        for reason in (*_UNREAD, Reason.OUTSIDE_TEXT):
            given = reasons == reason
            if given.any():
                self._notice(answers[int(given.argmax())])

    def _notice(self, answer: Answer) -> None:
        self._asked_without_object = self._asked_without_object or answer.path is None
        if answer.reason in _UNREAD and self._unread is None:
            self._unread = answer.path

    def _readable(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        return self._demangler.answers(answers) if self._demangler else answers

    def _one(self, text: str, answer: Answer) -> str:
        if not self.unlike and answer.reason is Reason.UNKNOWN_KERNEL and not answer.candidates:
            self.unlike = text
        if self.misspelled is None and answer.reason is Reason.UNKNOWN_KERNEL and answer.candidates:
            query, meant = _parsed(text), [each.function for each in answer.candidates if each.function]
            self.misspelled = (query.kernel, meant) if isinstance(query, ByKernel) and meant else None
        self._notice(answer)
        self._unanswered += names_nothing(answer)
        return self._lines.answer(text, answer)


def _is_outside(answer: Answer) -> bool:
    """Whether it is a query's number that lies outside the text."""
    return answer.reason is Reason.OUTSIDE_TEXT and not answer.candidates


def _kernels(asked: AskedKernels, path: str | None) -> list[KernelSummary]:
    """The kernels of the code object at ``path``, or of all but SPIR-V inside a container."""
    meant = (each for each in asked.described() if (not each.is_compiler_input if path is None else each.path == path))
    return [own for each in meant for own in each.kernels]


def _log_hint(file: str) -> str:
    """What is typed for a log, which standard input may be."""
    return f"is this a log? symd annotate -m {quote(file)} {quote(standard_input_file() or 'LOG')} adds the lines to it"


def is_read_by_a_person() -> bool:
    return sys.stderr.isatty()


def _parsed(text: str) -> Query | BadQuery:
    try:
        return parse_query(text)
    except BadQuery as error:
        return error

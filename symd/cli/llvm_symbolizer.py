"""``symd llvm-symbolizer``: LLVM's command line and its answers, for GPU modules; for programs of the host LLVM's own
tool answers (llvm/docs/CommandGuide/llvm-symbolizer.rst)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Self

import click

from symd.cli.call_files import files_among
from symd.cli.drop_ins import (
    KIND,
    FunctionNames,
    GpuModule,
    StyledQuestion,
    StyleOptions,
    Symbolize,
    Written,
    WrittenFrame,
    become,
    demangler,
    function_frames,
    gnu_text,
    gpu_module,
    json_text,
    json_value,
    llvm_json,
    llvm_text,
    options_of_symbolize,
    original,
    readable,
    symbolize_instead,
    written_frames,
)
from symd.cli.options import example
from symd.cli.output import printable, write_raw
from symd.cli.question_lines import RepeatedLines
from symd.config import DEFAULT_LIMITS
from symd.errors import InvalidInput, SymdError
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress, Query
from symd.model.answers import Answer, Reason
from symd.system.process.programs import Dialogue, answer_of

NAME = "llvm-symbolizer"
STYLES: Mapping[str, Written] = {"LLVM": llvm_text, "GNU": gnu_text, "JSON": llvm_json}


class SymbolizerOptions(NamedTuple):
    """What was asked for. ``original`` are the options as they were given, without ``module`` and questions."""

    module: str = ""
    style: str = "LLVM"
    options: StyleOptions = StyleOptions()
    demangle: bool = True
    adjust: int = 0
    questions: tuple[str, ...] = ()
    original: tuple[str, ...] = ()
    foreign: bool = False
    """Whether an option is given that only LLVM's tool knows."""


@click.command(
    NAME,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},  # -h would be found in -f=short
    epilog=example("symd llvm-symbolizer -e kernel.co --output-style=JSON 0x1904"),
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> int:
    """Answer like llvm-symbolizer. For anything that is not a GPU module, run the tool itself.

    \b
    -e, --obj FILE          the module; without it, each input line names one
    -a, -p, -s              show addresses; one line per frame; no folders
    -f=none|short|linkage   which function names to show
    -i, --no-inlines        with or without inlined frames
    -C, --no-demangle       show names as in the source, or mangled
    --adjust-vma=N          subtract N from each address
    --output-style=LLVM|GNU|JSON
    --print-source-context-lines=N
    """
    line, known = parse(arguments), {}
    if line.foreign and (meant := _with_symds_options(arguments)):
        raise meant
    if line.module and not line.foreign:
        known[line.module] = _opened(line.module)
    if line.foreign or None in known.values():
        become(NAME, arguments)
    with Answering(line, known) as answering:
        if line.questions:
            write_raw(answering.all_at_once(line.questions))
        else:
            RepeatedLines(answering.each, answering.theirs).follow(sys.stdin.fileno())
        return answering.code


def _with_symds_options(arguments: Sequence[str]) -> click.UsageError | None:
    """The error of a call with options of symd symbolize, which LLVM's tool would not know; None where it has none."""
    names = (*_VALUED, *_ALIASES, *_STYLE, *_OTHER)
    own, others = options_of_symbolize(arguments, [each.lstrip("-") for each in names])
    line = parse(others)
    if not own or line.foreign:
        return None
    asked = [part for each in line.questions for part in KIND.sub("", each).split()]
    file = [] if files_among(asked) and not line.module else [line.module or "FILE"]
    return symbolize_instead(NAME, own, [*(["-C"] if line.demangle else []), *file, *asked])


_MODULE = frozenset(("-e", "--obj", "--exe", "-obj", "-exe"))
_VALUED = _MODULE | {"--output-style", "--adjust-vma", "--print-source-context-lines"}
_LETTERS = frozenset("aCfips")
"""Options of one letter without a value, which may be together behind one dash."""


def parse(arguments: Sequence[str]) -> SymbolizerOptions:
    """The command line, as LLVM's parser takes it: long options with one dash or two, values behind "=" or apart."""
    line, rest = SymbolizerOptions(), list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            line = line._replace(questions=(*line.questions, word))
            continue
        if word == "--":
            line = line._replace(questions=(*line.questions, *rest))
            break
        if len(word) > 2 and word[0] == "-" and _LETTERS.issuperset(word[1:]):
            rest[:0] = [f"-{letter}" for letter in word[1:]]
            continue
        name, has_value, value = word.partition("=")
        if name in _VALUED and not has_value:
            if not rest:
                raise click.UsageError(f"{word} wants a value")
            value = rest.pop(0)
            word = f"{name}={value}"
        if name in _MODULE:
            line = line._replace(module=value)
            continue
        line = _with(line, name, value)._replace(original=(*line.original, word))
    return line


_NO = ("false", "0")
_ALIASES = {
    "addresses": "a",
    "print-address": "a",
    "inlines": "i",
    "inlining": "i",
    "pretty-print": "p",
    "basenames": "s",
    "functions": "f",
    "demangle": "C",
}
_STYLE: Mapping[str, Callable[[StyleOptions, str], StyleOptions]] = {
    "a": lambda options, _: options._replace(addresses=True),
    "i": lambda options, value: options._replace(inlines=value not in _NO),
    "p": lambda options, _: options._replace(pretty=True),
    "s": lambda options, _: options._replace(basenames=True),
    "f": lambda options, value: options._replace(functions=FunctionNames(value or "linkage")),
    "no-inlines": lambda options, _: options._replace(inlines=False),
    "print-source-context-lines": lambda options, value: options._replace(context_lines=int(value)),
}
_OTHER: Mapping[str, Callable[[SymbolizerOptions, str], SymbolizerOptions]] = {
    "output-style": lambda line, value: line._replace(style=_style(value)),
    "adjust-vma": lambda line, value: line._replace(adjust=int(value, 0)),
    "C": lambda line, value: line._replace(demangle=value not in _NO),
    "no-demangle": lambda line, _: line._replace(demangle=False),
    "no-debuginfod": lambda line, _: line,
    "no-untag-addresses": lambda line, _: line,
}


def _style(value: str) -> str:
    if value not in STYLES:
        raise ValueError(value)
    return value


def _with(line: SymbolizerOptions, name: str, value: str) -> SymbolizerOptions:
    """``name`` has its dashes. What only LLVM's tool understands makes the command line its own."""
    known = name.lstrip("-")
    known = _ALIASES.get(known, known)
    try:
        if known in _STYLE:
            return line._replace(options=_STYLE[known](line.options, value))
        return _OTHER[known](line, value)
    except (KeyError, ValueError):
        return line._replace(foreign=True)


class Question(NamedTuple):
    """One line: what is asked of which module. ``module`` is "" where the line cannot be read."""

    text: str
    kind: str
    module: str
    place: str


_KINDS = ("CODE", "DATA", "FRAME", "SYMBOL")
_SPACE = " \t\r\n"


def read_question(text: str, module: str) -> Question:
    """``[KIND] [MODULE] PLACE``: the module, which may be in quotes, only where the command line names none."""
    kind, rest = "CODE", text.strip(_SPACE)
    first, _, after = rest.partition(" ")
    if first in _KINDS:
        kind, rest = first, after.lstrip(_SPACE)
    if not module:
        module, rest = _module_first(rest)
    place = rest.split(maxsplit=1)[0] if rest.strip() else ""
    return Question(text, kind, module, place)


def _module_first(rest: str) -> tuple[str, str]:
    rest = rest.removeprefix("FILE:")
    if rest[:1] in ('"', "'"):
        name, closed, after = rest[1:].partition(rest[0])
        return (name, after.lstrip(_SPACE)) if closed else ("", "")
    name, _, after = rest.partition(" ")
    return (name, after.lstrip(_SPACE)) if after.strip() else ("", "")


_PLAIN_QUESTION = re.compile(r"""(?:(?:CODE|DATA|FRAME) )?(?:"[^"\0]+"|[^\s"'\0]+) (?P<number>\S+)""", re.ASCII)
"""What every version of LLVM's tool reads: an address, behind a module's name."""
_LONGEST_LINE = 1000


def _number(text: str) -> int | None:
    """A number as LLVM's StringRef::getAsInteger reads it with radix 0; None for what is no number of 64 bits."""
    if not (text.isascii() and text.isalnum()):  # Python takes signs, and digits of other scripts
        return None
    try:
        lower = text.lower()
        octal = len(lower) > 1 and lower[0] == "0" and lower[1:].isdigit()
        value = int(lower, 8) if octal else int(lower, 0)
    except ValueError:
        return None
    return value if value < 1 << 64 else None


class Answering:
    """Answers questions about any number of modules."""

    def __init__(self, line: SymbolizerOptions, known: Mapping[str, Symbolize | None]) -> None:
        """``known`` modules are open, or not symd's (None)."""
        self.code = 0
        self._line = line
        self._modules = dict(known)
        self._demangler = demangler(line.options) if line.demangle else None
        self._dialogue: Dialogue | None = None

    def all_at_once(self, texts: Sequence[str]) -> str:
        """The questions of the command line; JSON is one list of all."""
        if self._line.style != "JSON":
            found = zip(texts, self.each(texts), strict=True)
            return "".join(self.theirs(text) if mine is None else mine for text, mine in found)
        values = [
            json.loads(self._theirs(question)) if mine is None else json_value(*mine)
            for question, mine in self._shared_out(texts)
        ]
        return json_text(values, self._line.options) + "\n"

    def each(self, texts: Sequence[str]) -> list[str | None]:
        """The answer to each line; None where LLVM's tool is to be asked."""
        write, options = STYLES[self._line.style], self._line.options
        return [None if mine is None else write(*mine, options) for _, mine in self._shared_out(texts)]

    def theirs(self, text: str) -> str:
        """What LLVM's tool says of a line."""
        return self._theirs(read_question(text, self._line.module))

    def _shared_out(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[Question, tuple[StyledQuestion, list[WrittenFrame]] | None]]:
        """Each question with symd's answer, or None where LLVM's tool is to be asked."""
        questions = self._read(texts)
        mine = [self._is_mine(each) for each in questions]
        found = self._found([each for each, is_mine in zip(questions, mine, strict=True) if is_mine])
        for question, is_mine in zip(questions, mine, strict=True):
            yield question, next(found) if is_mine else None

    def _read(self, texts: Sequence[str]) -> list[Question]:
        return [read_question(text, self._line.module) for text in texts]

    def _is_mine(self, question: Question) -> bool:
        return not question.module or (
            question.kind in ("CODE", "SYMBOL") and self._module(question.module) is not None
        )

    def _module(self, name: str) -> Symbolize | None:
        if name not in self._modules:
            try:
                self._modules[name] = _symbolize(gpu_module(name, DEFAULT_LIMITS))
            except SymdError as error:
                click.echo(printable(f"{NAME}: error: {error}"), err=True)
                self.code = 1
                self._modules[name] = _knows_nothing
        return self._modules[name]

    def _found(self, questions: Sequence[Question]) -> Iterator[tuple[StyledQuestion, list[WrittenFrame]]]:
        """Questions about one module are asked together."""
        answers: dict[int, Answer] = {}
        for module in dict.fromkeys(each.module for each in questions if each.module):
            numbers = [number for number, each in enumerate(questions) if each.module == module]
            queries = [self._query(questions[number]) for number in numbers]
            symbolize = self._module(module)
            assert symbolize is not None  # noqa: S101 - the others are not asked here
            asked = [(number, query) for number, query in zip(numbers, queries, strict=True) if query is not None]
            if asked:
                found = readable(list(symbolize([query for _, query in asked], as_written=True)), self._demangler)
                answers.update(zip((number for number, _ in asked), found, strict=True))
        for number, question in enumerate(questions):
            yield self._place(question, answers.get(number))

    def _place(self, question: Question, answer: Answer | None) -> tuple[StyledQuestion, list[WrittenFrame]]:
        address = _number(question.place)
        asked = StyledQuestion(question.module, address or 0, "" if address is not None else question.place)
        if answer is None:
            return asked, []
        own_name = address is None or self._takes_symbols()
        return asked, (function_frames if own_name else written_frames)(answer, self._line.options)

    def _takes_symbols(self) -> bool:
        """Whether the name is that of the symbol table, which knows no inlined calls."""
        options = self._line.options
        return not options.inlines and options.functions is FunctionNames.LINKAGE and self._line.style != "GNU"

    def _query(self, question: Question) -> Query | None:
        address = _number(question.place)
        if address is not None:
            return ByAddress(ObjectAddress((address - self._line.adjust) % (1 << 64)))
        name, plus, offset = question.place.rpartition("+")
        number = _number(offset) if plus else None
        if number is not None:
            return ByKernel(name, KernelOffset(number))
        return ByKernel(question.place, KernelOffset(0)) if question.place else None

    def _theirs(self, question: Question) -> str:
        """What LLVM's tool says."""
        named = question.text if not self._line.module else f'{question.kind} "{question.module}" {question.place}'
        if self._line.style == "GNU" or not _ends_visibly(named):
            return answer_of(self._command, named)
        if self._dialogue is None:
            self._dialogue = Dialogue(self._command)
        return self._dialogue.ask(named, _ends_json if self._line.style == "JSON" else _ends_text)

    @cached_property
    def _command(self) -> list[str]:
        """LLVM's tool, looked for once, with the options that were given. Raises ToolMissing."""
        return [original(NAME), *self._line.original]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._dialogue is not None:
            self._dialogue.__exit__(None, None, None)


def _ends_visibly(line: str) -> bool:
    """Whether the tool's answer to ``line`` has an end that can be seen. LLVM before 19 says a line that it cannot read
    once more and nothing behind it, and reads 1,023 bytes as a line; GNU's style has no ends at all."""
    plain = _PLAIN_QUESTION.fullmatch(line)
    return (
        plain is not None
        and _number(plain["number"]) is not None
        and len(line.encode(errors="surrogateescape")) < _LONGEST_LINE
    )


def _ends_text(line: bytes) -> bool:
    return line == b"\n"


def _ends_json(line: bytes) -> bool:
    return line.rstrip() == b"}" or (line.startswith(b"{") and line.rstrip().endswith(b"}"))


def _symbolize(module: GpuModule | None) -> Symbolize | None:
    return None if module is None else module.symbolize


def _knows_nothing(queries: Sequence[Query], *, as_written: bool) -> list[Answer]:  # noqa: ARG001 - as a module is asked
    return [Answer(Reason.MALFORMED) for _ in queries]


def _opened(module: str) -> Symbolize | None:
    try:
        return _symbolize(gpu_module(module, DEFAULT_LIMITS))
    except InvalidInput:
        return None  # the original says what is wrong with the file

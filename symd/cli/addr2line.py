"""``symd addr2line``: the options and the answers of binutils' addr2line, for GPU modules; for programs of the host
addr2line itself answers (binutils/doc/binutils.texi)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from getopt import GetoptError, gnu_getopt
from shlex import quote
from typing import Any, NamedTuple

import click

from symd.cli.call_files import call_text
from symd.cli.drop_ins import (
    KIND,
    FunctionNames,
    GpuModule,
    StyledQuestion,
    StyleOptions,
    Symbolize,
    become,
    binutils_text,
    gpu_module,
    options_of_symbolize,
    readable,
    symbolize_instead,
    written_frames,
)
from symd.cli.options import example
from symd.cli.output import write_raw
from symd.cli.question_lines import RepeatedLines
from symd.config import DEFAULT_LIMITS
from symd.engine.files.opened_file import SmallFile
from symd.errors import InvalidInput
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, Query, SectionOffset
from symd.model.answers import Answer, Reason
from symd.query.demangler import Demangler
from symd.system.messages import complain

NAME = "addr2line"
_SHORT = "ab:Ce:fij:psrRhHvV"
_LONG = [
    "addresses", "target=", "demangle", "exe=", "functions", "inlines", "section=", "pretty-print", "basenames",
    "no-recurse-limit", "recurse-limit", "help", "version",
]  # fmt: skip
_DEFAULT_FILE = "a.out"


class Addr2lineOptions(NamedTuple):
    """What was asked for; ``foreign`` options are answered by addr2line itself."""

    file: str = _DEFAULT_FILE
    section: str | None = None
    options: StyleOptions = StyleOptions(functions=FunctionNames.NONE, inlines=False)
    demangle: bool = False
    addresses: tuple[str, ...] = ()
    foreign: bool = False


@click.command(
    NAME,
    context_settings={
        "ignore_unknown_options": True,
        "help_option_names": ["--help"],
    },  # -h would be found in -eshade.co
    epilog=example("symd addr2line -fip -e kernel.co 0x1904 1910"),
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Answer like binutils' addr2line: addresses are hexadecimal; FUNCTION+OFFSET is accepted too. For anything that is
    not a GPU module, run addr2line itself.

    \b
    -e, --exe FILE          the module (a.out)
    -j, --section NAME      addresses count from the beginning of this section
    -f, -C                  show functions; show names as in the source
    -i                      show inlined calls
    -a, -p, -s              show addresses; one line per frame; no folders
    """
    line = parse(arguments)
    if line.foreign and (meant := _with_symds_options(arguments)):
        raise meant
    module = None if line.foreign else _opened(line, arguments)
    if module is None:
        become(NAME, arguments)
    demangler = Demangler() if line.demangle else None
    doubts = _Doubts(line, module)
    if line.addresses:
        write_raw("".join(answers(line, module.symbolize, line.addresses, demangler, doubts)))
        return
    answer_each = partial(answers, line, module.symbolize, demangler=demangler, doubts=doubts)
    RepeatedLines(answer_each).follow(sys.stdin.fileno())


def _with_symds_options(arguments: Sequence[str]) -> click.UsageError | None:
    """The error of a call with options of symd symbolize, which addr2line would not know; None where it has none."""
    own, others = options_of_symbolize(arguments, [each.rstrip("=") for each in _LONG])
    line = parse(others)
    if not own or line.foreign:
        return None
    file = "FILE" if line.file == _DEFAULT_FILE and not os.path.lexists(line.file) else line.file
    queries = [str(_query(line, KIND.sub("", text))) for text in line.addresses]
    return symbolize_instead(NAME, own, [*(["-C"] if line.demangle else []), file, *queries])


def _opened(line: Addr2lineOptions, arguments: Sequence[str]) -> GpuModule | None:
    try:
        return gpu_module(line.file, DEFAULT_LIMITS)
    except InvalidInput as error:
        if line.file == _DEFAULT_FILE and not os.path.lexists(line.file):
            first = "".join(line.addresses[:1])
            called = ["-e", *([] if os.path.isfile(first) else ["FILE"])]  # noqa: PTH113 - pathlib is slow to load
            words = [part for word in arguments for part in ([*called, word] if word == first else [word])]
            said = "" if not first else f": {call_text([NAME, *words])}"
            error.hint = f"-e FILE names the module; without it that is a.out{said}"
        raise


class _Doubts:
    """Says on standard error, once, that an answer is as the debug data has it and not as symd would give it. Not of
    large files, which would be gone through again."""

    def __init__(self, line: Addr2lineOptions, module: GpuModule) -> None:
        self._line = line
        self._symbolize = module.symbolize if isinstance(module, SmallFile) else None

    def say(self, queries: Sequence[Query], written: Sequence[Answer]) -> None:
        """Look at some answers, which are ``written`` as the debug data has them."""
        options = self._line.options
        if self._symbolize is None or not any(answer.frames for answer in written):
            return
        for query, answer, judged in zip(queries, written, self._symbolize(queries), strict=True):
            shown, certain = ([each[:3] for each in written_frames(one, options)] for one in (answer, judged))
            if judged.reason in _DOUBTFUL and shown != certain:
                self._symbolize = None
                asked = f"{quote(self._line.file)} {quote(str(query))}"
                complain(
                    f"{query}: the debug data contradicts itself here ({judged.reason.name}), and the line may be wrong;"
                    f" symd symbolize {asked} says what is certain"
                )
                return


_DOUBTFUL = (Reason.CONTRADICTORY, Reason.INFERRED)
"""Reasons of answers that are not as the debug data has them."""


def parse(arguments: Sequence[str]) -> Addr2lineOptions:
    """The command line, as getopt_long takes it: options may be behind addresses, short ones together."""
    styled = [re.sub(r"^--demangle=.*", "--demangle", each) for each in arguments]
    try:
        found, addresses = gnu_getopt(styled, _SHORT, _LONG)
    except GetoptError:
        return Addr2lineOptions(foreign=True)  # addr2line says what is wrong
    line = Addr2lineOptions(addresses=tuple(addresses))
    for name, value in found:
        bare = name.lstrip("-")
        if change := _CHANGES.get(_LETTERS.get(bare, bare)):
            line = change(line, value)
    return line


def _restyled(**changes: Any) -> Callable[[Addr2lineOptions, str], Addr2lineOptions]:
    return lambda line, _: line._replace(options=line.options._replace(**changes))


def _is_foreign(line: Addr2lineOptions, _: str) -> Addr2lineOptions:
    return line._replace(foreign=True)


_CHANGES: Mapping[str, Callable[[Addr2lineOptions, str], Addr2lineOptions]] = {
    "a": _restyled(addresses=True),
    "f": _restyled(functions=FunctionNames.LINKAGE),
    "i": _restyled(inlines=True),
    "p": _restyled(pretty=True),
    "s": _restyled(basenames=True),
    "e": lambda line, value: line._replace(file=value),
    "j": lambda line, value: line._replace(section=value),
    "C": lambda line, _: line._replace(demangle=True),
    **dict.fromkeys(("h", "H", "help", "v", "V", "version"), _is_foreign),
}
"""What an option, without its dashes, changes; others (the target, recursion) change nothing here."""
_LETTERS = {
    "addresses": "a",
    "basenames": "s",
    "demangle": "C",
    "exe": "e",
    "functions": "f",
    "inlines": "i",
    "pretty-print": "p",
    "section": "j",
}
"""Long options to their letters."""


def answers(
    line: Addr2lineOptions,
    symbolize: Symbolize,
    texts: Sequence[str],
    demangler: Demangler | None,
    doubts: _Doubts | None = None,
) -> list[str]:
    """The answers to addresses, which are hexadecimal with or without 0x, and to a function's name, alone or before "+"
    and an offset; what is neither counts as the digits it begins with. Frames are as written, since binutils
    reconciles nothing either."""
    queries = [_query(line, text) for text in texts]
    found = list(symbolize(queries, as_written=True))
    for number, answer in enumerate(found):
        if answer.reason == Reason.UNKNOWN_KERNEL and (section := _SECTION_PLACE.fullmatch(texts[number])):
            complain(f"{texts[number]}: {section[1]} is no function; for a section write -j {section[1]} {section[2]}")
        elif answer.reason == Reason.UNKNOWN_KERNEL:
            queries[number] = _at_number(line, leading_hexadecimal(texts[number]))
            (found[number],) = symbolize([queries[number]], as_written=True)
    if doubts is not None:
        doubts.say(queries, found)
    values = [_value(query, answer) for query, answer in zip(queries, found, strict=True)]
    return [
        binutils_text(StyledQuestion(line.file, value), written_frames(answer, line.options), line.options)
        for value, answer in zip(values, readable(found, demangler), strict=True)
    ]


_SYMBOL = re.compile(r"\s*([^\s\d+-][^+]*?)\s*(?:\+\s*(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)?.*)?", re.DOTALL)
"""A name and an offset, as C's strtoul reads it with base 0."""
_SECTION_PLACE = re.compile(r"\s*(\.[^+\s]+)\+((?:0[xX])?[0-9a-fA-F]+)\s*")
"""A section and an offset, which binutils would take for address 0."""
_HEXADECIMAL_FIRST = re.compile(r"\s*[0-9a-fA-F][^+]*")
"""What binutils takes as a number: a name alone that begins with such a digit."""


def _query(line: Addr2lineOptions, text: str) -> Query:
    named = _SYMBOL.fullmatch(text)
    if named is None or _HEXADECIMAL_FIRST.fullmatch(text):
        return _at_number(line, leading_hexadecimal(text))
    digits = named[2] or "0"
    is_octal = digits.isdecimal() and digits.startswith("0")
    return ByKernel(named[1], KernelOffset(min(int(digits, 8 if is_octal else 0), (1 << 64) - 1)))


def _at_number(line: Addr2lineOptions, value: int) -> Query:
    if line.section is None:
        return ByAddress(ObjectAddress(value))
    return BySection(line.section, SectionOffset(value))


def _value(query: Query, answer: Answer) -> int:
    """The number that binutils prints of an address."""
    if isinstance(query, ByKernel):
        return answer.address or 0
    return int(query.offset if isinstance(query, BySection) else getattr(query, "address", 0))


def leading_hexadecimal(text: str) -> int:
    """The hexadecimal number with which a text begins, 0 where there is none, at most 64 bits: as binutils'
    bfd_scan_vma reads it with base 16 (strtoull)."""
    digits = re.match(r"\s*(?:0[xX])?([0-9a-fA-F]*)", text)
    value = int(digits[1] or "0", 16) if digits else 0
    return min(value, (1 << 64) - 1)

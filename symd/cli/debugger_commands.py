"""Commands of gdb and LLDB, and the calls of symd that answer what they ask."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from symd.cli.call_files import files_among, parted
from symd.model.addresses import is_number, is_place

_GDBS_INFO: Final = {
    "variables": "scope locals args variables frame",
    "symbolize": "line symbol source",
    "names": "types address",
    "functions": "functions kernels",
    "core": "threads",
    "sources": "sources",
    "info": "registers all-registers",
    "modules": "sharedlibrary sharedlib shared dll",
}
"""The verb that answers gdb's info, and the first words of that; where a line is asked about, locate does."""
_GDBS_INFO_CUDA: Final = frozenset(
    ("devices", "sms", "warps", "lanes", "kernels", "blocks", "threads", "exceptions", "contexts")
)
"""What cuda-gdb's info cuda shows; all of it is in what is said of a core dump."""
_EXAMINE: Final = re.compile(r"x/([0-9]{0,9})i")
"""gdb's command to show instructions from a place on, and how many."""
_PRINT: Final = re.compile(r"(?:p|print|inspect|output|ptype|whatis)(?:/[a-z]+)?")
"""gdb's commands about a variable."""
_EXECUTE: Final = frozenset(("-ex", "--ex", "-eval-command", "--eval-command"))
"""Options by which gdb runs a command."""
_RUN: Final = ("-o", "--one-line", "-O")
"""Options by which LLDB runs a command."""
_OF_SESSIONS: Final = frozenset(("set", "settings", "quit", "q", "exit"))
"""Commands that only say how a debugger behaves, or end it."""


class _Command(NamedTuple):
    """A command of LLDB.

    ``words`` are its names, of which each word may be shortened. ``calls`` are the calls of symd for it, of which the
    first is meant that takes all values that are given, and needs no other; FILE comes behind the verb. {after} is the
    number of instructions that follow the first, and {pattern} stands for a regular expression. ``options`` are those
    that take a value, by what the value is; the value of the last ones, "", does not matter to symd, and neither do
    ``flags``."""

    words: str
    calls: Sequence[str]
    options: Mapping[str, str] = {}
    flags: str = ""


_LINE: Final = {"source": "-f --file", "line": "-l --line", "column": "-u --column"}
_MODULE: Final = {"module": "-s --shlib"}
_LOCATE: Final = ("locate {source}:{line}:{column}", "locate {source}:{line}", "locate {place}", "locate {function}")
_LLDB: Final = (
    _Command(
        "image lookup",
        (
            "names {pattern}",
            "symbolize {place}",
            "locate {source}:{line}",
            "locate {function}",
            "names {symbol}",
            "names",
        ),
        {
            **_LINE,
            "place": "-a --address",
            "function": "-n --name -F --function",
            "symbol": "-s --symbol",
            "": "-o --offset",
        },
        "-v --verbose -r --regex -i --no-inlines -A --all -d --debug-only",
    ),
    _Command(
        "disassemble",
        (
            "listing --start-address {start} --stop-address {end}",
            "listing --stop-address {end}",
            "listing --around {start} --before 0 --after {after}",
            "listing --around {function} --before 0 --after {after}",
            "listing --around {start} --before 0",
            "listing --around {place}",
            "listing --by-address --function {function}",
            "listing --by-address",
        ),
        {
            "start": "-s --start-address",
            "end": "-e --end-address",
            "after": "-c --count",
            "place": "-a --address",
            "function": "-n --name",
            "": "-F --flavor -A --arch -P --plugin",
        },
        "-m --mixed -l --line -p --pc -f --frame -b --bytes -r --raw -K --kind --force",
    ),
    _Command(
        "breakpoint set",
        (*_LOCATE, "names {pattern}", "locate"),
        {
            **_LINE,
            **_MODULE,
            "pattern": "-r --func-regex",
            "place": "-a --address",
            "function": "-n --name -b --basename -F --fullname -M --method",
            "": "-c --condition -C --command -i --ignore-count -N --breakpoint-name -L --language",
        },
        "-H --hardware -o --one-shot -d --disable -D --dummy-breakpoints",
    ),
    _Command(
        "source list",
        ("locate {source}:{line}", "listing --around {place}", "listing --function {function}", "listing"),
        {**_LINE, **_MODULE, "place": "-a --address", "function": "-n --name", "": "-c --count"},
        "-r --reverse -b --show-breakpoints",
    ),
    _Command("frame variable|target variable", ("variables",), flags="-a -l -s -t -T --no-args --no-locals"),
    _Command("thread backtrace|frame info|frame select", ("bt",), {"": "-c --count -s --start"}),
    _Command("thread list|thread info|process status", ("core",)),
    _Command("image list", ("modules",)),
    _Command("image dump line-table", ("lines",)),
    _Command("image dump symtab", ("names",)),
    _Command("image dump sections|image dump objfile|register read|target create", ("info",)),
    _Command("process attach", ("attach",), flags="-p --pid"),
    _Command("process launch", ("run",)),
    _Command("image add", ("add",)),
)
"""LLDB's commands. Its image is short for target modules."""
_REGEX: Final = ("-r", "--regex")
"""Flags that make a name a regular expression."""
_ABOUT_A_FILE: Final = frozenset(("symbolize", "locate", "names", "listing", "lines", "variables"))
"""Verbs of these calls that take FILE and what is asked about it."""


class DebuggerCall(NamedTuple):
    """A command of LLDB as it was typed, without what it asks, and the call of symd that answers it; FILE stands in it
    for a module that the command does not name. The call may begin with a word for a verb. Where it ``is_whole``, it
    has all that it needs, and asks all that the command does."""

    command: str
    words: list[str]
    is_whole: bool = True


def gdbs_info(words: Sequence[str]) -> list[str]:
    """The call that answers gdb's ``info SUBJECT``, or cuda-gdb's ``info cuda SUBJECT``; the words themselves where
    they are no such command."""
    typed, *rest = words
    if typed == "info" and rest[:1] == ["cuda"] and not _GDBS_INFO_CUDA.isdisjoint(rest[1:2]):
        return ["core", *rest[2:]]
    subject = rest[0] if typed == "info" and rest and not os.path.lexists(rest[0]) else ""
    asked = next((verb for verb, subjects in _GDBS_INFO.items() if subject in subjects.split()), "")
    if not asked:
        return [*words]
    if asked == "modules":
        return _about_modules(rest[1:])
    if any(":" in word for word in rest):
        asked = "locate"
    return [asked, *(word.removeprefix("*") for word in rest[1:])]


def gdb_call(words: Sequence[str]) -> list[str]:
    """The call that answers gdb's ``x/8i PLACE``, or ``print NAME`` and the like at a place; [] where the words are no
    such command, or where one about a variable names a file and no place."""
    typed, *rest = words
    if count := _EXAMINE.fullmatch(typed):
        named = _named(rest)
        kept = [word for word in rest if word not in named]
        after = max(int(count[1] or 1) - 1, 0)
        around = ["--around", *(word.removeprefix("*") for word in named), "--before", "0", "--after", str(after)]
        return ["listing", *([] if files_among(rest) else ["FILE"]), *kept, *around] if len(named) == 1 else []
    if _PRINT.fullmatch(typed):
        return [] if files_among(rest) and not _places(rest) else _at_place(rest)
    is_asked = typed == "info" and rest[:1] and rest[0] in ("address", *_GDBS_INFO["variables"].split())
    return _at_place(rest[1:]) if is_asked and _places(rest) and not os.path.lexists(rest[0]) else []


def _named(words: Sequence[str]) -> list[str]:
    """The words of a call that are neither options, nor their values, nor files."""
    is_value = [before.startswith("-") and "=" not in before for before, _ in pairwise(["", *words])]
    named = (word for word, is_given in zip(words, is_value, strict=True) if not is_given and not word.startswith("-"))
    return [word for word in named if not files_among([word])]


def _places(words: Sequence[str]) -> list[str]:
    """The places that a call names."""
    return [place for word in _named(words) if is_place(place := word.removeprefix("*"))]


def _at_place(words: Sequence[str]) -> list[str]:
    """The call that shows all variables at the last place of the words, without the names of variables in them."""
    named = _named(words)
    kept = [word for word in words if word not in named]
    return ["variables", *([] if files_among(kept) else ["FILE"]), *kept, *(_places(words)[-1:] or ["PLACE"])]


def batch_commands(words: Sequence[str]) -> list[list[str]]:
    """The commands that gdb or LLDB is to run by options, with the files beside them; none that only sets up the
    session."""
    given = ((option, value.split()) for option, value in pairwise(parted(words)))
    commands = [value for option, value in given if option in _EXECUTE or (option in _RUN and lldb_call(value))]
    files = files_among(words)
    return [[*command, *files] for command in commands if command and command[0] not in _OF_SESSIONS]


def lldb_call(words: Sequence[str]) -> DebuggerCall | None:
    """The call that answers a command of LLDB; None where the words are no such command."""
    for command in _LLDB:
        for name in command.words.split("|"):
            count = _count_of(name.split(), words)
            if count and (found := _call(command, words[count:])):
                return DebuggerCall(" ".join(words[:count]), *found)
    return None


def _count_of(name: Sequence[str], words: Sequence[str]) -> int:
    """How many of the words are the name of a command, which may be shortened; 0 where it is another one."""
    is_long = name[0] == "image" and len(words) > 1 and _is_short("target", words[0]) and _is_short("modules", words[1])
    typed = ["image", *words[2:]] if is_long else words
    if len(typed) < len(name) or not all(map(_is_short, name, typed)) or len(typed[0]) < len("di"):
        return 0
    return len(name) + is_long


def _is_short(word: str, typed: str) -> bool:
    """Whether a word of a command, or its beginning, was typed, and no file is named so."""
    return bool(typed) and word.startswith(typed) and not os.path.lexists(typed)


def _call(command: _Command, words: Sequence[str]) -> tuple[list[str], bool] | None:
    """The call for a command with these words behind it, and whether it is whole; None where its name is a word for a
    verb too, and nothing behind it is of LLDB."""
    given, rest = _given(command, words)
    if " " not in command.words and len(rest) == len(words):
        return None
    module = given.pop("module", "")
    is_range = "end" not in given or all(is_number(given.get(each, "0")) for each in ("start", "end"))
    if not is_range:  # its end is no address: instructions are counted instead
        del given["end"]
    chosen, lacking = _chosen(command.calls, given)
    verb, *asked = chosen.split()
    files, plain = [module] if module else [], [word for word in rest if not word.startswith("-")]
    if verb == "bt":
        rest = [word for word in rest if not is_frame(word)]
    if verb in _ABOUT_A_FILE and not files and not files_among(plain) and not (asked and plain):
        files = ["FILE"]
    if verb == "modules":
        return _about_modules(rest), True
    if verb == "variables" and (_places(rest) or not files_among(rest)):
        return _at_place(rest), True
    values = {**{name: name.upper() for name in lacking}, **given}
    is_whole = is_range and not lacking and given.keys() <= set(_fields(chosen))
    return [verb, *files, *rest, *(word.format_map(values) for word in asked)], is_whole


def _fields(call: str) -> list[str]:
    """What a call needs."""
    return re.findall(r"\{(\w+)\}", call)


def _chosen(calls: Sequence[str], given: Mapping[str, str]) -> tuple[str, set[str]]:
    """The call that takes most of the values that are given, and of these calls the first that needs the fewest
    others; and what those are."""
    chosen = min(
        calls, key=lambda call: (len(given.keys() - set(_fields(call))), len(set(_fields(call)) - given.keys()))
    )
    return chosen, set(_fields(chosen)) - given.keys()


def is_frame(word: str) -> bool:
    """Whether a word behind a debugger's command for a stack chooses its frames or threads."""
    return (word in ("all", "full") or word.isdecimal()) and not os.path.lexists(word)


def _about_modules(words: Sequence[str]) -> list[str]:
    """The call that describes the modules that are files among the words, or shows those of a daemon."""
    return ["info" if files_among(words) else "modules", *words]


def _given(command: _Command, words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The values of a command's options by what they are, and the words that are neither options of it nor values."""
    kinds = {option: kind for kind, options in command.options.items() for option in options.split()}
    flags = command.flags.split()
    given: dict[str, str] = {}
    kept: list[str] = []
    is_regex = False
    rest = [part for word in words for part in _parted(word, kinds, flags)]
    while rest:
        word = rest.pop(0)
        if word in kinds and rest and _fits(kinds[word], rest[0]):
            value = rest.pop(0)
            given[kinds[word]] = str(max(int(value) - 1, 0)) if kinds[word] == "after" else value
        elif word not in flags:
            kept.append(word)
        elif word in _REGEX:
            is_regex = "--regex" in flags  # -r means something else elsewhere
    named = next((kind for kind in ("pattern", "function", "symbol") if kind in given), "")
    if named == "pattern" or (named and is_regex):
        given["pattern"] = _as_pattern(given.pop(named))
    return given, kept


def _as_pattern(regex: str) -> str:
    """The pattern of shells that finds what a regular expression does, where that is a name or nearly one."""
    begin, end = "" if regex.startswith("^") else "*", "" if regex.endswith("$") else "*"
    return f"{begin}{regex.strip('^$').replace('.*', '*')}{end}"


def _parted(word: str, kinds: Mapping[str, str], flags: Sequence[str]) -> list[str]:
    """The options of a word: several of one letter are behind one dash, and a value may be behind
    "=" or, without it, behind a letter."""
    name, equals, value = word.partition("=")
    if equals and name in kinds:
        return [name, value]
    name, value = word[:2], word[2:]
    if name in kinds and f"-{word}" not in kinds and value and name != "--" and _fits(kinds[name], value):
        return [name, value]
    letters = [f"-{letter}" for letter in word[1:]]
    is_several = len(letters) > 1 and all(each in flags for each in letters[:-1]) and letters[-1] in (*kinds, *flags)
    return letters if is_several else [word]


def _fits(kind: str, value: str) -> bool:
    """Whether a word can be the value of an option."""
    if kind in ("place", "start", "end"):
        return is_place(value)
    if kind in ("line", "column", "after"):
        return re.fullmatch(r"[0-9]{1,9}", value) is not None
    return not value.startswith("-") and (kind != "function" or not (is_number(value) or files_among([value])))

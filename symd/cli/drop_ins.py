"""Answers in the formats of llvm-symbolizer and of binutils' addr2line, so that programs which read theirs can read
symd's: ``symd symbolize --style``, and what the verbs share that have the names of these tools, which are asked
themselves for what is no GPU code.

What they print and symd does not keep is printed as they print unknown values: discriminators, and in JSON the file and
the address where a function begins (``StartFileName``, ``StartAddress``).

Sources: llvm/lib/DebugInfo/Symbolize/DIPrinter.cpp; binutils/addr2line.c.
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import click
import numpy as np

from symd.cli.advice import Meant
from symd.cli.options import complete_files
from symd.cli.output import SHIM_MARK
from symd.config import Limits
from symd.engine.files.opened_file import LargeFile, SmallFile, opened_by_size
from symd.errors import ToolMissing, UnknownFormat, Unsupported
from symd.formats.containers import host_elf
from symd.model.addresses import ByAddress, ObjectAddress, Query
from symd.model.answers import Answer, Frame, Reason
from symd.model.rendered_answers import encoded
from symd.query.demangler import LLVM_PROGRAMS, Demangler
from symd.system.installed import chosen_folders, programs

if TYPE_CHECKING:
    from symd.cli.session import Ask
    from symd.model.answers import Answers
    from symd.model.columns import U64
    from symd.model.rendered_answers import Column


UNKNOWN = "??"
_MOST_SOURCE_BYTES = 16 << 20
"""Source files are read up to here."""


class FunctionNames(Enum):
    """Which name of a function is written."""

    NONE = "none"
    SHORT = "short"
    LINKAGE = "linkage"


class StyleOptions(NamedTuple):
    """What llvm-symbolizer's and addr2line's options of these names say. ``context_lines`` is how many lines of source
    are shown."""

    addresses: bool = False
    functions: FunctionNames = FunctionNames.LINKAGE
    inlines: bool = True
    basenames: bool = False
    pretty: bool = False
    context_lines: int = 0


class WrittenFrame(NamedTuple):
    """A frame as they write it: what is not known is "" or 0. ``source`` are the lines around it, each with its
    newline."""

    function: str
    file: str
    line: int
    column: int
    source: str = ""
    start_line: int = 0


class StyledQuestion(NamedTuple):
    """A question: the module's name and the address as it was asked, or the name of a symbol."""

    module: str
    address: int
    symbol: str = ""


Written = Callable[[StyledQuestion, Sequence[WrittenFrame], StyleOptions], str]
"""An answer, with its newline."""


def written_frames(answer: Answer, options: StyleOptions) -> list[WrittenFrame]:
    """The frames, innermost first; none where nothing is known. What symd answers for line 0 is the nearest line: they
    answer 0, and the row's column, which LLVM's compilers leave at that of the row before."""
    frames = answer.frames if options.inlines else answer.frames[:1]
    found = [_written(frame, options) for frame in frames]
    if found and answer.reason is Reason.APPROXIMATE:
        found[0] = found[0]._replace(line=0, source="")
    return found


def function_frames(answer: Answer, options: StyleOptions) -> list[WrittenFrame]:
    """What llvm-symbolizer says of a symbol, at whose beginning this is, and without inlined calls: the innermost line,
    under the name of the function whose code it is."""
    found = written_frames(answer, options._replace(inlines=True))
    return [found[0]._replace(function=found[-1].function)] if found else []


def _written(frame: Frame, options: StyleOptions) -> WrittenFrame:
    file = frame.file or ""
    source = source_lines(file, frame.line, options.context_lines) if options.context_lines and frame.line else ""
    return WrittenFrame(
        _function(frame, options),
        file.rpartition("/")[2] if options.basenames else file,
        frame.line,
        frame.column,
        source,
        frame.start_line,
    )


def _function(frame: Frame, options: StyleOptions) -> str:
    if options.functions is FunctionNames.NONE:
        return ""
    short = options.functions is FunctionNames.SHORT
    return (frame.function if short else frame.linkage_name or frame.function) or ""


def source_lines(file: str, line: int, count: int) -> str:
    """``count`` lines of a file around ``line``, numbered, the line itself marked; "" where there is no such file or
    line."""
    first = max(1, line - count // 2)
    try:
        with open(file, "rb") as stream:  # noqa: PTH123 - pathlib is slow to load
            text = stream.read(_MOST_SOURCE_BYTES)
    except (OSError, ValueError):
        return ""
    lines = text.decode(errors="replace").removesuffix("\n").split("\n")[: first + count - 1]
    width = len(str(len(lines)))
    numbered = enumerate(lines[first - 1 :], first)
    return "".join(f"{number:>{width}} {'>:' if number == line else ' :'} {each}\n" for number, each in numbered)


def llvm_text(asked: StyledQuestion, found: Sequence[WrittenFrame], options: StyleOptions) -> str:
    """--output-style=LLVM: columns, and an empty line at the end."""
    return _text(asked, found, options, _llvm_position) + "\n"


def gnu_text(asked: StyledQuestion, found: Sequence[WrittenFrame], options: StyleOptions) -> str:
    """--output-style=GNU."""
    return _text(asked, found, options, _gnu_position)


def _text(
    asked: StyledQuestion, found: Sequence[WrittenFrame], options: StyleOptions, position: Callable[[WrittenFrame], str]
) -> str:
    parts = []
    if options.addresses:
        parts.append((asked.symbol or f"{asked.address:#x}") + (": " if options.pretty else "\n"))
    for number, place in enumerate(found or [WrittenFrame("", "", 0, 0)]):
        if options.pretty and number:
            parts.append(" (inlined by) ")
        if options.functions is not FunctionNames.NONE:
            parts.append((place.function or UNKNOWN) + (" at " if options.pretty else "\n"))
        parts.append(f"{position(place)}\n{place.source}")
    return "".join(parts)


def _llvm_position(place: WrittenFrame) -> str:
    return f"{place.file or UNKNOWN}:{place.line}:{place.column}"


def _gnu_position(place: WrittenFrame) -> str:
    return f"{place.file or UNKNOWN}:{place.line}"


def binutils_text(asked: StyledQuestion, found: Sequence[WrittenFrame], options: StyleOptions) -> str:
    """addr2line's own: an address has 16 digits, and an unknown line is a question mark, but where nothing is known at
    all."""
    between = " at " if options.pretty else "\n"
    named = options.functions is not FunctionNames.NONE
    parts = [f"0x{asked.address:016x}" + (": " if options.pretty else "\n")] if options.addresses else []
    if not found:
        nothing = (UNKNOWN + (" " if options.pretty else "\n")) if named else ""
        return "".join([*parts, nothing, f"{UNKNOWN}:0\n"])
    for number, place in enumerate(found):
        if options.pretty and number:
            parts.append(" (inlined by) ")
        if named:
            parts.append((place.function or UNKNOWN) + between)
        parts.append(f"{place.file or UNKNOWN}:{place.line or '?'}\n")
    return "".join(parts)


def llvm_json(asked: StyledQuestion, found: Sequence[WrittenFrame], options: StyleOptions) -> str:
    """--output-style=JSON, as it is written for one question of standard input."""
    return json_text(json_value(asked, found), options) + "\n"


def json_value(asked: StyledQuestion, found: Sequence[WrittenFrame]) -> dict[str, Any]:
    """One answer."""
    if asked.symbol:
        return {"Loc": [_json_frame(place) for place in found], "ModuleName": asked.module, "SymName": asked.symbol}
    shown = [_json_frame(place) for place in found or [WrittenFrame("", "", 0, 0)]]
    return {"Address": f"{asked.address:#x}", "ModuleName": asked.module, "Symbol": shown}


def json_text(value: Any, options: StyleOptions) -> str:
    """A value as JSON on one line, or indented with --pretty-print."""
    if options.pretty:
        return json.dumps(value, ensure_ascii=False, indent=2)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _json_frame(place: WrittenFrame) -> dict[str, Any]:
    value: dict[str, Any] = {
        "Column": place.column,
        "Discriminator": 0,
        "FileName": place.file,
        "FunctionName": place.function,
        "Line": place.line,
    }
    if place.source:
        value["Source"] = place.source
    return value | {"StartAddress": "", "StartFileName": "", "StartLine": place.start_line}


_ADDRESS = re.compile(r"(0[xX])?(?(1)[0-9a-fA-F]+|[0-9]+)")
"""A query that is a number, as ``model.addresses`` reads it."""
STYLES = ("llvm", "gnu", "json")


def demangler(options: StyleOptions) -> Demangler | None:
    """What makes linkage names readable, where they are written and such a program is installed."""
    if options.functions is not FunctionNames.LINKAGE:
        return None
    try:
        return Demangler(programs=LLVM_PROGRAMS)
    except ToolMissing:
        return None


def readable(answers: list[Answer], names: Demangler | None) -> list[Answer]:
    """The answers with linkage names as they were written; those that are not mangled (Zig's ``process.abort``)
    stay."""
    if names is None:
        return answers
    shown = names.answers(answers)
    mangled = names.names(frame.linkage_name for each in answers for frame in each.frames if frame.linkage_name)
    return [
        each._replace(
            frames=tuple(
                frame._replace(linkage_name=None) if frame.linkage_name in mangled else frame for frame in each.frames
            )
        )
        for each in shown
    ]


class Styled(NamedTuple):
    """What ``--style`` and its options say."""

    style: str
    options: StyleOptions
    adjust: int
    module: str

    def asking(self, ask: Ask) -> Ask:
        """``ask`` for addresses from which --adjust-vma is taken off; names come as they were written, as from LLVM's
        tool."""
        names = demangler(self.options)
        return lambda queries: readable(list(ask(self._adjusted(queries))), names)

    def _adjusted(self, queries: Sequence[Query] | U64) -> Sequence[Query] | U64:
        if not self.adjust:
            return queries
        if not isinstance(queries, Sequence):
            return queries - np.uint64(self.adjust % (1 << 64))  # which goes round at 64 bits
        return [
            ByAddress(ObjectAddress((query.address - self.adjust) % (1 << 64)))
            if isinstance(query, ByAddress)
            else query
            for query in queries
        ]

    def query(self, text: str) -> str:
        """How a query is written: each style says what of it."""
        return text

    def answers(self, queries: Sequence[bytes], answers: Answers) -> list[Column]:
        """What is written for each query."""
        return [encoded(map(self.answer, map(bytes.decode, queries), answers))]

    def refusal(self, query: str, error: str) -> str:  # noqa: ARG002 - LLVM's tool says nothing of it
        """What is written for a query that cannot be read."""
        return self.answer(query, None)

    def answer(self, text: str, answer: Answer | None) -> str:
        """The answer to a query, which may have none because it cannot be read."""
        write = {"llvm": llvm_text, "gnu": gnu_text, "json": llvm_json}[self.style]
        number = _ADDRESS.fullmatch(text.strip())
        asked = (
            StyledQuestion(self.module, int(number[0], 16 if number[1] else 10))
            if number
            else StyledQuestion(self.module, 0, text.strip())
        )
        return write(asked, written_frames(answer, self.options) if answer else [], self.options)


def _number(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number") from None


def style_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """FILE as an argument or as --obj, and the options of ``Styled``, as ``styled``: None without --style."""

    @click.argument("file", required=False, shell_complete=complete_files)
    @click.option(
        "-e",
        "--obj",
        "--exe",
        "obj",
        metavar="FILE",
        shell_complete=complete_files,
        help="The same as FILE, for compatibility with llvm-symbolizer and addr2line.",
    )
    @click.option(
        "--style",
        "--output-style",
        type=click.Choice(STYLES, case_sensitive=False),
        help="Write like llvm-symbolizer with this --output-style.",
    )
    @click.option("-s", "--basenames", is_flag=True, help="With --style: leave folders out of file names.")
    @click.option(
        "-p",
        "--pretty-print",
        "pretty",
        is_flag=True,
        help="With --style: write one line per frame, as symd's own format does.",
    )
    @click.option("-a", "--addresses", is_flag=True, help="With --style: show each address, as symd's own format does.")
    @click.option(
        "--adjust-vma",
        "adjust",
        default="0",
        callback=_number,
        metavar="N",
        help="With --style: subtract N from each address.",
    )
    @click.option(
        "--print-source-context-lines",
        "context_lines",
        type=click.IntRange(0, 10_000),
        default=0,
        metavar="N",
        help="With --style: show N lines of source.",
    )
    @wraps(verb)
    def wrapped(file: str | None, obj: str | None, style: str | None, queries: tuple[str, ...], **given: Any) -> Any:
        if file is None and given["context"] is not None:
            raise click.UsageError("give device addresses, or - to read them from standard input")
        name, rest = _named(file, obj, queries)
        kept = {key: given.pop(key) for key in ("basenames", "pretty", "addresses", "adjust", "context_lines")}
        if style is None:
            if any(kept[key] for key in ("basenames", "adjust", "context_lines")):
                said = "-s, --adjust-vma and --print-source-context-lines go with --style llvm, gnu or json"
                raise click.UsageError(f"{said}; symd addr2line takes addr2line's options")
            return verb(file=name, queries=rest, styled=None, **given)
        if given["as_json"]:
            raise click.UsageError("--json is symd's own; LLVM's is --style json")

        options = StyleOptions(
            addresses=kept["addresses"],
            basenames=kept["basenames"],
            pretty=kept["pretty"],
            context_lines=kept["context_lines"],
        )
        return verb(file=name, queries=rest, styled=Styled(style, options, kept["adjust"], name), **given)

    return wrapped


def _named(file: str | None, obj: str | None, queries: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if obj is not None:
        return obj, queries if file is None else (file, *queries)
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    return file, queries


KIND = re.compile(r"^\s*(?:CODE|DATA|FRAME|SYMBOL)\s+")
"""What a question of LLVM's tools may begin with, and symd symbolize does not take."""


def options_of_symbolize(arguments: Sequence[str], known: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of symd symbolize with their values among the arguments of another tool, which knows options of these
    names, and the other arguments."""
    root = click.get_current_context().find_root()
    verb = root.command.get_command(root, "symbolize") if isinstance(root.command, click.Group) else None
    parameters = [] if verb is None else verb.params
    options = {each: one for one in parameters for each in one.opts if each.startswith("--")}
    own: list[str] = []
    others: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        if name not in options or name.lstrip("-") in known:
            others.append(word)
            continue
        own.append(word)
        if rest and not equals and not getattr(options[name], "is_flag", False):
            own.append(rest.pop(0))
    return own, others


def symbolize_instead(tool: str, own: Sequence[str], asked: Sequence[str]) -> click.UsageError:
    """The error of a call of ``tool`` with options that only symd symbolize has, the first of which is named."""
    said = f"{tool} has no option {own[0].partition('=')[0]}"
    return Meant(said, click.get_current_context(), ["symbolize", *own, *asked])


_SCRIPT_BYTES = 512

Symbolize = Callable[..., Sequence[Answer]]
GpuModule = LargeFile | SmallFile


def gpu_module(file: str, limits: Limits) -> GpuModule | None:
    """What answers questions about ``file``; None where its addresses are not those of GPU code: a program of the host
    (its device code is asked for in a file of its own) or a format that symd does not read. Raises what opening it
    raises."""
    if _is_host_program(file):
        return None
    try:
        return opened_by_size(file, limits)
    except (Unsupported, UnknownFormat):
        return None


def _is_host_program(file: str) -> bool:
    try:
        with open(file, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped:  # noqa: PTH123 - as in input.py
            return host_elf.claims(cast("bytes", mapped))
    except (OSError, ValueError):
        return False  # opening it reports what is wrong


def original(name: str) -> str:
    """The program that is really called so: in a folder of SYMD_TOOLS, else the first in PATH, else the newest
    ``name-VERSION``. Raises ToolMissing."""
    for path in (*_called(name, chosen_folders()), *programs(name)):
        if not _is_shim(path):
            return path
    raise ToolMissing(
        f"{name} is not installed, and this file has no GPU code of its own",
        where=name,
        hint="symd answers for GPU modules; install the tool itself for programs of the host",
    )


def _called(name: str, first: Iterable[str]) -> Iterator[str]:
    """The programs of that name in some folders, then in those of PATH."""
    for folder in (*first, *os.environ.get("PATH", os.defpath).split(os.pathsep)):
        path = f"{folder}/{name}"
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113 - as in input.py
            yield path


def become(name: str, arguments: Sequence[str]) -> NoReturn:
    """Go on as the original tool. Raises ToolMissing."""
    program = original(name)
    os.execv(program, [program, *arguments])  # noqa: S606 - the user's own command line, handed on


def _is_shim(path: str) -> bool:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - as in input.py
            return SHIM_MARK.encode() in stream.read(_SCRIPT_BYTES)
    except OSError:
        return True

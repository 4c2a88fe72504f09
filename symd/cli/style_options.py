"""Answers in the words of llvm-symbolizer and of binutils' addr2line, so that what reads theirs reads symd's
(llvm/lib/DebugInfo/Symbolize/DIPrinter.cpp; binutils/addr2line.c).

What they know and symd does not keep is written as they write what they do not know: in JSON the file and the address where a function begins
(``StartFileName``, ``StartAddress``), and discriminators.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from symd.model.answers import Answer, Frame, Reason

UNKNOWN = "??"
_MOST_SOURCE_BYTES = 16 << 20
"""Source files are read up to here."""


class FunctionNames(Enum):
    """Which name of a function is written."""

    NONE = "none"
    SHORT = "short"
    LINKAGE = "linkage"


class StyleOptions(NamedTuple):
    """What llvm-symbolizer's and addr2line's options of these names say. ``context_lines`` is how many lines of source are shown."""

    addresses: bool = False
    functions: FunctionNames = FunctionNames.LINKAGE
    inlines: bool = True
    basenames: bool = False
    pretty: bool = False
    context_lines: int = 0


class WrittenFrame(NamedTuple):
    """A frame as they write it: what is not known is "" or 0. ``source`` are the lines around it, each with its newline."""

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
    """The frames, innermost first; none where nothing is known. What symd answers for line 0 is the nearest line: they answer 0,
    and the row's column, which LLVM's compilers leave at that of the row before."""
    frames = answer.frames if options.inlines else answer.frames[:1]
    found = [_written(frame, options) for frame in frames]
    if found and answer.reason is Reason.APPROXIMATE:
        found[0] = found[0]._replace(line=0, source="")
    return found


def function_frames(answer: Answer, options: StyleOptions) -> list[WrittenFrame]:
    """What llvm-symbolizer says of a symbol, at whose beginning this is, and without inlined calls: the innermost line, under the name of the
    function whose code it is."""
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
    """``count`` lines of a file around ``line``, numbered, the line itself marked; "" where there is no such file or line."""
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
    """addr2line's own: an address has 16 digits, and an unknown line is a question mark, but where nothing is known at all."""
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

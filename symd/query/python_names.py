"""Names for inlined calls that the debug data of Python's compilers leaves without one (``index.functions``): that
of the ``def`` around the frame's line, if the source is at hand. Python's own tokenizer reads the source, because its
parser can be made to crash by untrusted text.

Nothing in a kernel of CuTe DSL tells of inlined calls, so that it has the lines of its helpers, and at its end that of
the decorator of the function that launches it, which runs on the host (``symd.core.row_scopes``: a line that cannot be
the kernel's is answered as an inlined call without a name, any other as the kernel's, INFERRED). The source tells whose
they are, if it is at hand.
"""

from __future__ import annotations

import tokenize
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from io import StringIO
from typing import Any, NamedTuple

import numpy as np

from symd.index.functions import with_all_inside
from symd.model.answers import Answer, Answers, CodeRanges, Frame, FrameCode, Reason
from symd.model.columns import U32
from symd.model.frame_text import CUTE_SYMBOL, PYTHON_SUFFIX

ReadSources = Callable[[list[str]], Mapping[str, str | None]]
"""The texts of source files by their names in frames; None, or nothing, for those that nobody has."""
_MAX_HEAD = len(("async", "def", "NAME"))


class Definition(NamedTuple):
    """A function from the line of its ``def`` to its last line."""

    first: int
    last: int
    name: str


def is_python(file: str | None) -> bool:
    """Whether a source file is called as Python's are."""
    return file is not None and file.endswith(PYTHON_SUFFIX)


class PythonSources:
    """What source files define, each of which is read once by ``texts``."""

    def __init__(self, texts: ReadSources) -> None:
        self._texts = texts
        self._files: dict[str, Sequence[Definition] | None] = {}
        self._others: set[str] = set()

    def read(self, files: Iterable[str]) -> None:
        """Read those that were not read yet."""
        new = [file for file in files if file not in self._files]
        texts = self._texts(new) if new else {}
        for file in new:
            text = texts.get(file)
            self._files[file] = None if text is None else definitions(text)

    def of(self, file: str) -> Sequence[Definition]:
        """The functions of a file that was read; none where it is not the one that was compiled."""
        return () if file in self._others else self._files[file] or ()

    def doubt(self, file: str) -> None:
        """A file is not the one that was compiled: a line proves it."""
        self._others.add(file)


def functions_around(known: Iterable[Definition], lines: Iterable[int]) -> dict[int, tuple[Definition, ...]]:
    """The definitions that hold each of these lines, the innermost one last. Definitions lie inside each other or
    apart."""
    waiting = sorted(known, key=lambda each: (each.first, -each.last), reverse=True)
    open_now: list[Definition] = []
    found = {}
    for line in sorted(lines):
        while waiting and waiting[-1].first <= line:
            begun = waiting.pop()
            while open_now and open_now[-1].last < begun.first:
                open_now.pop()
            open_now.append(begun)
        while open_now and open_now[-1].last < line:
            open_now.pop()
        found[line] = tuple(open_now)
    return found


def definitions(text: str) -> list[Definition] | None:
    """The functions that a Python source defines; None where it is none."""
    try:
        return list(_definitions(text))
    except (SyntaxError, tokenize.TokenError, ValueError):
        return None


def _definitions(text: str) -> Iterator[Definition]:
    """Each when it ends: with the last logical line in its block, or where it has no block with its own."""
    depth, last = 0, 0
    begun: list[tuple[int, int, str]] = []  # depth, line, name
    logical: list[str] = []
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if token.type == tokenize.INDENT else -1
        elif token.type == tokenize.NEWLINE:
            logical, last = [], token.start[0]
        elif token.type not in (tokenize.NL, tokenize.COMMENT):
            if not logical:
                while begun and (begun[-1][0] >= depth or token.type == tokenize.ENDMARKER):
                    _, first, name = begun.pop()
                    yield Definition(first, last, name)
            if len(logical) < _MAX_HEAD:
                logical.append(token.string)
                if logical[-2:-1] == ["def"] and logical[:-2] in ([], ["async"]):
                    begun.append((depth, token.start[0], token.string))


NOBODYS = ""
"""Stands for the name of a helper where a line is of none, nor of the kernel."""


class _KernelLine(NamedTuple):
    """A line of a Python file that code of a kernel has. ``is_helpers``: the debug data tells that it is not the
    kernel's own."""

    file: str
    line: int
    kernel: str
    is_helpers: bool


class CuteLines:
    """Answers with what ``sources`` tell of the lines of CuTe DSL's kernels."""

    def __init__(self, sources: PythonSources) -> None:
        self._sources = sources

    def told(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        """The answers in which a helper's line is that of the helper, inlined into the kernel at a place that is not
        known (INFERRED), and a line that is nobody's is left out (CONTRADICTORY). A file says nothing where a line
        that is not the kernel's lies in the kernel: it is not the one that was compiled."""
        if isinstance(answers, Answers):
            return self._told_columns(answers)
        lines = [_line_of(answer) for answer in answers]
        helpers = self._helpers({line for line in lines if line is not None})
        if not helpers:
            return answers
        return [
            answer if line is None or line not in helpers else _told(answer, helpers[line])
            for answer, line in zip(answers, lines, strict=True)
        ]

    def _told_columns(self, answers: Answers) -> Answers:
        locations = answers.locations
        alone = locations.reason == Reason.INFERRED
        inlined = (locations.function == 0) & (locations.inlined != 0)
        if not (alone.any() or inlined.any()):  # as in most tables, which may be long
            return answers
        text = locations.strings
        has_line = locations.line > 0
        has_line[locations.parent] = False  # nothing is inlined into what the source tells more of
        root = (locations.inlined == 0) & (locations.parent == 0) & (locations.function != 0)
        files = [file for file in _distinct(locations.file[has_line]) if is_python(text[file])]
        has_line &= np.isin(locations.file, files)
        inlined &= has_line & (locations.linkage_name == 0)
        inlined &= root[locations.parent] & (locations.line[locations.parent] == 0)
        alone &= has_line & root
        kernel = np.where(inlined, locations.function[locations.parent], locations.function)
        kernels = [each for each in _distinct(kernel[inlined | alone]) if CUTE_SYMBOL in text[each]]
        rows = np.flatnonzero((inlined | alone) & np.isin(kernel, kernels))
        columns = (column[rows].tolist() for column in (locations.file, locations.line, kernel, inlined))
        lines = {
            at: _KernelLine(text[file], line, text[symbol], is_helpers)
            for at, file, line, symbol, is_helpers in zip(rows.tolist(), *columns, strict=True)
        }
        helpers = self._helpers(set(lines.values()))
        found = {at: helpers[line] for at, line in lines.items() if line in helpers}
        return _told_locations(answers, found, alone, kernel) if found else answers

    def _helpers(self, lines: set[_KernelLine]) -> dict[_KernelLine, str]:
        """The names of helpers whose lines these are, or NOBODYS; nothing for the kernel's own lines, and for those of
        which the source does not tell."""
        by_file: dict[str, list[_KernelLine]] = {}
        for line in lines:
            by_file.setdefault(line.file, []).append(line)
        self._sources.read(by_file)
        found: dict[_KernelLine, str] = {}
        for file, mine in by_file.items():
            known = sorted(self._sources.of(file))
            names = _helpers_in(known, mine) if known else {}
            if names is None:
                self._sources.doubt(file)
            else:
                found |= names
        return found


def _line_of(answer: Answer) -> _KernelLine | None:
    """The line of which the source may tell more; None where it may not, or where the answer is not of CuTe DSL."""
    if answer.reason not in (Reason.INFERRED, Reason.CONTRADICTORY):
        return None
    match answer.frames:
        case (Frame(inlined=False) as kernel,) if answer.reason is Reason.INFERRED:
            at, is_helpers = kernel, False
        case (
            Frame(inlined=True, function=None, linkage_name=None) as at,
            Frame(inlined=False, line=0) as kernel,
        ):
            is_helpers = True
        case _:
            return None
    if CUTE_SYMBOL not in (kernel.function or "") or not at.line or at.file is None or not is_python(at.file):
        return None
    return _KernelLine(at.file, at.line, kernel.function or "", is_helpers)


def _told(answer: Answer, helper: str) -> Answer:
    first, kernel = answer.frames[0], answer.frames[-1]._replace(file=None, line=0, column=0)
    ranges = answer.ranges
    if helper == NOBODYS:
        if ranges is not None:
            ranges = ranges._replace(frames=ranges.frames[-1:])
        return answer._replace(frames=(kernel,), reason=Reason.CONTRADICTORY, ranges=ranges)
    if ranges is not None and len(answer.frames) == 1:
        ranges = _with_helper(ranges)
    frames = first._replace(function=helper, inlined=True), kernel
    return answer._replace(frames=frames, reason=Reason.INFERRED, ranges=ranges)


def _with_helper(ranges: CodeRanges) -> CodeRanges:
    """How far an answer holds whose only frame became two: nothing is known of the helper's code."""
    return ranges._replace(frames=(FrameCode(), *ranges.frames))


def _told_locations(answers: Answers, found: dict[int, str], alone: np.ndarray[Any, Any], kernel: U32) -> Answers:
    """The answers in which the locations of these numbers are helpers, or without a line. ``alone`` are those that
    were said to be kernels, ``kernel`` has the kernel of each."""
    locations = answers.locations
    strings = [*locations.strings, *dict.fromkeys(found.values())]
    number = {name: at for at, name in enumerate(strings[len(locations.strings) :], len(locations.strings))}
    lost = [at for at, name in found.items() if name == NOBODYS]
    named = [at for at, name in found.items() if name != NOBODYS]
    split = [at for at in named if alone[at]]
    count = len(locations)
    columns: dict[str, Any] = {
        each.name: np.append(column, column[split])
        for each in fields(locations)
        if isinstance(column := getattr(locations, each.name), np.ndarray)
    }
    columns["function"][named] = [number[found[at]] for at in named]
    columns["function"][lost] = kernel[lost]
    columns["inlined"][named], columns["inlined"][lost] = 1, 0
    columns["reason"][named], columns["reason"][lost] = Reason.INFERRED, Reason.CONTRADICTORY
    columns["parent"][split], columns["parent"][lost] = np.arange(count, count + len(split)), 0
    for name in ("file", "line", "column"):
        columns[name][count:] = columns[name][lost] = 0
    ranges = dict(answers.ranges)
    for at, each in ranges.items():
        location = int(answers.location[at])
        if found.get(location) == NOBODYS:
            ranges[at] = each._replace(frames=each.frames[-1:])
        elif location in found and alone[location]:
            ranges[at] = _with_helper(each)
    return answers.with_locations(replace(locations, strings=strings, shared=False, **columns), ranges=ranges)


def _distinct(numbers: U32) -> list[int]:
    """The distinct numbers in ascending order."""
    return np.flatnonzero(np.bincount(numbers)).tolist() if len(numbers) else []


def _kernel(known: Sequence[Definition], symbol: str) -> Definition | None:
    """The kernel that has this symbol; None where several functions could be it, or none."""
    name = f"{symbol.partition(CUTE_SYMBOL)[2]}_"
    named = [each for each in known if name.startswith(f"{each.name}_")]
    longest = max((len(each.name) for each in named), default=0)
    found = [each for each in named if len(each.name) == longest]
    return found[0] if len(found) == 1 else None


def _helpers_in(known: Sequence[Definition], lines: Iterable[_KernelLine]) -> dict[_KernelLine, str] | None:
    """The names of helpers, or NOBODYS, for the lines of one file, whose functions are sorted by line; None where it is
    not the file that was compiled."""
    found: dict[_KernelLine, str] = {}
    starts = [each.first for each in known]
    kernels = {symbol: _kernel(known, symbol) for symbol in {line.kernel for line in lines}}
    around = functions_around(known, {line.line for line in lines})
    for line in lines:
        kernel, inside = kernels[line.kernel], around[line.line]
        innermost = inside[-1] if inside else None
        if innermost is not None and innermost == kernel:
            if line.is_helpers:
                return None
        elif kernel is None:  # it is in another file, or nobody knows which one it is
            if line.is_helpers and innermost is not None:
                found[line] = innermost.name
        elif innermost is None or innermost.first < kernel.first <= innermost.last:  # outside of what runs on a device
            following = bisect_right(starts, line.line)
            if line.is_helpers or following == len(known) or known[following] != kernel:  # no decorator of its own
                found[line] = NOBODYS
        elif innermost.first < kernel.first and not line.is_helpers:  # the debug data would tell
            return None
        else:
            found[line] = innermost.name
    return found


class _NamedLine(NamedTuple):
    """A line of a Python file, and the function that the debug data names there (None: it names none)."""

    file: str
    line: int
    function: str | None


class PythonNames:
    """Answers with the names that ``texts`` tell, each file of which is read once."""

    def __init__(self, texts: ReadSources) -> None:
        self._sources = PythonSources(texts)
        self._cute = CuteLines(self._sources)

    def named(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        """The answers with the names that can be told. An answer that was CONTRADICTORY only because names were missing
        becomes INFERRED. A file says nothing where a frame of a function that it defines lies in another one, or one
        without a name in none: it is not the file that was compiled."""
        answers = self._cute.told(answers)
        if isinstance(answers, Answers):
            return self.named_columns(answers)
        if not any(_is_nameless(frame) for answer in answers for frame in answer.frames):
            return answers
        frames = {frame for answer in answers for frame in answer.frames if _is_nameless(frame) or not frame.inlined}
        places = [
            _NamedLine(frame.file, frame.line, frame.function)
            for frame in frames
            if frame.file and is_python(frame.file)
        ]
        names = self._names(places)
        return [_named_answer(answer, names) for answer in answers]

    def named_columns(self, answers: Answers) -> Answers:
        """The answers, as columns, with the names that can be told (``named`` says which)."""
        locations = answers.locations
        nameless = (locations.function == 0) & (locations.linkage_name == 0)
        nameless &= (locations.inlined != 0) & (locations.line > 0)
        files = [file for file in _distinct(locations.file[nameless]) if is_python(locations.strings[file])]
        if not files:
            return answers
        usable = nameless | (locations.inlined == 0)  # the names of inlined calls as written are what is wrong
        rows = np.flatnonzero(usable & np.isin(locations.file, files) & (locations.line > 0))
        columns = (column[rows].tolist() for column in (locations.file, locations.line, locations.function))
        text = locations.strings
        places = [
            _NamedLine(text[file], line, text[function] or None) for file, line, function in zip(*columns, strict=True)
        ]
        names = self._names(places)
        strings = [*text, *dict.fromkeys(names.values())]
        number = {name: at for at, name in enumerate(strings[len(text) :], len(text))}
        function, reason = locations.function.copy(), locations.reason.copy()
        for at, place in zip(rows.tolist(), places, strict=True):
            if nameless[at] and place[:2] in names:
                function[at] = number[names[place[:2]]]
        is_sure = with_all_inside(nameless, locations.parent)
        is_sure &= ~with_all_inside(nameless & (function == 0), locations.parent)
        reason[is_sure & (locations.line > 0) & (reason == Reason.CONTRADICTORY)] = Reason.INFERRED
        named = replace(locations, function=function, reason=reason, strings=strings, shared=False)
        return answers.with_locations(named)

    def _names(self, places: Sequence[_NamedLine]) -> dict[tuple[str, int], str]:
        """The names at the places without one, by file and line."""
        files = dict.fromkeys(place.file for place in places if place.function is None)
        self._sources.read(files)
        mine: dict[str, set[_NamedLine]] = {file: set() for file in files}
        for place in places:
            if place.file in mine:
                mine[place.file].add(place)
        found: dict[tuple[str, int], str] = {}
        for file in files:
            known = self._sources.of(file)
            around = functions_around(known, {place.line for place in mine[file]})
            nameless = [place.line for place in mine[file] if place.function is None]
            if _fits(known, mine[file], around) and all(around[line] for line in nameless):
                found |= {(file, line): around[line][-1].name for line in nameless}
        return found


def _is_nameless(frame: Frame) -> bool:
    return (
        frame.inlined and not frame.function and not frame.linkage_name and bool(frame.line) and is_python(frame.file)
    )


def _named_answer(answer: Answer, names: Mapping[tuple[str, int], str]) -> Answer:
    frames = tuple(
        frame._replace(function=names.get((frame.file or "", frame.line))) if _is_nameless(frame) else frame
        for frame in answer.frames
    )
    if frames == answer.frames:
        return answer
    is_sure = answer.reason is Reason.CONTRADICTORY and frames[0].line and not any(map(_is_nameless, frames))
    return answer._replace(frames=frames, reason=Reason.INFERRED if is_sure else answer.reason)


def _fits(
    known: Sequence[Definition], places: Iterable[_NamedLine], around: Mapping[int, Sequence[Definition]]
) -> bool:
    """Whether no place that has the name of a defined function lies in another one. Outside of all it may be: Triton
    writes the line behind the last."""
    defined = {each.name for each in known}
    return not any(
        place.function in defined
        and around[place.line]
        and place.function not in {each.name for each in around[place.line]}
        for place in places
    )

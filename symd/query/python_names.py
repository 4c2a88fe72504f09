"""Names for inlined calls that the debug data of Python's compilers leaves without one (``index.functions``): that
of the ``def`` around the frame's line, if the source is at hand. CuTe DSL's tells of no call at all, so that the kernel
has the lines of its helpers; the source tells which they are. Python's own tokenizer reads it, because its parser can
be made to crash by untrusted text.
"""

from __future__ import annotations

import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from io import StringIO
from typing import Any, NamedTuple

import numpy as np

from symd.index.functions import with_all_inside
from symd.model.answers import Answer, Answers, CodeRanges, Frame, FrameCode, Locations, Reason
from symd.model.code import CUTE_SYMBOL, PYTHON_SUFFIX
from symd.model.columns import U32

ReadSources = Callable[[list[str]], Mapping[str, str | None]]
"""The texts of source files by their names in frames; None, or nothing, for those that nobody has."""
_LONGEST_HEAD = len(("async", "def", "NAME"))


class Definition(NamedTuple):
    """A function from the line of its ``def`` to its last line."""

    first: int
    last: int
    name: str


class _NamedLine(NamedTuple):
    """A line of a Python file, and the function that the debug data names there (None: it names none)."""

    file: str
    line: int
    function: str | None


class PythonNames:
    """Answers with the names that ``texts`` tell, each file of which is read once."""

    def __init__(self, texts: ReadSources) -> None:
        self._texts = texts
        self._files: dict[str, Sequence[Definition] | None] = {}

    def named(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        """The answers with the names that can be told. INFERRED is one that is CONTRADICTORY for want of these alone. A
        file says nothing where a frame of a function that it defines lies in another one, or one without a name in
        none: it is not the file that was compiled."""
        if isinstance(answers, Answers):
            return self.named_columns(answers)
        if not any(_is_to_be_named(frame) for answer in answers for frame in answer.frames):
            return answers
        frames = {frame for answer in answers for frame in answer.frames if _is_nameless(frame) or not frame.inlined}
        places = [
            _NamedLine(frame.file, frame.line, frame.function)
            for frame in frames
            if frame.file and _is_python(frame.file)
        ]
        names = self._names(places)
        return [_named_answer(answer, names) for answer in answers]

    def named_columns(self, answers: Answers) -> Answers:
        """The answers, as columns, with the names that can be told (``named`` says which)."""
        locations = answers.locations
        nameless = (locations.function == 0) & (locations.linkage_name == 0)
        nameless &= (locations.inlined != 0) & (locations.line > 0)
        text = locations.strings
        roots = (locations.inlined == 0) & (locations.function != 0) & (locations.line > 0)
        files = [file for file in _distinct(locations.file[nameless | roots]) if _is_python(text[file])]
        of_python = np.isin(locations.file, files)
        roots &= of_python
        cute = [function for function in _distinct(locations.function[roots]) if CUTE_SYMBOL in text[function]]
        of_cute = roots & np.isin(locations.function, cute)
        if not (nameless & of_python | of_cute).any():
            return answers
        usable = nameless | (locations.inlined == 0)  # the names of inlined calls as written are what is wrong
        rows = np.flatnonzero(usable & of_python & (locations.line > 0))
        columns = (column[rows].tolist() for column in (locations.file, locations.line, locations.function))
        places = [
            _NamedLine(text[file], line, text[function] or None) for file, line, function in zip(*columns, strict=True)
        ]
        names = self._names(places)
        strings = [*text, *dict.fromkeys(names.values())]
        number = {name: at for at, name in enumerate(strings[len(text) :], len(text))}
        function, reason = locations.function.copy(), locations.reason.copy()
        helpers, lost = [], []
        for at, place in zip(rows.tolist(), places, strict=True):
            if names.get(place):
                function[at] = number[names[place]]
                helpers += [at] if of_cute[at] else []
            elif place in names:
                lost.append(at)
        is_sure = with_all_inside(nameless, locations.parent)
        is_sure &= ~with_all_inside(nameless & (function == 0), locations.parent)
        reason[is_sure & (locations.line > 0) & (reason == Reason.CONTRADICTORY)] = Reason.INFERRED
        named = replace(locations, function=function, reason=reason, strings=strings, shared=False)
        ranges = answers.ranges
        if helpers or lost:
            named = _apart(named, helpers, lost, locations.function)
            inside = set(helpers)
            ranges = {
                at: _of_helper(each) if int(answers.location[at]) in inside else each for at, each in ranges.items()
            }
        return Answers(  # of a daemon a handful comes as rows, which have other fields
            answers.location,
            answers.text_section,
            answers.offset,
            named,
            answers.text_sections,
            answers.candidates,
            ranges,
        )

    def _names(self, places: Sequence[_NamedLine]) -> dict[_NamedLine, str]:
        """The names at the places without one, and at those that have a kernel's of CuTe DSL and are another
        function's."""
        files = dict.fromkeys(place.file for place in places if place.function is None or CUTE_SYMBOL in place.function)
        self._read([file for file in files if file not in self._files])
        found: dict[_NamedLine, str] = {}
        for file in files:
            known = self._files[file]
            mine = {place for place in places if place.file == file} if known else set()
            around = _around(known or (), {place.line for place in mine})
            nameless = [place for place in mine if place.function is None]
            if not known or not _fits(known, mine, around) or not all(around[place.line] for place in nameless):
                continue
            helpers = _helpers(known, mine, around)
            if helpers is not None:
                found |= {place: around[place.line][-1].name for place in nameless} | helpers
        return found

    def _read(self, files: list[str]) -> None:
        texts = self._texts(files) if files else {}
        for file in files:
            text = texts.get(file)
            self._files[file] = None if text is None else definitions(text)


def _distinct(numbers: U32) -> list[int]:
    """The distinct numbers in ascending order."""
    return np.flatnonzero(np.bincount(numbers)).tolist() if len(numbers) else []


def _is_python(file: str | None) -> bool:
    return file is not None and file.endswith(PYTHON_SUFFIX)


def _is_nameless(frame: Frame) -> bool:
    return (
        frame.inlined and not frame.function and not frame.linkage_name and bool(frame.line) and _is_python(frame.file)
    )


def _is_to_be_named(frame: Frame) -> bool:
    return _is_nameless(frame) or (
        not frame.inlined and CUTE_SYMBOL in (frame.function or "") and bool(frame.line) and _is_python(frame.file)
    )


def _named_answer(answer: Answer, names: Mapping[_NamedLine, str]) -> Answer:
    frames: list[Frame] = []
    ranges = answer.ranges
    for frame in answer.frames:
        name = names.get(_NamedLine(frame.file or "", frame.line, frame.function)) if _is_to_be_named(frame) else None
        if name is None:
            frames.append(frame)
            continue
        if name:
            frames.append(frame._replace(function=name, inlined=True))
        if frame.function:
            frames.append(frame._replace(file=None, line=0, column=0))
        if name and frame.function and ranges is not None:
            ranges = _of_helper(ranges)
    if tuple(frames) == answer.frames:
        return answer
    if not frames[0].line:
        return answer._replace(frames=tuple(frames), reason=Reason.CONTRADICTORY)
    is_sure = answer.reason is Reason.CONTRADICTORY and not any(map(_is_nameless, frames))
    return answer._replace(frames=tuple(frames), reason=Reason.INFERRED if is_sure else answer.reason, ranges=ranges)


def _of_helper(ranges: CodeRanges) -> CodeRanges:
    """How far an answer holds whose only frame became two: nothing is known of the code of the first."""
    return ranges._replace(frames=(FrameCode(), *ranges.frames))


def _apart(locations: Locations, helpers: list[int], lost: list[int], kernels: U32) -> Locations:
    """The locations with those of helpers inlined into the kernels that they were said to be, at a place that is not
    known, and others of kernels without a line (``lost``)."""
    count = len(locations)
    columns: dict[str, Any] = {
        each.name: np.append(column, column[helpers])
        for each in fields(locations)
        if isinstance(column := getattr(locations, each.name), np.ndarray)
    }
    columns["function"][count:] = kernels[helpers]
    for name in ("file", "line", "column"):
        columns[name][count:] = 0
        columns[name][lost] = 0
    columns["inlined"][helpers] = 1
    columns["parent"][helpers] = np.arange(count, count + len(helpers))
    columns["reason"][lost] = Reason.CONTRADICTORY
    return replace(locations, **columns)


def _kernel(known: Sequence[Definition], symbol: str) -> Definition | None:
    """The kernel of CuTe DSL that has this symbol; None where several functions could be it, or none."""
    name = f"{symbol.partition(CUTE_SYMBOL)[2]}_"
    named = [each for each in known if name.startswith(f"{each.name}_")]
    longest = max((len(each.name) for each in named), default=0)
    found = [each for each in named if len(each.name) == longest]
    return found[0] if len(found) == 1 else None


def _helpers(
    known: Sequence[Definition], places: Iterable[_NamedLine], around: Mapping[int, Sequence[Definition]]
) -> dict[_NamedLine, str] | None:
    """The places that CuTe DSL says are a kernel's and that lie in another function, with its name, or outside of all,
    such as at a decorator (of the host function that launches the kernel), without one; None where the file is not the
    one that was compiled. Of lines before the kernel the debug data itself tells that they are not the kernel's: they
    have no name."""
    found: dict[_NamedLine, str] = {}
    kernels = {
        symbol: kernel
        for symbol in {place.function or "" for place in places}
        if CUTE_SYMBOL in symbol and (kernel := _kernel(known, symbol))
    }
    for place in places:
        inside = around[place.line]
        if place.function is None and not set(inside).isdisjoint(kernels.values()):
            return None
        kernel = kernels.get(place.function or "")
        if kernel is None or kernel in inside:
            continue
        if not inside or inside[-1].first < kernel.first <= inside[-1].last:
            following = min((each for each in known if each.first > place.line), default=None)
            if following != kernel:  # whose decorators are above it
                found[place] = ""
        elif inside[-1].first < kernel.first:
            return None
        else:
            found[place] = inside[-1].name
    return found


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


def _around(known: Iterable[Definition], lines: Iterable[int]) -> dict[int, tuple[Definition, ...]]:
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
            if len(logical) < _LONGEST_HEAD:
                logical.append(token.string)
                if logical[-2:-1] == ["def"] and logical[:-2] in ([], ["async"]):
                    begun.append((depth, token.start[0], token.string))

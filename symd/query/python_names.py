"""Names for inlined calls that the debug data of Python's compilers leaves without one (``index.functions``): that
of the ``def`` around the frame's line, if the source is at hand. Python's own tokenizer reads the source, because its
parser can be made to crash by untrusted text.
"""

from __future__ import annotations

import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from typing import NamedTuple

import numpy as np

from symd.index.functions import with_all_inside
from symd.model.answers import Answer, Answers, Frame, Reason
from symd.model.code import PYTHON_SUFFIX

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
        if not any(_is_nameless(frame) for answer in answers for frame in answer.frames):
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
        files = [file for file in np.unique(locations.file[nameless]).tolist() if _is_python(locations.strings[file])]
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
        return Answers(  # of a daemon a handful comes as rows, which have other fields
            answers.location,
            answers.text_section,
            answers.offset,
            named,
            answers.text_sections,
            answers.candidates,
            answers.ranges,
        )

    def _names(self, places: Sequence[_NamedLine]) -> dict[tuple[str, int], str]:
        """The names at the places without one, by file and line."""
        files = dict.fromkeys(place.file for place in places if place.function is None)
        self._read([file for file in files if file not in self._files])
        found: dict[tuple[str, int], str] = {}
        for file in files:
            known = self._files[file]
            mine = {place for place in places if place.file == file} if known else set()
            around = _around(known or (), {place.line for place in mine})
            nameless = [place.line for place in mine if place.function is None]
            if known and _fits(known, mine, around) and all(around[line] for line in nameless):
                found |= {(file, line): around[line][-1].name for line in nameless}
        return found

    def _read(self, files: list[str]) -> None:
        texts = self._texts(files) if files else {}
        for file in files:
            text = texts.get(file)
            self._files[file] = None if text is None else definitions(text)


def _is_python(file: str | None) -> bool:
    return file is not None and file.endswith(PYTHON_SUFFIX)


def _is_nameless(frame: Frame) -> bool:
    return (
        frame.inlined and not frame.function and not frame.linkage_name and bool(frame.line) and _is_python(frame.file)
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

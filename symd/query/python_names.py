"""Names for inlined calls that the debug data of Python's compilers leaves without one (``index.functions``): that
of the ``def`` around the frame's line, if the source is at hand. ``cute_lines`` does the same for CuTe DSL, which
tells of no call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from symd.index.functions import with_all_inside
from symd.model.answers import Answer, Answers, Frame, Reason
from symd.query.cute_lines import CuteLines
from symd.query.python_source import Definition, PythonSources, ReadSources, functions_around, is_python


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
        files = [file for file in np.unique(locations.file[nameless]).tolist() if is_python(locations.strings[file])]
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

"""The lines of CuTe DSL's kernels, and whose they are. Nothing in such a kernel tells of inlined calls, so that it has
the lines of its helpers, and at its end that of the decorator of the function that launches it, which runs on the host
(``symd.core.row_scopes``: a line that cannot be the kernel's is answered as an inlined call without a name, any other
as the kernel's, INFERRED). The source tells more, if it is at hand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from symd.model.answers import Answer, Answers, CodeRanges, Frame, FrameCode, Reason
from symd.model.columns import U32
from symd.model.frame_text import CUTE_SYMBOL
from symd.query.python_source import Definition, PythonSources, functions_around, is_python

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

"""All addresses of a profile, each distinct one asked once, in columns: a million samples are a few searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symd.model.answers import Answers, Frame, Reason
from symd.profiles.format import Progress
from symd.profiles.resolver import Resolver, Target

CHUNK = 1 << 20
"""Addresses in one request."""
GOOD = frozenset({Reason.EXACT, Reason.APPROXIMATE, Reason.NO_LINE})
"""What is written into a profile. A name that only the symbol table knows (NO_DEBUG_INFO) is not: it would keep better
debug data from being used later."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The answer to one address; ``frames`` are innermost first and empty unless the answer is to be written.
    ``folded``: other kernels begin where this one does, so the names are one choice of several."""

    reason: Reason
    frames: tuple[Frame, ...] = ()
    folded: bool = False


class Questions:
    """Addresses are added one by one and get a ticket; ``ask`` answers them all, by ticket."""

    def __init__(self) -> None:
        self._targets: dict[Target, int] = {}
        self._tickets: dict[tuple[int, int], int] = {}
        self._refused: dict[Reason, int] = {}

    def target(self, target: Target) -> int:
        """A number for ``add``."""
        return self._targets.setdefault(target, len(self._targets))

    def add(self, target: int, offset: int) -> int:
        """A ticket for this many bytes into a target."""
        key = (target, offset)
        ticket = self._tickets.get(key)
        if ticket is None:
            ticket = self._tickets[key] = len(self._tickets)
        return ticket

    def refuse(self, reason: Reason) -> int:
        """A ticket whose answer is known: there is no place to ask for."""
        return self.add(-1, int(reason))

    def ask(self, resolver: Resolver, progress: Progress) -> list[Resolved]:
        """The answers, by ticket."""
        answers = [Resolved(Reason.OUTSIDE_TEXT)] * len(self._tickets)
        done = 0
        for target, (tickets, offsets) in self._columns().items():
            if target is None:
                for ticket, reason in zip(tickets, offsets, strict=True):
                    answers[ticket] = Resolved(Reason(reason))
                continue
            folds = _Folds(resolver, target)
            for start in range(0, len(tickets), CHUNK):
                progress("looking up addresses", done, len(answers))
                part = slice(start, start + CHUNK)
                found = resolver.symbolize(target, np.array(offsets[part], np.uint64))
                for ticket, answer in zip(tickets[part], _resolved(found, folds), strict=True):
                    answers[ticket] = answer
                done += len(tickets[part])
        progress("looking up addresses", len(answers), len(answers))
        return answers

    def _columns(self) -> dict[Target | None, tuple[list[int], list[int]]]:
        """Target to (tickets, offsets); what no 64-bit address can be is left out and so stays OUTSIDE_TEXT."""
        targets: list[Target | None] = [*self._targets, None]
        columns: dict[Target | None, tuple[list[int], list[int]]] = {target: ([], []) for target in targets}
        for (number, offset), ticket in self._tickets.items():
            if 0 <= offset < 1 << 64:
                tickets, offsets = columns[targets[number]]
                tickets.append(ticket)
                offsets.append(offset)
        return columns


def _resolved(answers: Answers, folds: _Folds) -> Sequence[Resolved]:
    """Frames are made once a location, not once an address."""
    numbers, inverse = np.unique(answers.location, return_inverse=True)
    distinct = [_location(answers, number) for number in numbers.tolist()]
    result = [distinct[at] for at in inverse.tolist()]
    for at in folds.among(answers):
        result[at] = Resolved(result[at].reason, result[at].frames, folded=True)
    return result


def _location(answers: Answers, number: int) -> Resolved:
    reason = Reason(int(answers.locations.reason[number]))
    frames = answers.locations.frames(number) if reason in GOOD else ()
    named = tuple(frame for frame in frames if frame.function or frame.file)
    return Resolved(reason, named)


class _Folds:
    """Where kernels of several names are the same code (identical code folding)."""

    def __init__(self, resolver: Resolver, target: Target) -> None:
        names: dict[tuple[str, int, int, int], set[str]] = {}
        for item in resolver.summary(target.digest).objects:
            for kernel in item.kernels:
                key = (item.path, kernel.section_index, kernel.offset, kernel.size)
                names.setdefault(key, set()).add(kernel.name)
        self._ranges = [key for key, several in names.items() if len(several) > 1]

    def among(self, answers: Answers) -> list[int]:
        """The numbers of the answers that lie in one of them."""
        inside = np.zeros(len(answers), bool)
        for path, section, offset, size in self._ranges:
            places = [
                number + 1
                for number, place in enumerate(answers.text_sections)
                if (place.path, place.section_index) == (path, section)
            ]
            start = np.uint64(offset)
            near = (answers.offset >= start) & (answers.offset - start < np.uint64(size))
            inside |= np.isin(answers.text_section, places) & near
        return [int(at) for at in np.flatnonzero(inside)]

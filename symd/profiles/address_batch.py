"""All addresses of a profile, each distinct one looked up once, in columns: a million samples cost a few searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symd.model.answers import Answers, Frame
from symd.model.reasons import ANSWERED, Reason
from symd.profiles.mapped import PlacedMapping
from symd.profiles.profile_format import Progress
from symd.profiles.resolver import LookupTarget, Resolver

REQUEST_ADDRESSES = 1 << 20
"""Addresses in one request."""
WRITTEN_REASONS = ANSWERED - {Reason.DEBUG_DATA_ELSEWHERE}
"""Reasons whose frames are written into a profile. A name that only the symbol table knows (NO_DEBUG_INFO), or a line
without a function, is not: it would keep better debug data from being used later."""


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """The answer to one address; ``frames`` are innermost first and empty unless the answer is to be written.
    ``folded``: other kernels begin where this one does, so the names are one choice of several."""

    reason: Reason
    frames: tuple[Frame, ...] = ()
    folded: bool = False


class AddressBatch:
    """Addresses are added one by one, each for a handle; ``ask`` then looks all of them up, and its answers are indexed
    by handle. Equal addresses have one handle."""

    def __init__(self) -> None:
        self._targets: dict[LookupTarget, int] = {}
        self._handles: dict[tuple[int, int], int] = {}

    def add(self, target: LookupTarget | PlacedMapping | Reason, offset: int = 0) -> int:
        """The handle of the address ``offset`` bytes into a target, or of an address in what is mapped; that of a
        reason answers with it."""
        if isinstance(target, PlacedMapping):
            offset += target.bias
            target = target.target
        if isinstance(target, Reason):
            key = -1, int(target)
        else:
            key = self._targets.setdefault(target, len(self._targets)), offset
        return self._handles.setdefault(key, len(self._handles))

    def ask(self, resolver: Resolver, progress: Progress) -> list[ResolvedAddress]:
        """The answers, by handle."""
        answers = [ResolvedAddress(Reason.OUTSIDE_TEXT)] * len(self._handles)
        done = 0
        for target, (handles, offsets) in self._columns().items():
            if target is None:
                for handle, reason in zip(handles, offsets, strict=True):
                    answers[handle] = ResolvedAddress(Reason(reason))
                continue
            folded = _FoldedKernels(resolver, target)
            for start in range(0, len(handles), REQUEST_ADDRESSES):
                progress("looking up addresses", done, len(answers))
                part = slice(start, start + REQUEST_ADDRESSES)
                found = resolver.symbolize(target, np.array(offsets[part], np.uint64))
                for handle, answer in zip(handles[part], _resolved(found, folded), strict=True):
                    answers[handle] = answer
                done += len(handles[part])
        progress("looking up addresses", len(answers), len(answers))
        return answers

    def _columns(self) -> dict[LookupTarget | None, tuple[list[int], list[int]]]:
        """Target to (handles, offsets), None for what was refused. A number that is no 64-bit address is left out: its
        answer stays OUTSIDE_TEXT."""
        targets: list[LookupTarget | None] = [*self._targets, None]
        columns: dict[LookupTarget | None, tuple[list[int], list[int]]] = {target: ([], []) for target in targets}
        for (number, offset), handle in self._handles.items():
            if 0 <= offset < 1 << 64:
                handles, offsets = columns[targets[number]]
                handles.append(handle)
                offsets.append(offset)
        return columns


def _resolved(answers: Answers, folded: _FoldedKernels) -> Sequence[ResolvedAddress]:
    """The answers in order; frames are made once for each location, not for each address."""
    numbers, inverse = np.unique(answers.location, return_inverse=True)
    distinct = [_location(answers, number) for number in numbers.tolist()]
    result = [distinct[at] for at in inverse.tolist()]
    for at in folded.holding(answers):
        result[at] = ResolvedAddress(result[at].reason, result[at].frames, folded=True)
    return result


def _location(answers: Answers, number: int) -> ResolvedAddress:
    reason = Reason(int(answers.locations.reason[number]))
    frames = answers.locations.frames(number) if reason in WRITTEN_REASONS else ()
    named = tuple(frame for frame in frames if frame.function or frame.file)
    return ResolvedAddress(reason, named)


class _FoldedKernels:
    """The ranges of code that kernels of several names share (identical code folding)."""

    def __init__(self, resolver: Resolver, target: LookupTarget) -> None:
        names: dict[tuple[str, int, int, int], set[str]] = {}
        for item in resolver.summary(target.digest).objects:
            for kernel in item.kernels:
                key = (item.path, kernel.section_index, kernel.offset, kernel.size)
                names.setdefault(key, set()).add(kernel.name)
        self._ranges = [key for key, several in names.items() if len(several) > 1]

    def holding(self, answers: Answers) -> list[int]:
        """The indexes of the answers that lie in such a range."""
        inside = np.zeros(len(answers), bool)
        for path, section, offset, size in self._ranges:
            numbers = [
                number + 1
                for number, text in enumerate(answers.text_sections)
                if (text.path, text.section_index) == (path, section)
            ]
            start = np.uint64(offset)
            near = (answers.offset >= start) & (answers.offset - start < np.uint64(size))
            inside |= np.isin(answers.text_section, numbers) & near
        return [int(at) for at in np.flatnonzero(inside)]

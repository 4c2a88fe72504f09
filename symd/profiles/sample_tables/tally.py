"""Samples and their weights summed by location, and by source line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.errors import LimitExceeded
from symd.model.answers import Reason
from symd.model.columns import I64, U8, U32
from symd.profiles.sample_tables.location_registry import LocationRegistry, RegistryColumns

Weights = I64 | NDArray[np.float64]
_MAX_SUM = float(1 << 62)


class LineTally(NamedTuple):
    """Lines of functions; texts as numbers of the registry's. Where there is no line, ``line`` and ``file`` are 0 and
    ``reason`` says why; elsewhere ``reason`` is 0."""

    function: U32
    file: U32
    line: U32
    reason: U8


class HotLines(NamedTuple):
    """Lines with what falls on them: ``samples`` that have the line innermost, ``total_samples`` that have it in any
    frame, and their weights."""

    lines: LineTally
    samples: I64
    weight: Weights
    total_samples: I64
    total_weight: Weights


class SampleTally:
    """Sums of samples and weights for each entry of a registry."""

    def __init__(self, registry: LocationRegistry) -> None:
        self._registry = registry
        self._samples = np.zeros(0, np.int64)
        self._weight: Weights = np.zeros(0, np.int64)
        self._magnitude = 0.0

    def add(self, entries: U32, weights: Weights | None) -> None:
        """Count rows; without weights each weighs 1. Raises LimitExceeded where whole weights add up to more than 64
        bits hold."""
        counts = np.bincount(entries, minlength=len(self._registry))
        self._samples = _grown(self._samples, len(counts)).astype(np.int64, copy=False) + counts
        weight: Weights = _grown(self._weight, len(counts))
        if weights is None:
            weight = weight + counts
        elif weights.dtype.kind == "f":
            weight = weight + np.bincount(entries, weights, len(counts))
        else:
            np.add.at(weight, entries.astype(np.intp), weights)
        self._magnitude += len(entries) if weights is None else float(np.abs(weights.astype(np.float64)).sum())
        if weight.dtype.kind != "f" and self._magnitude > _MAX_SUM:
            raise LimitExceeded(
                "the weights add up to more than 64 bits hold", where="weight", hint="give the weights as float64"
            )
        self._weight = weight

    @property
    def reasons(self) -> dict[Reason, int]:
        """How many samples have which reason, most first; without those that name no place."""
        reasons = self._registry.columns().entries.reason[: len(self._samples)]
        counts = np.bincount(reasons, self._samples, minlength=1).astype(np.int64)
        found = {Reason(number): int(counts[number]) for number in np.flatnonzero(counts).tolist() if number}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def samples(self) -> int:
        """The number of all rows."""
        return int(self._samples.sum())

    @property
    def weight(self) -> int | float:
        """The sum of all weights."""
        return self._weight.sum().item() if len(self._weight) else 0

    @property
    def placeless(self) -> int:
        """The number of rows that name no place."""
        return int(self._samples[0]) if len(self._samples) else 0

    def hot_lines(self) -> HotLines:
        """The lines of all samples, those of the greatest weight first. A line that one sample has in several frames
        counts once in its totals."""
        columns = self._registry.columns()
        used = np.flatnonzero(self._samples)
        frames, owner, innermost = _frames_of(columns, used)
        lines, line = _distinct_lines(columns, frames, columns.entries.reason[used][owner])
        samples, weight = self._samples[used], self._weight[used]
        own = _sums(line[innermost], len(lines.line), samples, weight)
        pairs = np.unique(line * len(used) + owner)
        once, whose = np.divmod(pairs, max(len(used), 1))
        total = _sums(once, len(lines.line), samples[whose], weight[whose])
        order = np.lexsort((-total[1], -own[1]))
        ordered = LineTally(lines.function[order], lines.file[order], lines.line[order], lines.reason[order])
        return HotLines(ordered, own[0][order], own[1][order], total[0][order], total[1][order])


def _frames_of(columns: RegistryColumns, entries: I64) -> tuple[I64, I64, I64]:
    """(the frames of entries, -1 for one without any; for each the number of its entry among ``entries``; where the
    innermost of each entry stands)."""
    depth = columns.entries.depth[entries].astype(np.int64)
    count = np.maximum(depth, 1)
    owner = np.repeat(np.arange(len(entries)), count)
    innermost = np.cumsum(count) - count
    frames = columns.frame_ends[entries][owner] - depth[owner] + np.arange(len(owner)) - innermost[owner]
    return np.where(depth[owner] > 0, frames, -1), owner, innermost


def _distinct_lines(columns: RegistryColumns, frames: I64, reason: U8) -> tuple[LineTally, I64]:
    """(the distinct lines of frames; the number of each frame's line among these)."""
    nothing = np.zeros(1, np.uint32)  # what frame -1 has
    function, linkage_name, file, line = (np.concatenate([column, nothing])[frames] for column in columns.frames[:4])
    name = np.where(function != 0, function, linkage_name)
    known = (file != 0) & (line != 0)
    file, line = np.where(known, file, 0), np.where(known, line, 0)
    names = name.astype(np.int64) * len(columns.texts) + file
    _, functions = np.unique(names, return_inverse=True)
    key = functions << 32 | np.where(known, line, reason).astype(np.int64)
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    why = np.where(known, 0, reason).astype(np.uint8)
    return LineTally(name[first], file[first], line[first], why[first]), number


def _sums(numbers: I64, count: int, samples: I64, weight: Weights) -> tuple[I64, Weights]:
    """The samples and the weights of each of ``count`` numbers."""
    sample_sums = np.zeros(count, np.int64)
    weight_sums: Weights = np.zeros(count, weight.dtype)  # type: ignore[assignment] # one of the two
    np.add.at(sample_sums, numbers, samples)
    np.add.at(weight_sums, numbers, weight)
    return sample_sums, weight_sums


def _grown(column: Weights, size: int) -> Weights:
    grown: Weights = np.concatenate([column, np.zeros(size - len(column), column.dtype)])
    return grown

"""A profile's samples as columns, for tables of pandas and Apache Arrow (``symd.model.data_frames``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from symd.model.answers import Frame
from symd.model.data_frames import DataColumn, DataColumns
from symd.profiles.samples import Sample, SampledAddress, SampledProfile, Value

_NO_FRAME = Frame(None, None, None, 0, 0, inlined=False)


def of_profile(profile: SampledProfile, *, frames: bool = False) -> DataColumns:
    """A sample a row: its values, each under its name, with the innermost frame of its leaf and the number of frames of
    its stack (``depth``); or a frame a row, from the leaf's innermost outwards, with the number of its ``sample`` and
    its ``level`` (0: innermost). An entry of a stack that has no frames is one row, which ``label`` names."""
    stacks = [_stack_frames(profile, sample) for sample in profile.samples]
    if not frames:
        whole = _of_samples(profile, profile.samples)
        leaves = [stack[0] if stack else (SampledAddress(""), _NO_FRAME) for stack in stacks]
        depth = {"depth": _numbers([len(stack) for stack in stacks])}
        return DataColumns(whole | _of_frames(profile, leaves) | depth)
    rows = [(number, level) for number, stack in enumerate(stacks) for level in range(len(stack))]
    own = {"sample": _numbers([number for number, _ in rows]), "level": _numbers([level for _, level in rows])}
    whole = _of_samples(profile, [profile.samples[number] for number, _ in rows])
    return DataColumns(own | whole | _of_frames(profile, [each for stack in stacks for each in stack]))


def _stack_frames(profile: SampledProfile, sample: Sample) -> list[tuple[SampledAddress, Frame]]:
    """The frames of a stack, innermost first, each with the address that it is of."""
    entries = [profile.addresses[number] for number in sample.stack]
    return [(entry, frame) for entry in entries for frame in entry.frames or (_NO_FRAME,)]


def _of_samples(profile: SampledProfile, samples: Sequence[Sample]) -> dict[str, DataColumn]:
    """Values, times and tasks."""
    names = _value_names(profile)
    values = {name: _values([sample.values[at] for sample in samples]) for at, name in enumerate(names)}
    tasks = [profile.tasks[sample.task] for sample in samples]
    times = [sample.time for sample in samples]
    return {
        **values,
        "time": _optional(times),
        "process": DataColumn(np.array([task.process for task in tasks], np.int64)),
        "thread": DataColumn(np.array([task.thread for task in tasks], np.int64)),
    }


def _value_names(profile: SampledProfile) -> list[str]:
    """The name of each type of values; with its unit where several have the name, or a column of another kind has."""
    taken = {
        "sample",
        "level",
        "time",
        "process",
        "thread",
        "module",
        "address",
        "label",
        "function",
        "linkage_name",
        "file",
    }
    taken |= {"line", "column", "inlined", "depth"}
    several = {name for name, same in groupby(sorted(kind.name for kind in profile.value_types)) if len([*same]) > 1}
    return [f"{each.name} ({each.unit})" if each.name in several | taken else each.name for each in profile.value_types]


def _of_frames(profile: SampledProfile, rows: Sequence[tuple[SampledAddress, Frame]]) -> dict[str, DataColumn]:
    modules = [None if entry.module is None else profile.modules[entry.module].name for entry, _ in rows]
    known = np.array([frame is not _NO_FRAME for _, frame in rows], np.bool_)
    lines = np.array([frame.line for _, frame in rows], np.uint32)
    columns = np.array([frame.column for _, frame in rows], np.uint32)
    return {
        "module": _texts(modules),
        "address": _optional([entry.address for entry, _ in rows]),
        "label": _texts([entry.label or None for entry, _ in rows]),
        "function": _texts([frame.function for _, frame in rows]),
        "linkage_name": _texts([frame.linkage_name for _, frame in rows]),
        "file": _texts([frame.file for _, frame in rows]),
        "line": DataColumn(lines, missing=~known),
        "column": DataColumn(columns, missing=~known),
        "inlined": DataColumn(np.array([frame.inlined for _, frame in rows], np.bool_)),
    }


def _numbers(values: Sequence[int]) -> DataColumn:
    return DataColumn(np.array(values, np.uint32))


def _optional(values: Sequence[int | None]) -> DataColumn:
    missing: NDArray[np.bool_] = np.array([value is None for value in values], np.bool_)
    return DataColumn(np.array([value or 0 for value in values], np.uint64), missing=missing)


def _values(values: Sequence[Value]) -> DataColumn:
    return DataColumn(np.array(values, np.int64 if all(isinstance(value, int) for value in values) else np.float64))


def _texts(values: Sequence[str | None]) -> DataColumn:
    known: dict[str, int] = {}
    numbers = np.array([known.setdefault(value or "", len(known)) for value in values], np.uint32)
    return DataColumn(numbers, list(known) or [""], np.array([value is None for value in values], np.bool_))

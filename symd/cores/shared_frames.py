"""A dump on its way between processes: each call that stacks have in common is there once."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.cores.stopped import StoppedCore
from symd.errors import DataLoss
from symd.model.cores import CoreFrame


class SharedFrames(NamedTuple):
    """A dump whose stacks share their frames, each of which stands once. ``core`` has stacks without frames. The
    frames of the stack number n are ``counts[n]`` of ``numbers``, those of the stacks before it left out, each the
    number of one of ``frames``."""

    core: StoppedCore
    frames: tuple[CoreFrame, ...]
    numbers: NDArray[np.uint32]
    counts: NDArray[np.uint32]


def shared(core: StoppedCore) -> SharedFrames:
    """The dump with its frames apart."""
    stacks = core.dump.stacks
    numbers: dict[CoreFrame, int] = {}
    of_object: dict[int, int] = {}  # spares to hash a frame again; the stacks keep the objects
    for stack in stacks:
        for frame in stack.frames:
            if id(frame) not in of_object:
                of_object[id(frame)] = numbers.setdefault(frame, len(numbers))
    every = np.array([of_object[id(frame)] for stack in stacks for frame in stack.frames], np.uint32)
    counts = np.array([len(stack.frames) for stack in stacks], np.uint32)
    bare = tuple(replace(stack, frames=()) for stack in stacks)
    return SharedFrames(core._replace(dump=replace(core.dump, stacks=bare)), tuple(numbers), every, counts)


def whole(apart: SharedFrames) -> StoppedCore:
    """The dump with its frames; equal ones are one object. Raises DataLoss where the numbers are not those of frames."""
    core, frames, numbers, counts = apart
    if len(counts) != len(core.dump.stacks) or int(counts.sum()) != len(numbers) or (numbers >= len(frames)).any():
        raise DataLoss("the calls of a dump's stacks do not fit them", where="a reading process")
    ends = np.cumsum(counts.astype(np.uint64)).tolist()
    stacks = tuple(
        replace(stack, frames=tuple(frames[number] for number in numbers[start:end].tolist()))
        for stack, start, end in zip(core.dump.stacks, [0, *ends], ends, strict=False)
    )
    return core._replace(dump=replace(core.dump, stacks=stacks))

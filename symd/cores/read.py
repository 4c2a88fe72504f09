"""One dump of whichever vendor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from symd.cores import StoppedCore, amd, nvidia
from symd.errors import InvalidInput
from symd.formats.budget import Budget
from symd.formats.containers import compressed_file
from symd.formats.containers.amd import amdgpu_core, core_state
from symd.formats.containers.nvidia import cuda_core


class OpenedDump:
    """A dump of whichever vendor, of which ``budget`` is spent by all questions together."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        self._data, self._budget = data, budget

    def stopped(self, frames: Mapping[int, bytes]) -> StoppedCore:
        """Every stopped warp or wave, as ``read`` gives them."""
        return read(self._data, self._budget, frames)

    def memory(self, ranges: Sequence[tuple[int, int]]) -> tuple[bytes | None, ...]:
        """The content of the device's global memory at these addresses and sizes, as ``memory`` gives it."""
        return memory(self._data, self._budget, ranges)

    def contents(self, ranges: Sequence[tuple[int, int]]) -> tuple[bytes | None, ...]:
        """What is at these positions of the dump, in so many bytes; None where it does not have all of it. Raises
        Malformed, LimitExceeded."""
        data = self._data
        whole = compressed_file.expanded(data, self._budget) if compressed_file.claims(data) else data
        found = (whole[position : position + size] for position, size in ranges)
        return tuple(
            content if len(content) == size else None for content, (_, size) in zip(found, ranges, strict=True)
        )


def read(data: bytes, budget: Budget, frames: Mapping[int, bytes] | None = None) -> StoppedCore:
    """Every stopped warp or wave of a dump, which gzip may have compressed. ``frames`` is call frame information that
    somebody else has of the code, by the number of the image. Raises InvalidInput for what is no GPU core dump,
    Malformed, LimitExceeded."""
    if compressed_file.claims(data):
        return _inside(_read(compressed_file.expanded(data, budget), budget, frames))
    return _read(data, budget, frames)


def _read(data: bytes, budget: Budget, frames: Mapping[int, bytes] | None) -> StoppedCore:
    if cuda_core.claims(data):
        return nvidia.read(data, budget)
    if amdgpu_core.claims(data):
        return amd.read(data, budget, frames)
    raise _no_core()


def memory(data: bytes, budget: Budget, ranges: Sequence[tuple[int, int]]) -> tuple[bytes | None, ...]:
    """The content of the device's global memory at these addresses and sizes; None where the dump does not have all of
    it. Raises InvalidInput, Malformed, LimitExceeded."""
    if compressed_file.claims(data):
        data = compressed_file.expanded(data, budget)
    if cuda_core.claims(data):
        return nvidia.memory(data, budget, ranges)
    if amdgpu_core.claims(data):
        core = core_state.Core(data, budget)
        found = (core.memory.read(*each) for each in ranges)
        return tuple(
            content if len(content) == size else None for content, (_, size) in zip(found, ranges, strict=True)
        )
    raise _no_core()


def _no_core() -> InvalidInput:
    return InvalidInput("is not a GPU core dump", hint="the format of the module says what it is")


def _inside(stopped: StoppedCore) -> StoppedCore:
    """The dump of a compressed file: its code objects lie one level deeper."""
    images = tuple(
        each if each.path is None else replace(each, path=f"{compressed_file.INSIDE}/{each.path}")
        for each in stopped.dump.images
    )
    return stopped._replace(dump=replace(stopped.dump, images=images))

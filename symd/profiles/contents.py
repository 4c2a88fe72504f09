"""What is in a profile before any module is given: the modules and kernels that its samples lie in, and how many of
these have no line yet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from symd.profiles.placed import SampleColumns, sample_columns
from symd.profiles.resolver import is_code_file, module_file_name
from symd.profiles.samples import (
    SampledAddress,
    SampledModule,
    SampledProfile,
    Value,
    counted_from,
    shown_frames,
    shown_name,
)

_CUBIN = re.compile(r"cubin-([0-9a-f]{16}|)")
"""What CUPTI's cubins are called here, by their CRC; one that has none cannot be given."""


class NamedPart(NamedTuple):
    """What a profile calls a module or a kernel. ``build_id`` and ``identity`` are "" where it has none, as kernels
    have; ``identity`` is the number of a code object. A kernel without a name is code of which nothing is known."""

    name: str
    build_id: str = ""
    identity: str = ""

    @property
    def wanted(self) -> str:
        """The ID that ``-m ID=FILE`` gives a module; "" for memory of a process such as [jit], which is no file."""
        if self.name.startswith("["):
            return ""
        if crc := _CUBIN.fullmatch(self.name):
            return f"{int(crc[1], 16):#x}" if crc[1] else ""
        return self.identity or module_file_name(self.name) or self.build_id


@dataclass(slots=True)
class PartSamples:
    """The weight of the samples in a module or a kernel, and that of those without a line."""

    value: Value = 0
    without_line: Value = 0
    is_wanted: bool = False
    """Whether one of them lies at an address without a line."""


class ProfileContents(NamedTuple):
    """A profile's samples by the modules that they lie in, and by the kernels where it names no module. ``columns``
    say what is counted."""

    columns: SampleColumns
    modules: dict[NamedPart, PartSamples]
    kernels: dict[NamedPart, PartSamples]
    total: Value

    def wanted(self) -> Iterator[str]:
        """The IDs of the modules that have samples without a line."""
        return (part.wanted for part, each in self.modules.items() if each.is_wanted and part.wanted)

    def is_kernel_wanted(self) -> bool:
        """Whether samples without a line count from the begin of a kernel."""
        return any(each.is_wanted for each in self.kernels.values())


def contents(profile: SampledProfile) -> ProfileContents:
    """Sum the samples of a profile by their leaves, the heaviest module and kernel first."""
    columns = sample_columns(profile)
    modules = {_module_part(each): PartSamples() for each in profile.modules}
    kernels: dict[NamedPart, PartSamples] = {}
    total: Value = 0
    leaves: dict[int, _Leaf] = {}  # many samples have few leaves
    for sample in profile.samples:
        weight = columns.sample_weight(columns.of(sample, profile))
        total += weight
        number = sample.stack[0] if sample.stack else _NO_STACK
        if (leaf := leaves.get(number)) is None:
            address = SampledAddress("(no stack)") if number == _NO_STACK else profile.addresses[number]
            leaf = leaves[number] = _leaf(address, profile)
        found = (modules if leaf.is_in_module else kernels).setdefault(leaf.part, PartSamples())
        found.value += weight
        if not leaf.has_line:
            found.without_line += weight
            found.is_wanted = found.is_wanted or leaf.is_place
    return ProfileContents(columns, _heaviest_first(modules), _heaviest_first(kernels), total)


def _heaviest_first(parts: dict[NamedPart, PartSamples]) -> dict[NamedPart, PartSamples]:
    return dict(sorted(parts.items(), key=lambda item: (-item[1].value, item[0])))


def _module_part(module: SampledModule) -> NamedPart:
    return NamedPart(module.name, module.build_id, module.identity)


_NO_STACK = -1


class _Leaf(NamedTuple):
    """What an address lies in, whether that is a module, whether it can be found in a file, and whether it has a
    line."""

    part: NamedPart
    is_in_module: bool
    is_place: bool
    has_line: bool


def _leaf(address: SampledAddress, profile: SampledProfile) -> _Leaf:
    part, is_in_module = _part_of(address, profile)
    is_place = address.address is not None and bool(address.module is not None or counted_from(address))
    return _Leaf(part, is_in_module, is_place, any(frame.line for frame in address.frames[:1]))


def _part_of(address: SampledAddress, profile: SampledProfile) -> tuple[NamedPart, bool]:
    """What an address lies in, and whether that is a module."""
    if address.module is not None:
        return _module_part(profile.modules[address.module]), True
    name = counted_from(address)
    if address.address is not None and not address.frames:
        return NamedPart(name), is_code_file(name)
    return NamedPart(shown_name(shown_frames(address)[-1])), False

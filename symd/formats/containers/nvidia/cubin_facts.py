"""What a cubin says of its kernels and of itself beside the code: registers, memory, barriers, parameters, attributes.

Sections that belong to a function (.nv.info.F, .nv.shared.F, .nv.constantN.F) name its text section in sh_info; that
number is the key, because names repeat in linked images."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property

from symd.errors import Malformed
from symd.formats import elf
from symd.formats.containers.nvidia import nv_info
from symd.formats.elf.constants import ELFABIVERSION_CUDA_V2, SHT_CUDA_COMPAT, SHT_CUDA_INFO
from symd.model.code import Section
from symd.model.named_tuples import NamedTuple

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from typing import Any

CUDA_ACCELERATOR_TARGET = 0x09
_OF_SYMBOL = {
    "registers": nv_info.REGCOUNT,
    "frame_size": nv_info.FRAME_SIZE,
    "min_stack_size": nv_info.MIN_STACK_SIZE,
    "max_stack_size": nv_info.MAX_STACK_SIZE,
}
NOT_KNOWN = 0xFFFFFFFF
"""The stack size of a kernel of which ptxas cannot tell it, because functions call themselves."""


_GLOBAL = (".nv.global", ".nv.global.init")
_NO_ATTRIBUTES = nv_info.PackedAttributes(b"", "")
_BANK = re.compile(r"\.nv\.constant(\d+)")


class CubinFacts:
    """What one image says, each part read when somebody first looks at it. In an image without ``kernels`` nobody asks what functions
    say of themselves. A section that is damaged becomes one of the ``warnings`` and is left out."""

    def __init__(self, image: elf.Elf, *, kernels: bool) -> None:
        self._image, self._has_kernels = image, kernels
        self._damage: dict[int, str] = {}

    @property
    def accelerated(self) -> bool:
        """Whether .nv.compat asks for an architecture-specific target."""
        return any(one["id"] == CUDA_ACCELERATOR_TARGET and one["value"] == 1 for one in self._compatibility)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is left out, in the order of the sections."""
        self._common, self._own, self._compatibility  # noqa: B018 - whoever reads these finds out
        return tuple(text for _, text in sorted(self._damage.items()))

    @property
    def of_image(self) -> dict[str, Any]:
        """Facts of the whole image."""
        return {
            "constant_banks": self._memory.common_banks,
            "global_memory": self._memory.of_globals,
            "attributes": [one for each in self._common for one in each.of_image()],
            "compatibility": self._compatibility,
        }

    def of_kernel(self, text: Section, symbol: int) -> dict[str, Any]:
        """What is said of the kernel in this text section that has this symbol number; what the image does not say is absent. Its attributes are
        ``PackedAttributes``."""
        number, memory = text.index, self._memory
        attributes = self._own.get(number, _NO_ATTRIBUTES)
        barriers, max_threads, required_threads, parameter_bytes, arguments = attributes.of_kernel
        if barriers is None:
            barriers = 0 if self._image.header.abi_version >= ELFABIVERSION_CUDA_V2 else text.flags >> 20 & 0x7F
        facts: dict[str, Any] = {
            "registers": text.info >> 24,
            "shared_memory": memory.shared.get(number, 0),
            "local_memory": memory.local.get(number, 0),
            "constant_banks": dict(sorted(memory.banks.get(number, {}).items())),
            "barriers": barriers,
        }
        if max_threads is not None:
            facts["max_threads"] = max_threads
        if required_threads is not None:
            facts["required_threads"] = required_threads
        if parameter_bytes is not None:
            facts["parameter_bytes"] = parameter_bytes
        facts["arguments"], facts["attributes"] = arguments, attributes
        sizes = self._sizes.get(symbol)
        if sizes:
            facts |= _of_symbol(sizes)
        return facts

    def records_of(self, text: Section) -> int:
        """How many arguments and attributes kernels in this text section have."""
        attributes = self._own.get(text.index, _NO_ATTRIBUTES)
        return len(attributes) + len(attributes.of_kernel.arguments)

    @cached_property
    def _own(self) -> dict[int, nv_info.PackedAttributes]:
        """By text section number: the records of its functions' own .nv.info."""
        sections = self._info_sections(own=True) if self._has_kernels else ()
        return {section.info: self._attributes(section) for section in sections}

    @cached_property
    def _common(self) -> list[nv_info.PackedAttributes]:
        """The records of .nv.info, which is about all functions."""
        return [self._attributes(each) for each in self._info_sections(own=False)]

    def _info_sections(self, *, own: bool) -> Iterator[Section]:
        found = self._image.of_type(SHT_CUDA_INFO)
        return (section for section in found if section.name.startswith(".nv.info.") is own)

    @cached_property
    def _compatibility(self) -> list[dict[str, Any]]:
        sections = self._image.of_type(SHT_CUDA_COMPAT)
        return [one for each in sections for one in self._attributes(each, nv_info.COMPATIBILITY_NAMES).plain()]

    def _attributes(self, section: Section, names: Mapping[int, str] = nv_info.NAMES) -> nv_info.PackedAttributes:
        try:
            return nv_info.PackedAttributes(section.data, section.name, names)
        except Malformed as error:
            self._damage[section.index] = f"{error}; its attributes are left out"
            return _NO_ATTRIBUTES

    @cached_property
    def _sizes(self) -> dict[int, dict[int, int]]:
        """By symbol number: {attribute id: number}."""
        return nv_info.by_symbol([*self._common, *self._own.values()])

    @cached_property
    def _memory(self) -> _Memory:
        return _memory(self._image)


def _of_symbol(sizes: Mapping[int, int]) -> dict[str, int]:
    """The facts of a function of which records say so much."""
    known = {name: sizes[number] for name, number in _OF_SYMBOL.items() if sizes.get(number, NOT_KNOWN) != NOT_KNOWN}
    if sizes.get(nv_info.MIN_STACK_SIZE) == NOT_KNOWN:
        known["dynamic_stack"] = True
    return known


class _Memory(NamedTuple):
    """Bytes of sections beside the code: of shared and local memory and of each constant bank, whose number is text, by text section number, and of
    constant banks and global memory of the whole image."""

    shared: dict[int, int]
    local: dict[int, int]
    banks: dict[int, dict[str, int]]
    common_banks: dict[str, int]
    of_globals: int


def _memory(image: elf.Elf) -> _Memory:
    shared: dict[int, int] = {}
    local: dict[int, int] = {}
    banks: defaultdict[int, dict[str, int]] = defaultdict(dict)
    common: dict[str, int] = {}
    of_globals = 0
    for section in image.sections:
        name = section.name
        if section.type == SHT_CUDA_INFO:
            continue
        if name.startswith(".nv.constant"):
            found = _BANK.match(name)
            if found:
                (banks[section.info] if section.info else common)[found[1]] = section.size
        elif name.startswith(".nv.shared."):
            shared[section.info] = section.size
        elif name.startswith(".nv.local."):
            local[section.info] = section.size
        elif name in _GLOBAL:
            of_globals += section.size
    shared.pop(0, None)
    local.pop(0, None)
    return _Memory(shared, local, banks, common, of_globals)

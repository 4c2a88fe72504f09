"""What a cubin says of its kernels and of itself beside the code: registers, memory, barriers, parameters, attributes.

Sections that belong to a function (.nv.info.F, .nv.shared.F, .nv.constantN.F) name its text section in sh_info; that
number is the key, because names repeat in linked images."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from symd import elf
from symd.containers.nvidia import nv_info
from symd.elf.constants import ELFABIVERSION_CUDA_V2, SHT_CUDA_COMPAT, SHT_CUDA_INFO
from symd.errors import Malformed
from symd.model.code import Section

CUDA_ACCELERATOR_TARGET = 0x09
_OF_SYMBOL = {
    "registers": nv_info.REGCOUNT,
    "frame_size": nv_info.FRAME_SIZE,
    "min_stack_size": nv_info.MIN_STACK_SIZE,
    "max_stack_size": nv_info.MAX_STACK_SIZE,
}
NOT_KNOWN = 0xFFFFFFFF
"""As a stack size: ptxas cannot tell, because functions call themselves."""


_GLOBAL = (".nv.global", ".nv.global.init")
_BANK = re.compile(r"\.nv\.constant(\d+)")


class CubinFacts:
    """What one image says, each part read when somebody first looks at it. In an image without ``kernels`` nobody asks what functions
    say of themselves. A section that is damaged becomes one of the ``warnings`` and is left out."""

    def __init__(self, image: elf.Elf, *, kernels: bool) -> None:
        self._image, self._has_kernels = image, kernels
        self._damage: dict[int, str] = {}
        self._texts: dict[int, dict[str, Any]] = {}

    @property
    def accelerated(self) -> bool:
        """Whether .nv.compat asks for an architecture-specific target."""
        return any(one.id == CUDA_ACCELERATOR_TARGET and one.value == 1 for one in self._compatibility)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is left out, in the order of the sections."""
        self._common, self._own, self._compatibility  # noqa: B018 - whoever reads these finds out
        return tuple(text for _, text in sorted(self._damage.items()))

    @property
    def of_image(self) -> dict[str, Any]:
        """Facts of the whole image."""
        return {
            "constant_banks": self._banks[1],
            "global_memory": sum(one.size for one in self._image.sections if one.name in _GLOBAL),
            "attributes": nv_info.as_facts(one for one in self._common if one.id not in nv_info.OF_SYMBOL),
            "compatibility": nv_info.as_facts(self._compatibility),
        }

    def of_kernel(self, text: Section, symbol: int) -> dict[str, Any]:
        """What is said of the kernel in this text section that has this symbol number; what the image does not say is absent."""
        return self.of_text(text) | self._of_symbol(symbol)

    def of_text(self, text: Section) -> dict[str, Any]:
        """What kernels in this text section have in common."""
        found = self._texts.get(text.index)
        if found is None:
            found = self._texts[text.index] = self._read_text(text)
        return found

    def _read_text(self, text: Section) -> dict[str, Any]:
        newer = self._image.header.abi_version >= ELFABIVERSION_CUDA_V2
        attributes = self._own.get(text.index, [])
        facts: dict[str, Any] = {
            "registers": text.info >> 24,
            "shared_memory": self._shared.get(text.index, 0),
            "local_memory": self._local.get(text.index, 0),
            "constant_banks": dict(sorted(self._banks[0].get(text.index, {}).items())),
            "barriers": _number(attributes, nv_info.NUM_BARRIERS, 0 if newer else text.flags >> 20 & 0x7F),
            "max_threads": _words(attributes, nv_info.MAX_THREADS),
            "required_threads": _words(attributes, nv_info.REQNTID),
            "parameter_bytes": _number(attributes, nv_info.CBANK_PARAM_SIZE, None),
            "arguments": nv_info.parameters(attributes),
            "attributes": nv_info.as_facts(attributes),
        }
        return {name: value for name, value in facts.items() if value is not None}

    def _of_symbol(self, symbol: int) -> dict[str, int]:
        """What is said of the function with that symbol number alone."""
        sizes = self._sizes.get(symbol, {})
        known = {
            name: sizes[number] for name, number in _OF_SYMBOL.items() if sizes.get(number, NOT_KNOWN) != NOT_KNOWN
        }
        dynamic = sizes.get(nv_info.MIN_STACK_SIZE) == NOT_KNOWN
        return known | ({"dynamic_stack": True} if dynamic else {})

    @cached_property
    def _own(self) -> dict[int, list[nv_info.Attribute]]:
        """By text section number: the records of its functions' own .nv.info."""
        sections = self._info_sections(own=True) if self._has_kernels else ()
        return {section.info: self._attributes(section, nv_info.NAMES) for section in sections}

    @cached_property
    def _common(self) -> list[nv_info.Attribute]:
        """The records of .nv.info, which is about all functions."""
        return [one for each in self._info_sections(own=False) for one in self._attributes(each, nv_info.NAMES)]

    def _info_sections(self, *, own: bool) -> Iterator[Section]:
        found = (section for section in self._image.sections if section.type == SHT_CUDA_INFO)
        return (section for section in found if section.name.startswith(".nv.info.") is own)

    @cached_property
    def _compatibility(self) -> list[nv_info.Attribute]:
        sections = (section for section in self._image.sections if section.type == SHT_CUDA_COMPAT)
        return [one for each in sections for one in self._attributes(each, nv_info.COMPATIBILITY_NAMES)]

    def _attributes(self, section: Section, names: Mapping[int, str]) -> list[nv_info.Attribute]:
        try:
            return nv_info.read(section.data, section.name, names)
        except Malformed as error:
            self._damage[section.index] = f"{error}; its attributes are left out"
            return []

    @cached_property
    def _sizes(self) -> dict[int, dict[int, int]]:
        """By symbol number: {attribute id: number}."""
        return nv_info.by_symbol(one for records in (self._common, *self._own.values()) for one in records)

    @cached_property
    def _shared(self) -> dict[int, int]:
        return _by_function(self._image, ".nv.shared.")

    @cached_property
    def _local(self) -> dict[int, int]:
        return _by_function(self._image, ".nv.local.")

    @cached_property
    def _banks(self) -> tuple[dict[int, dict[str, int]], dict[str, int]]:
        return _banks(self._image)


def _number(attributes: list[nv_info.Attribute], number: int, otherwise: int | None) -> int | None:
    return next((one.value for one in attributes if one.id == number and isinstance(one.value, int)), otherwise)


def _words(attributes: list[nv_info.Attribute], number: int) -> list[int] | None:
    return next((list(one.words(1)) for one in attributes if one.id == number and one.words(1)), None)


def _by_function(image: elf.Elf, prefix: str) -> dict[int, int]:
    """Text section number -> size of the section with that prefix."""
    return {
        section.info: section.size for section in image.sections if section.name.startswith(prefix) and section.info
    }


def _banks(image: elf.Elf) -> tuple[dict[int, dict[str, int]], dict[str, int]]:
    """Constant banks of each text section, and those of the whole image: bank number (as text) -> bytes."""
    own: defaultdict[int, dict[str, int]] = defaultdict(dict)
    common: dict[str, int] = {}
    for section in image.sections:
        if found := _BANK.match(section.name):
            (own[section.info] if section.info else common)[found[1]] = section.size
    return own, common

"""What a cubin says of its kernels and of itself beside the code: registers, memory, barriers, parameters, attributes.

Sections that belong to a function (.nv.info.F, .nv.shared.F, .nv.constantN.F) name its text section in sh_info; that
number is the key, because names repeat in linked images."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from symd import elf
from symd.containers.nvidia import nv_info
from symd.elf.constants import SHT_CUDA_COMPAT, SHT_CUDA_INFO
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


class Described(NamedTuple):
    """By text section number: ``attributes`` (of the function's own .nv.info), ``shared`` and ``local`` (bytes),
    ``banks`` (constant bank -> bytes). By symbol number: ``sizes`` ({attribute id: number}). ``image``: facts of the whole
    image; ``accelerated``: .nv.compat asks for an architecture-specific target."""

    attributes: Mapping[int, list[nv_info.Attribute]]
    sizes: Mapping[int, Mapping[int, int]]
    shared: Mapping[int, int]
    local: Mapping[int, int]
    banks: Mapping[int, Mapping[str, int]]
    image: Mapping[str, Any]
    accelerated: bool

    def of_text(self, text: Section, *, newer: bool) -> dict[str, Any]:
        """What kernels in this text section have in common; what the image does not say is absent."""
        attributes = self.attributes.get(text.index, [])
        facts: dict[str, Any] = {
            "registers": text.info >> 24,
            "shared_memory": self.shared.get(text.index, 0),
            "local_memory": self.local.get(text.index, 0),
            "constant_banks": dict(sorted(self.banks.get(text.index, {}).items())),
            "barriers": _number(attributes, nv_info.NUM_BARRIERS, 0 if newer else text.flags >> 20 & 0x7F),
            "max_threads": _words(attributes, nv_info.MAX_THREADS),
            "required_threads": _words(attributes, nv_info.REQNTID),
            "parameter_bytes": _number(attributes, nv_info.CBANK_PARAM_SIZE, None),
            "arguments": nv_info.parameters(attributes),
            "attributes": nv_info.as_facts(attributes),
        }
        return {name: value for name, value in facts.items() if value is not None}

    def of_symbol(self, symbol: int) -> dict[str, int]:
        """What is said of the function with that symbol number alone."""
        sizes = self.sizes.get(symbol, {})
        known = {
            name: sizes[number] for name, number in _OF_SYMBOL.items() if sizes.get(number, NOT_KNOWN) != NOT_KNOWN
        }
        dynamic = sizes.get(nv_info.MIN_STACK_SIZE) == NOT_KNOWN
        return known | ({"dynamic_stack": True} if dynamic else {})


def _number(attributes: list[nv_info.Attribute], number: int, otherwise: int | None) -> int | None:
    return next((one.value for one in attributes if one.id == number and isinstance(one.value, int)), otherwise)


def _words(attributes: list[nv_info.Attribute], number: int) -> list[int] | None:
    return next((list(one.words(1)) for one in attributes if one.id == number and one.words(1)), None)


def describe(image: elf.Elf, warnings: list[str], *, kernels: bool) -> Described:
    """Read every section that speaks of functions. What is damaged becomes a warning and is left out. In an image without
    ``kernels`` nobody asks what functions say of themselves."""
    own: dict[int, list[nv_info.Attribute]] = {}
    common: list[nv_info.Attribute] = []
    compatibility: list[nv_info.Attribute] = []
    for section in image.sections:
        if section.type == SHT_CUDA_INFO and section.name.startswith(".nv.info."):
            if kernels:
                own[section.info] = _attributes(section, nv_info.NAMES, warnings)
        elif section.type == SHT_CUDA_INFO:
            common += _attributes(section, nv_info.NAMES, warnings)
        elif section.type == SHT_CUDA_COMPAT:
            compatibility += _attributes(section, nv_info.COMPATIBILITY_NAMES, warnings)
    banks, shared_banks = _banks(image)
    facts = {
        "constant_banks": shared_banks,
        "global_memory": sum(one.size for one in image.sections if one.name in _GLOBAL),
        "attributes": nv_info.as_facts(one for one in common if one.id not in nv_info.OF_SYMBOL),
        "compatibility": nv_info.as_facts(compatibility),
    }
    accelerated = any(one.id == CUDA_ACCELERATOR_TARGET and one.value == 1 for one in compatibility)
    sizes = nv_info.by_symbol(one for records in (common, *own.values()) for one in records)
    shared, local = _by_function(image, ".nv.shared."), _by_function(image, ".nv.local.")
    return Described(own, sizes, shared, local, banks, facts, accelerated)


def _attributes(section: Section, names: Mapping[int, str], warnings: list[str]) -> list[nv_info.Attribute]:
    try:
        return nv_info.read(section.data, section.name, names)
    except Malformed as error:
        warnings.append(f"{error}; its attributes are left out")
        return []


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

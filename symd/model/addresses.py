"""The kinds of address, which are types and never one ``int``, and the ways to ask by each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

ObjectAddress = NewType("ObjectAddress", int)
"""An address inside one code object, as its ELF says it (sh_addr + offset)."""


KernelOffset = NewType("KernelOffset", int)
"""Bytes from the first byte of a kernel's own text."""


SectionOffset = NewType("SectionOffset", int)
"""Bytes from the start of a section."""


DeviceAddress = NewType("DeviceAddress", int)
"""Where the device fetched the instruction: load base + object address."""


@dataclass(frozen=True, slots=True)
class ByAddress:
    """Ask by object address."""

    address: ObjectAddress


@dataclass(frozen=True, slots=True)
class ByKernel:
    """Ask by the name of a kernel, or of another function with code of its own, and an offset from its first byte."""

    kernel: str
    offset: KernelOffset


@dataclass(frozen=True, slots=True)
class BySection:
    """Ask by section (its name, or its number in the section table) and section offset."""

    section: str | int
    offset: SectionOffset


Query = ByAddress | ByKernel | BySection

"""What a code object is: sections, functions, kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

NO_FACTS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Section:
    """One ELF section; ``content`` is what stands in the file (empty for NOBITS), already decompressed, or reads it when
    somebody looks: most questions need few of an object's sections."""

    index: int
    name: str
    type: int
    flags: int
    address: int
    size: int
    content: bytes | Callable[[], bytes] = field(repr=False)
    link: int = 0
    info: int = 0
    entry_size: int = 0

    @cached_property
    def data(self) -> bytes:
        """The content itself."""
        return self.content if isinstance(self.content, bytes) else self.content()

    @property
    def executable(self) -> bool:
        return bool(self.flags & 0x4)  # SHF_EXECINSTR


class Function(NamedTuple):
    """A named code range, from a symbol: ``offset`` counts from the start of section ``section_index``."""

    name: str
    section_index: int
    offset: int
    size: int


class Kernel(NamedTuple):
    """An entry point the host can launch. ``facts`` is what the format says of it, JSON-ready, with names such as
    ``simd_width``, ``registers``, ``shared_memory``, ``arguments``."""

    name: str
    section_index: int
    offset: int
    size: int
    facts: Mapping[str, Any] = NO_FACTS


@dataclass(frozen=True, slots=True)
class CodeObject:
    """One ELF image (or SPIR-V module) for one target.

    ``path`` is its nesting path inside the module ("" when the module is one); ``relocation`` names the scheme its
    debug sections need (a key of ``debuginfo.relocation.SCHEMES``); ``linked`` says that section addresses are final
    and do not overlap; ``debug`` is "dwarf-4", "dwarf-5", "line-only", "spirv" or "none".
    """

    path: str
    format: str
    target: str | None
    data: bytes = field(repr=False)
    sections: tuple[Section, ...] = field(default=(), repr=False)
    kernels: tuple[Kernel, ...] = field(default=(), repr=False)
    functions: tuple[Function, ...] = field(default=(), repr=False)
    relocation: str = "none"
    linked: bool = True
    debug: str = "none"
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    warnings: Sequence[str] = ()

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)

"""The debug sections that the units of one object are read from, as one value: by what they hold, not by what an object
file calls them, so that whoever has the sections under other names, or in two files, makes another such value.

Collected warnings, of which damaged data can give very many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from symd.model.texts import counted

if TYPE_CHECKING:
    from symd.debuginfo.dwarf.split_units import Contributions
    from symd.formats.budget import DebugBudget


class DebugSection(NamedTuple):
    """One section: ``name`` is what errors and warnings call it, and its place in ``contents``. ``split`` says of
    ``.debug_info`` which of its units come from ``.dwo`` files; these stand behind all others."""

    name: str
    contents: Mapping[str, bytes]
    split: tuple[Contributions, ...] = ()

    @property
    def data(self) -> bytes:
        """The bytes of the section, little-endian, relocated and decompressed; empty where the section is absent.
        Read when asked for if ``contents`` does so."""
        return self.contents.get(self.name, b"")


class DebugSections(NamedTuple):
    """Sections by role (DWARF 5, 7.1 and appendix B): ``ranges`` and ``locations`` are the lists of DWARF 2 to 4,
    ``range_lists`` and ``location_lists`` those of DWARF 5. ``budget`` counts what reading them takes; None: any amount."""

    info: DebugSection
    abbreviations: DebugSection
    lines: DebugSection
    strings: DebugSection
    line_strings: DebugSection
    string_offsets: DebugSection
    addresses: DebugSection
    ranges: DebugSection
    range_lists: DebugSection
    locations: DebugSection
    location_lists: DebugSection
    budget: DebugBudget | None = None

    @classmethod
    def of(cls, contents: Mapping[str, bytes], budget: DebugBudget | None = None) -> DebugSections:
        """The sections of an object that holds all of its debug data, by ELF name."""
        return cls._make((*(DebugSection(name, contents) for name in ELF_NAMES), budget))

    def every(self) -> tuple[DebugSection, ...]:
        return self[:-1]

    def spend(self, steps: int, where: str) -> None:
        """Count steps of reading that are about to be taken; ``where`` is what an error names. Raises LimitExceeded."""
        if self.budget is not None:
            self.budget.spend(steps, where)


ELF_NAMES = (
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_str",
    ".debug_line_str",
    ".debug_str_offsets",
    ".debug_addr",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_loc",
    ".debug_loclists",
)
"""ELF's names of the sections, in the order of the fields of ``DebugSections``."""


_KEPT = 100


class Warnings:
    """The first hundred warnings in full, and a count of the others."""

    def __init__(self, known: tuple[str, ...] = ()) -> None:
        self._texts = list(known)
        self._more = 0

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> None:
        if len(self._texts) < _KEPT:
            self._texts.append(text)
        else:
            self._more += 1

    def all(self) -> tuple[str, ...]:
        return (*self._texts, *([f"and {counted(self._more, 'more warning')}"] if self._more else []))

"""Split DWARF joined: a code object and the ``.dwo`` files or the ``.dwp`` package that its compiler left beside it, as
one image. The object stays in its place byte for byte; their sections follow it.
"""

from __future__ import annotations

from collections.abc import Sequence

from symd.debuginfo.dwarf.sections import DWO_NAMES, UNIT_INDEX, DebugSections, split_contents, with_split
from symd.debuginfo.dwarf.units import Unit, read_units, split_units
from symd.errors import HashMismatch, NoDebugData
from symd.formats import elf
from symd.formats.budget import Budget, DebugBudget
from symd.formats.elf.constants import SHF_COMPRESSED, SHT_PROGBITS
from symd.formats.elf.writer import OutputSection, with_sections

_DWO_NAME_ATTRIBUTES = (b"\x76", b"\xb0\x42")
"""DW_AT_dwo_name and DW_AT_GNU_dwo_name as abbreviations spell them: where neither stands no unit need be read."""
_SECTION_ORDER = (*DWO_NAMES.values(), UNIT_INDEX)
"""``.debug_info.dwo`` comes first: where several files follow each other it begins one."""


def skeletons(data: bytes, budget: Budget) -> tuple[Unit, ...]:
    """The units of a code object whose debug data is elsewhere, not in sections of its own either. Raises Malformed,
    LimitExceeded."""
    image = elf.parse(data, budget)
    return () if split_contents(image.sections) else _split_off(image, budget)


def _split_off(image: elf.Elf, budget: Budget) -> tuple[Unit, ...]:
    abbreviations = image.by_name.get(".debug_abbrev")
    if abbreviations is None or not any(name in abbreviations.data for name in _DWO_NAME_ATTRIBUTES):
        return ()
    contents = {each.name: each.data for each in image.sections if each.name.startswith(".debug_")}
    sections = DebugSections.of(contents, DebugBudget(budget.limits, len(image.data)))
    return tuple(unit for unit in read_units(sections).units if unit.dwo_name)


def has_units(data: bytes, budget: Budget) -> bool:
    """Whether ``data`` is a ``.dwo`` file or a ``.dwp`` package: an ELF file with a ``.debug_info.dwo``. Raises
    Malformed."""
    return elf.kind(data) is not None and DWO_NAMES["info"] in elf.parse(data, budget).by_name


def check_same_build(data: bytes, file: bytes, budget: Budget) -> None:
    """Raises HashMismatch where no unit of the ``.dwo`` file or package belongs to the code object ``data``."""
    wanted = {unit.dwo_id for unit in _split_off(elf.parse(data, budget), budget)}
    none = DebugSections.of({}, DebugBudget(budget.limits, len(file)))
    sections = with_split(none, split_contents(elf.parse(file, budget).sections))
    if wanted.isdisjoint(unit.dwo_id for unit in split_units(sections)):
        hint = "give the file that was written with this object"
        raise HashMismatch("the .dwo file or package belongs to another code object", hint=hint)


def with_dwo(data: bytes, files: Sequence[bytes], budget: Budget) -> bytes:
    """``data`` with the sections of these files. Raises NoDebugData for a file that has none, Malformed."""
    added: list[OutputSection] = []
    for file in files:
        image = elf.parse(file, budget)
        found = [image.by_name[name] for name in _SECTION_ORDER if name in image.by_name]
        if not found or found[0].name != DWO_NAMES["info"]:
            raise NoDebugData("it has no .debug_info.dwo: it is neither a .dwo file nor a .dwp package")
        added += [
            OutputSection(each.name, SHT_PROGBITS, each.flags & ~SHF_COMPRESSED, size=len(each.data), content=each.data)
            for each in found
        ]
    return with_sections(data, added)

"""Debug sections with their relocations applied, so that every address in them is one of the layout's linear addresses.
Each vendor has a scheme of its own; adding one is one new module and one line in MODULES."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from symd.debuginfo.dwarf.sections import DWO_NAMES, DebugSections, split_contents, with_split
from symd.debuginfo.layout import LinearLayout
from symd.formats.budget import DebugBudget
from symd.model.code import CodeObject, RelocationScheme, Section

__all__ = ("MODULES", "SCHEMES", "Contents", "Scheme", "relocated")

Contents = Mapping[str, bytes]
"""Section name (".debug_line") to content, relocated."""
Scheme = Callable[[CodeObject, LinearLayout], Contents]


def plain(code: CodeObject, layout: LinearLayout) -> Contents:
    """Linked objects: the debug sections as they stand, each read when somebody looks."""
    del layout
    return _AsTheyStand({section.name: section for section in code.sections if section.name.startswith(".debug_")})


class _AsTheyStand(Mapping[str, bytes]):
    def __init__(self, sections: Mapping[str, Section]) -> None:
        self._sections = sections

    def __getitem__(self, name: str) -> bytes:
        return self._sections[name].data

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections)

    def __len__(self) -> int:
        return len(self._sections)


def _module(name: str) -> Scheme:
    """``relocate`` of one of these modules, which is imported when an object needs it."""

    def relocate(code: CodeObject, layout: LinearLayout) -> Contents:
        scheme = __import__(f"{__name__}.{name}", fromlist=["relocate"])  # importlib is slow to import
        found: Contents = scheme.relocate(code, layout)
        return found

    return relocate


MODULES: Mapping[RelocationScheme, str] = {
    RelocationScheme.IGC: "igc",
    RelocationScheme.IGC_DUMP: "igc",
    RelocationScheme.ZEBIN: "zebin",
    RelocationScheme.AMDGPU: "amdgpu",
    RelocationScheme.CUDA: "cuda",
}
"""Which module of this package relocates by which scheme."""
SCHEMES: Mapping[RelocationScheme, Scheme] = {
    RelocationScheme.NONE: plain,
    **{scheme: _module(name) for scheme, name in MODULES.items()},
}
"""How debug sections are relocated, by ``CodeObject.relocation``."""


def relocated(code: CodeObject, layout: LinearLayout, budget: DebugBudget | None = None) -> DebugSections:
    """The debug sections of ``code``, ready to be decoded within ``budget``, which is that of its module; without, the
    code object has one for itself. Raises Malformed or Unsupported rather than pass on a section whose relocations it
    could not apply."""
    sections = DebugSections.of(SCHEMES[code.relocation](code, layout), budget or DebugBudget.of(code))
    if any(section.name == DWO_NAMES["info"] for section in code.sections):
        sections = with_split(sections, split_contents(code.sections))
    return sections

"""Debug sections with their relocations applied, so that every address in them is one of the layout's linear addresses.
Each vendor has a scheme of its own; adding one is one new module and one line in SCHEMES."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from symd.debuginfo.layout import Layout
from symd.debuginfo.relocation import amdgpu, cuda, igc, zebin
from symd.errors import Unsupported
from symd.model import CodeObject

__all__ = ("SCHEMES", "DebugSections", "relocated")

DebugSections = dict[str, bytes]
"""Section name (".debug_line") to content, relocated."""


def plain(code: CodeObject, layout: Layout) -> DebugSections:
    """Linked objects: the debug sections as they stand."""
    del layout
    return {section.name: section.data for section in code.sections if section.name.startswith(".debug_")}


SCHEMES: Mapping[str, Callable[[CodeObject, Layout], DebugSections]] = {
    "none": plain,
    "igc": igc.relocate,
    "x86-64": igc.relocate,
    "zebin": zebin.relocate,
    "amdgpu": amdgpu.relocate,
    "cuda": cuda.relocate,
}
"""By ``CodeObject.relocation``."""


def relocated(code: CodeObject, layout: Layout) -> DebugSections:
    """The debug sections of ``code``, ready to be decoded. Raises Malformed or Unsupported rather than pass on a
    section whose relocations it could not apply."""
    scheme = SCHEMES.get(code.relocation)
    if scheme is None:
        raise Unsupported(f"relocation scheme {code.relocation} is not known", where=code.path)
    return scheme(code, layout)

"""Which debug data an ELF image carries, from the first unit's header alone."""

from __future__ import annotations

from collections.abc import Iterable

from symd.model.code import DebugScheme, Section

_BY_VERSION = {
    2: DebugScheme.DWARF_2,
    3: DebugScheme.DWARF_3,
    4: DebugScheme.DWARF_4,
    5: DebugScheme.DWARF_5,
}


_HEADER = 14
"""Bytes of a unit up to its version, in the 64-bit format."""


def debug_scheme(sections: Iterable[Section]) -> DebugScheme:
    """The kind of debug data in an ELF image, by the version of the first unit of .debug_info (DWARF 5, 7.5.1);
    LINE_ONLY where there are only line tables, not all of them empty."""
    found = {section.name: section for section in sections if section.name in {".debug_info", ".debug_line"}}
    units = found[".debug_info"].head(_HEADER) if ".debug_info" in found else b""
    at = 12 if units[:4] == b"\xff\xff\xff\xff" else 4  # DWARF 5, 7.4: the 64-bit format's initial length
    scheme = _BY_VERSION.get(int.from_bytes(units[at : at + 2], "little")) if len(units) >= at + 2 else None
    if scheme is not None:
        return scheme
    has_lines = ".debug_line" in found and _has_line_program(found[".debug_line"].data)
    return DebugScheme.LINE_ONLY if has_lines else DebugScheme.NONE


def _has_line_program(lines: bytes) -> bool:
    """Whether any line table has a program after its header (DWARF 5, 6.2.4). A table whose header is damaged counts as one with a
    program: the decoder then says what is wrong with it."""
    at = 0
    while at < len(lines):
        width = 8 if lines[at : at + 4] == b"\xff\xff\xff\xff" else 4
        start = at + (12 if width == 8 else 4)
        end = start + int.from_bytes(lines[start - width : start], "little")
        version = int.from_bytes(lines[start : start + 2], "little")
        header = start + (4 if version >= 5 else 2)
        program = header + width + int.from_bytes(lines[header : header + width], "little")
        if end > len(lines) or program != end:
            return True
        at = end
    return False

"""Which debug information an ELF image carries, from the first unit's header alone."""

from __future__ import annotations

from collections.abc import Iterable

from symd.model.code import Section


def kind(sections: Iterable[Section]) -> str:
    """ "dwarf-2" ... "dwarf-5" by the first unit of .debug_info (DWARF 5, 7.5.1); "line-only" where there are only line
    tables; "none"."""
    found = {section.name: section.data for section in sections if section.name in {".debug_info", ".debug_line"}}
    units = found.get(".debug_info", b"")
    at = 12 if units[:4] == b"\xff\xff\xff\xff" else 4
    version = int.from_bytes(units[at : at + 2], "little")
    if len(units) >= at + 2 and 2 <= version <= 5:
        return f"dwarf-{version}"
    return "line-only" if found.get(".debug_line") else "none"

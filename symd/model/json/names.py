"""Kernels, functions and source files found by name."""

from __future__ import annotations

from typing import Any

from symd.model.names import NamedItem


def named_item_json(found: NamedItem, name: str) -> dict[str, Any]:
    """One item; ``name`` is what to call it, which may be the demangled name."""
    return {
        "kind": found.kind.name.lower(),
        "name": name,
        "linkage_name": found.linkage_name,
        "object": found.path,
        "section": found.section,
        "section_index": found.section_index,
        "section_offset": found.section_offset,
        "address": found.address,
        "size": found.size,
        "inlined_copies": found.inlined_copies,
        "facts": dict(found.facts),
        **({"declared_file": found.declared_file, "declared_line": found.declared_line} if found.declared_line else {}),
    }

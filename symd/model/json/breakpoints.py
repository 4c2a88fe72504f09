"""Breakpoint locations of a source line, or why there are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from symd.model.breakpoints import Located


def located_json(requested: str, answer: Located, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """One object a location, or one that says the reason; ``names`` are readable ones for functions that have others. A location has
    ``device_addresses`` where it is one of a load that says where."""
    if answer.refusal is not None:
        yield {"requested": requested, "reason": answer.refusal.name, "candidates": list(answer.candidates)}
    for location in answer.locations:
        yield {
            "requested": requested,
            "object": location.path,
            "kernel": location.kernel,
            "function": names.get(location.function or "", location.function),
            "section": location.section,
            "section_offset": location.section_offset,
            "address": location.address,
            "file": location.file,
            "line": location.line,
            "column": location.column,
            "inlined": location.inlined,
            "slid": location.slid,
            **({"device_addresses": list(location.device_addresses)} if location.device_addresses else {}),
        }

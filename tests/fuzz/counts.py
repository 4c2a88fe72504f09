"""How many inputs each target was given, over all runs: a table in a file that runs add to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.fuzz.trial import State

_FIELDS = ("answered", "refused", "found", "slowest")


def added(path: Path, states: Mapping[str, State]) -> dict[str, dict[str, float]]:
    """The table with what a run did; the file holds it afterwards."""
    table: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.is_file() else {}
    for name, state in states.items():
        row = table.setdefault(name, dict.fromkeys(_FIELDS, 0))
        for field in _FIELDS[:3]:
            row[field] += getattr(state, field)
        row["slowest"] = max(row["slowest"], round(state.slowest, 2))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
    return table


def printed(table: Mapping[str, Mapping[str, float]]) -> str:
    """The table in Markdown; ``slowest`` in seconds of processor time."""
    lines = ["| target | inputs | answered | refused | found | slowest, s |", "|---|---:|---:|---:|---:|---:|"]
    for name, row in sorted(table.items()):
        answered, refused, found = (int(row[field]) for field in _FIELDS[:3])
        lines.append(
            f"| {name} | {answered + refused + found:,} | {answered:,} | {refused:,} | {found:,} | {row['slowest']:.2f} |"
        )
    return "\n".join(lines)

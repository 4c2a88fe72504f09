"""A module's description as the JSON that an index file carries, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from symd.model import KernelSummary, ModuleSummary, ObjectSummary


def to_json(summary: ModuleSummary) -> dict[str, Any]:
    return asdict(summary)


def from_json(document: dict[str, Any]) -> ModuleSummary:
    objects = tuple(
        ObjectSummary(
            **{
                **entry,
                "kernels": tuple(KernelSummary(**kernel) for kernel in entry["kernels"]),
                "notes": tuple(entry["notes"]),
            }
        )
        for entry in document["objects"]
    )
    return ModuleSummary(**{**document, "objects": objects, "notes": tuple(document["notes"])})

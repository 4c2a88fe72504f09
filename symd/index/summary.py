"""A module's description as the JSON that an index file carries, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from symd.errors import DataLoss
from symd.model import ContainerSummary, KernelSummary, ModuleSummary, ObjectSummary

_PARTS = (KernelSummary, ObjectSummary, ContainerSummary, ModuleSummary)


def to_json(summary: ModuleSummary) -> bytes:
    return json.dumps(summary, default=_plain, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, _PARTS):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"facts hold a {type(value).__name__}, which is not JSON")


def from_json(text: bytes) -> ModuleSummary:
    """Raises DataLoss."""
    try:
        return _summary(json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise DataLoss(f"has a summary that does not read: {error}", where="index file") from error


def _summary(document: dict[str, Any]) -> ModuleSummary:
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
    containers = tuple(ContainerSummary(**entry) for entry in document.get("containers", ()))
    return ModuleSummary(
        **{**document, "objects": objects, "notes": tuple(document["notes"]), "containers": containers}
    )

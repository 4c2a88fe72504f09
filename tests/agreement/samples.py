"""The committed sample binaries by what the manifest says of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "samples" / "kernels"


@dataclass(frozen=True)
class Sample:
    """``path`` is relative to samples/kernels/bin."""

    path: str
    format: str
    device: str | None
    kernels: tuple[str, ...]
    debug: str

    @property
    def data(self) -> bytes:
        return (KERNELS / "bin" / self.path).read_bytes()

    def __str__(self) -> str:
        return self.path


def samples(*formats: str) -> list[Sample]:
    manifest = json.loads((KERNELS / "manifest.json").read_text())
    return [
        Sample(path, entry["format"], entry["device"], tuple(entry["kernels"]), entry["debug"])
        for path, entry in manifest.items()
        if not formats or entry["format"] in formats
    ]

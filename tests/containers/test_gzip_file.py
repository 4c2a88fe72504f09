"""gzip: what is inside is opened within the limits, and damaged files are named."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from symd import containers
from symd.config import Limits
from symd.errors import LimitExceeded, Malformed

CUBIN = (Path(__file__).parents[2] / "samples" / "cuda" / "bin" / "raycast.sm_90.lines.cubin").read_bytes()
PACKED = gzip.compress(CUBIN)


def test_what_is_inside_is_opened() -> None:
    opened = containers.unpack(PACKED)
    assert (opened.format, [code.path for code in opened.objects]) == ("gzip", ["content"])
    assert opened.objects[0].data == CUBIN


@pytest.mark.parametrize(
    "data",
    [
        PACKED[:3],
        PACKED[:-5],
        PACKED[:100] + b"\0" * 50 + PACKED[150:],
        PACKED[:-4] + (len(CUBIN) - 1).to_bytes(4, "little"),
        PACKED[:-4] + (len(CUBIN) + 1).to_bytes(4, "little"),
        PACKED[:-8] + bytes(4) + PACKED[-4:],
        PACKED + PACKED,
    ],
)
def test_damaged_files_are_named(data: bytes) -> None:
    with pytest.raises(Malformed):
        containers.unpack(data)


def test_what_expands_too_far_is_refused() -> None:
    with pytest.raises(LimitExceeded) as caught:
        containers.unpack(PACKED, Limits(expansion=len(CUBIN) - 1))
    assert caught.value.metadata["limit"] == "expansion"
    bomb = gzip.compress(bytes(1 << 22))
    with pytest.raises(LimitExceeded, match="expansion_ratio"):
        containers.unpack(bomb, Limits(expansion_ratio=100))

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
    ("data", "said"),
    [
        (PACKED[:3], r"3 bytes are too few for gzip \(copy it again\)"),
        (PACKED[:-5], r"was cut off: it ends before what is inside does \(copy it again\)"),
        (PACKED[:100] + b"\0" * 50 + PACKED[150:], r"is damaged: invalid .+ \(copy it again\)"),
        (PACKED[:-4] + (len(CUBIN) - 1).to_bytes(4, "little"), r"is damaged: incorrect length check \(copy"),
        (PACKED[:-4] + (len(CUBIN) + 1).to_bytes(4, "little"), r"is damaged: incorrect length check \(copy"),
        (PACKED[:-8] + bytes(4) + PACKED[-4:], r"is damaged: incorrect data check \(copy it again\)"),
        (PACKED + PACKED, r"has several members, or more behind its end \(expand it with gunzip first\)"),
    ],
)
def test_damaged_files_are_named(data: bytes, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        containers.unpack(data)


def test_what_expands_too_far_is_refused() -> None:
    with pytest.raises(LimitExceeded) as caught:
        containers.unpack(PACKED, Limits(expansion=len(CUBIN) - 1))
    assert caught.value.metadata["limit"] == "expansion"
    bomb = gzip.compress(bytes(1 << 25))
    with pytest.raises(LimitExceeded, match="expansion_ratio"):
        containers.unpack(bomb, Limits(expansion_ratio=100))

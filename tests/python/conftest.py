"""Modules opened by ``symd.open``."""

from __future__ import annotations

from pathlib import Path

import pytest

import symd

SAMPLES = Path(__file__).parents[2] / "samples"
VADD = SAMPLES / "kernels" / "bin" / "vadd" / "dg2-opt.dbg"
CUBIN = SAMPLES / "cuda" / "bin" / "raycast.sm_100.lines.cubin"
"""Two kernels with inlined calls."""


@pytest.fixture(scope="module")
def vadd():
    with symd.open(VADD) as module:
        yield module


@pytest.fixture(scope="module")
def cubin():
    with symd.open(CUBIN) as module:
        yield module

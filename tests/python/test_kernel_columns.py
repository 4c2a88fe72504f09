"""A column of offsets with the kernel of each beside it: LLVM's lines at the object addresses that readelf's symbols say."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symd
from symd.errors import BadQuery
from tests.profiles.modules import ROOT, of_object
from tests.tools import output, require

FILE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
KERNELS = ["shade", "clear", "shade", "shade"]
OFFSETS = [0x78, 0x8, 0x98, 0x18]


@pytest.mark.parametrize("kernels", [KERNELS, np.array(KERNELS), np.array(KERNELS, object), tuple(KERNELS)])
def test_each_offset_counts_from_the_kernel_beside_it(tmp_path, kernels):
    symbols = output(require("readelf"), "-sW", FILE)
    begins = {
        name: int(begin, 16)
        for begin, name in re.findall(r"(\w{16}) +\d+ FUNC .* (shade|clear)$", symbols, re.MULTILINE)
    }
    with symd.open(FILE) as module:
        answers = module.symbolize(np.array(OFFSETS), kernel=kernels)
    for answer, name, offset in zip(answers, KERNELS, OFFSETS, strict=True):
        expected = [frame[1:3] for frame in of_object(FILE, begins[name] + offset, tmp_path)]
        assert [(frame.file, frame.line) for frame in answer.frames] == expected


def test_a_kernel_that_is_unknown_is_a_reason_of_its_own_offsets():
    with symd.open(FILE) as module:
        reasons = [each.reason.name for each in module.symbolize([0x78, 0], kernel=["shade", "nix"])]
    assert reasons == ["EXACT", "UNKNOWN_KERNEL"]


def test_kernels_and_offsets_are_equally_many():
    with symd.open(FILE) as module, pytest.raises(BadQuery, match="there are 2 offsets and 1 kernels"):
        module.symbolize([0x78, 0], kernel=["shade"])

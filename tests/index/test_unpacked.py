"""An index that a process keeps to itself says of ranges, functions and the module what an index file says that packs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from symd import containers
from symd.config import Limits
from symd.containers.code_again import read_now
from symd.errors import DataLoss
from symd.index import Index
from symd.index.builder import build, build_unpacked
from symd.index.module import decoded_objects, described
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = (
    "amdgpu/bin/v4-gfx900.co",
    "amdgpu/bin/host",
    "cuda/bin/raycast.sm_90.debug.cubin",
    "kernels/bin/raycast/dg2-opt.dbg",
    "kernels/bin/filters/driver-l0-igc2-dg2-opt.debug-zebin",
    "kernels/bin/vadd/opt.spv",
)


def both(file: str) -> tuple[Index, Index]:
    data = (SAMPLES / file).read_bytes()
    objects = decoded_objects(containers.unpack(data, Limits()).objects)
    summary = ModuleSummary(Digest(""), len(data), "")
    buffer, unpacked = build_unpacked(objects, summary)
    return Index(build(objects, summary)), Index(buffer, unpacked=unpacked)


@pytest.mark.parametrize("as_written", [False, True])
@pytest.mark.parametrize("file", FILES)
def test_ranges_are_those_of_the_file(file: str, as_written: bool) -> None:
    whole, own = (index.read(as_written=as_written).derived.ranges for index in both(file))
    every = np.arange(len(whole))
    assert len(own) == len(whole)
    for column in ("frame", "line", "column", "reason"):
        assert getattr(own, column)(every).tolist() == getattr(whole, column)(every).tolist(), column
    assert list(zip(*own.numbers, strict=True)) == list(
        zip(*(getattr(own, name)(every).tolist() for name in ("frame", "line", "column", "reason")), strict=True)
    )


@pytest.mark.parametrize("as_written", [False, True])
@pytest.mark.parametrize("file", FILES)
def test_single_answers_are_those_of_the_file(file: str, as_written: bool) -> None:
    whole, own = (index.read(as_written=as_written) for index in both(file))
    answered = 0
    for kernel, ((_, _, _, size), *_) in whole.kernels.items():
        for offset in range(0, size, 8):
            answer = own.answer(ByKernel(kernel, KernelOffset(offset)))
            assert answer == whole.answer(ByKernel(kernel, KernelOffset(offset)))
            answered += answer is not None
    assert answered


@pytest.mark.parametrize("file", FILES)
def test_functions_are_those_of_the_file(file: str) -> None:
    whole, own = (index.derived.functions for index in both(file))
    assert len(whole.name) > 0 or file.endswith(".spv")
    assert [column.tolist() for column in own] == [column.tolist() for column in whole]
    assert [column.dtype for column in own] == [column.dtype for column in whole]


@pytest.mark.parametrize("file", FILES)
def test_the_summary_is_that_of_the_file(file: str) -> None:
    data = (SAMPLES / file).read_bytes()
    opened = containers.unpack(data, Limits())
    objects = decoded_objects(opened.objects)
    summary = described(data, Digest("0" * 64), opened, objects)
    buffer, unpacked = build_unpacked(objects, summary)
    own, whole = Index(buffer, unpacked=unpacked).summary, Index(build(objects, summary)).summary
    assert [each.path for each in own.objects] == [code.path for code in opened.objects]
    assert [read_now(each) for each in own.objects] == [read_now(each) for each in whole.objects]
    assert own.sha256 == whole.sha256


def test_some_debug_data_contradicts_itself() -> None:
    """So that what is written differs from what is answered in one of ``FILES`` at least."""
    assert any(len(both(file)[1].columns.written_range) for file in FILES)


def test_line_rows_are_not_there() -> None:
    _, own = both(FILES[0])
    with pytest.raises(DataLoss, match="row_data"):
        _ = own.derived.rows

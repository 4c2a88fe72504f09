"""Calls that stacks share travel once, and what a reading process says of them is checked."""

from __future__ import annotations

import numpy as np
import pytest

from symd.config import Limits
from symd.cores import shared, with_frames
from symd.cores.read import read
from symd.engine.reading.served import decode, encode
from symd.errors import DataLoss
from symd.formats.budget import Budget
from tests.cores.dumps import KERNEL, Dump


def test_there_and_back_once_each() -> None:
    dump = Dump()
    warp = dump.one_warp()
    for lane in range(8):
        dump.lane(warp, number=lane, pc=KERNEL + 16 * lane, calls=[(8, KERNEL + 8), (16, KERNEL + 16)] * 50)
    core = read(dump.build(), Budget(Limits()))
    apart = shared(core)
    assert (len(apart.frames), len(apart.numbers)) == (10, 8 * 101)
    found = with_frames(decode(encode(apart)))
    assert found == core
    assert len({id(frame) for stack in found.dump.stacks for frame in stack.frames}) == 10


def test_numbers_that_do_not_fit() -> None:
    dump = Dump()
    dump.lane(dump.one_warp(), number=0, pc=KERNEL)
    apart = shared(read(dump.build(), Budget(Limits())))
    for wrong in (
        apart._replace(frames=()),
        apart._replace(counts=apart.counts + np.uint32(1)),
        apart._replace(counts=apart.counts[:0]),
    ):
        with pytest.raises(DataLoss):
            with_frames(wrong)

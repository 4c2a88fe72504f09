"""One address has the answer that it has in a column, on every kind of sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from symd.config import Limits
from symd.engine import build_index
from symd.index import Index
from symd.model import ByAddress, ByKernel, KernelOffset, ObjectAddress
from symd.query.symbolize import symbolize, symbolize_column, symbolize_one

SAMPLES = Path(__file__).parents[2] / "samples"
SOME = sorted(
    path for kind in ("amdgpu", "cuda", "spirv", "kernels") for path in list((SAMPLES / kind / "bin").rglob("*"))[:12]
    if path.is_file()
)  # fmt: skip


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_one_by_one_few_and_many_agree(path: Path) -> None:
    index = Index(build_index(path.read_bytes(), Limits()))
    for name, entries in list(index.kernels.items())[:4]:
        offsets = np.arange(0, entries[0].size + 8, 4, dtype=np.uint64)
        many = list(symbolize_column(index, np.tile(offsets, 8), kernel=name))[: len(offsets)]
        queries = [ByKernel(name, KernelOffset(int(offset))) for offset in offsets]
        assert [symbolize_one(index, query) for query in queries] == many
        assert [symbolize(index, [query])[0] for query in queries[:16]] == many[:16]
    for place in index.places[:4]:
        address = ByAddress(ObjectAddress(place.address + 4))
        assert symbolize_one(index, address) == symbolize(index, [address])[0]

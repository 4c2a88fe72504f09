"""Open indexes within a budget of bytes."""

from __future__ import annotations

from pathlib import Path

from symd.config import Limits
from symd.index import Index
from symd.index.cache import IndexCache
from symd.index.module import build_index

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"


def test_the_cache_keeps_what_fits_and_always_the_last() -> None:
    index = Index(build_index((BIN / "raycast" / "dg2-opt.dbg").read_bytes(), Limits()))
    cache = IndexCache(index.weight * 2)
    for name in ("a", "b", "c"):
        cache.put(name, index)
    assert [cache.get(name) is not None for name in ("a", "b", "c")] == [False, True, True]
    cache.get("b")
    cache.put("d", index)
    assert [cache.get(name) is not None for name in ("b", "c", "d")] == [True, False, True]
    tiny = IndexCache(1)
    tiny.put("a", index)
    tiny.put("b", index)
    assert len(tiny) == 1
    assert tiny.get("b") is index

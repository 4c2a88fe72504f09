"""Open indexes within a budget of bytes."""

from __future__ import annotations

from pathlib import Path

from symd.config import Limits
from symd.engine.indexes.open_indexes import IndexCache
from symd.index import Index
from symd.index.module import build_index

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"


def test_the_cache_keeps_what_fits_and_always_the_last() -> None:
    data = build_index((BIN / "raycast" / "dg2-opt.dbg").read_bytes(), Limits())
    index = Index.open_checked(data)
    cache = IndexCache(index.weight * 2)
    for name in ("a", "b", "c"):
        cache.put(name, Index.open_checked(data))
    assert [cache.get(name) is not None for name in ("a", "b", "c")] == [False, True, True]
    cache.get("b")
    cache.put("d", Index.open_checked(data))
    assert [cache.get(name) is not None for name in ("b", "c", "d")] == [True, False, True]
    tiny = IndexCache(1)
    tiny.put("a", Index.open_checked(data))
    tiny.put("b", index)
    assert len(tiny) == 1
    assert tiny.get("b") is index


def test_what_is_put_and_forgotten_leaves_nothing() -> None:
    data = build_index((BIN / "raycast" / "dg2-opt.dbg").read_bytes(), Limits())
    cache = IndexCache(Index.open_checked(data).weight * 3)
    for name in "ab":
        cache.put(name, Index.open_checked(data))
    cache.get("a")
    for number in range(1000):
        cache.put(str(number), Index.open_checked(data))
        cache.forget(str(number))
    assert len(cache._oldest) < 100
    for name in "cd":
        cache.put(name, Index.open_checked(data))
    assert sorted(cache.digests()) == ["a", "c", "d"]


def test_indexes_that_are_looked_at_once_each_share_a_turn() -> None:
    """A number for each look would be made and freed where the processor has neither."""
    data = build_index((BIN / "raycast" / "dg2-opt.dbg").read_bytes(), Limits())
    cache = IndexCache(Index.open_checked(data).weight * 9)
    for name in "abc":
        cache.put(name, Index.open_checked(data))
    for name in "abc":
        cache.get(name)
    assert len({id(held.used) for held in cache._items.values()}) == 1
    assert cache.asked() == ["a", "b", "c"]
    assert cache.asked() == []
    cache.get("b")
    assert cache.asked() == ["b"]

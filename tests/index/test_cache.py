"""Open indexes within a budget of bytes."""

from __future__ import annotations

import hashlib
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


def test_indexes_that_are_looked_at_once_each_share_a_turn() -> None:
    """A number for each look would be made and freed where the processor has neither."""
    index = Index(build_index((BIN / "raycast" / "dg2-opt.dbg").read_bytes(), Limits()))
    cache = IndexCache(index.weight * 9)
    for name in "abc":
        cache.put(name, index)
    for name in "abc":
        cache.get(name)
    assert len({id(held.used) for held in cache._items.values()}) == 1
    assert cache.asked() == ["a", "b", "c"]
    assert cache.asked() == []
    cache.get("b")
    assert cache.asked() == ["b"]


def test_a_summary_names_its_module_by_the_text_that_opened_the_index() -> None:
    """So who asks by it is found without a look at its letters."""
    data = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert Index.checked(build_index(data, Limits()), digest).summary.sha256 is digest

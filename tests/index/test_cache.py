"""Open indexes within a budget of bytes."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc
from pathlib import Path

from symd.config import Limits
from symd.index import Index
from symd.index.cache import IndexCache
from symd.index.module import build_index
from tests.query.small import E, Object, S, Scope, index

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"


def test_the_cache_keeps_what_fits_and_always_the_last() -> None:
    data = build_index((BIN / "raycast" / "dg2-opt.dbg").read_bytes(), Limits())
    index = Index(data)
    cache = IndexCache(index.weight * 2)
    for name in ("a", "b", "c"):
        cache.put(name, Index(data))
    assert [cache.get(name) is not None for name in ("a", "b", "c")] == [False, True, True]
    cache.get("b")
    cache.put("d", Index(data))
    assert [cache.get(name) is not None for name in ("b", "c", "d")] == [True, False, True]
    tiny = IndexCache(1)
    tiny.put("a", Index(data))
    tiny.put("b", index)
    assert len(tiny) == 1
    assert tiny.get("b") is index


def test_what_is_put_and_forgotten_leaves_nothing() -> None:
    data = build_index((BIN / "raycast" / "dg2-opt.dbg").read_bytes(), Limits())
    cache = IndexCache(Index(data).weight * 3)
    for name in "ab":
        cache.put(name, Index(data))
    cache.get("a")
    for number in range(1000):
        cache.put(str(number), Index(data))
        cache.forget(str(number))
    assert len(cache._oldest) < 100
    for name in "cd":
        cache.put(name, Index(data))
    assert sorted(cache.digests()) == ["a", "c", "d"]


def test_indexes_that_are_looked_at_once_each_share_a_turn() -> None:
    """A number for each look would be made and freed where the processor has neither."""
    data = build_index((BIN / "raycast" / "dg2-opt.dbg").read_bytes(), Limits())
    cache = IndexCache(Index(data).weight * 9)
    for name in "abc":
        cache.put(name, Index(data))
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


def test_a_description_counts_as_it_is_expanded() -> None:
    """Notes repeat the name of what they are about, so that a kilobyte of index may expand to megabytes of them."""
    image = (BIN.parents[1] / "amdgpu" / "bin" / "v4-gfx900.co").read_bytes()
    bundle = _bundle(("n" * 50_000, _bundle(*((f"{number}", b"damaged") for number in range(40)), ("good", image))))
    index = Index(build_index(bundle, Limits()))
    notes = sum(map(len, index.summary.notes))
    assert notes > 10 * index.size
    assert index.weight > notes


def test_what_is_worked_out_for_answers_as_written_counts() -> None:
    """They are answered by a second view of the index, which has tables of its own."""
    sound, contradictory = _many_rows((0x20, 5, S)), _many_rows()
    assert sound.view(as_written=True) is sound
    view = contradictory.view(as_written=True)
    assert view is not contradictory
    tracemalloc.start()
    try:
        assert len(view.derived.locations.reason) > ROWS
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken > 10 * ROWS
    assert contradictory.weight - contradictory.size - (sound.weight - sound.size) > taken


ROWS = 10_000


def _many_rows(*of_call: tuple[int, int, int]) -> Index:
    """A function of lines 20 to 39 with a call of one of lines 1 to 9 inlined into it, whose rows are ``of_call``."""
    rows = [(0, 21, S), *of_call, *((4 * at, 20 + at % 2, S) for at in range(16, ROWS)), (4 * ROWS, 20, E)]
    scopes = [
        Scope("outer", 0, 4 * ROWS, lines=(20, 40)),
        Scope("inner", 0x20, 0x40, parent=0, call_line=30, lines=(1, 10)),
    ]
    return index(Object(rows=rows, scopes=scopes, size=4 * ROWS, kernels=[("k", 0, 4 * ROWS)]))


def _bundle(*entries: tuple[str, bytes]) -> bytes:
    table, content = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)), b""
    begin = len(table) + sum(24 + len(name) for name, _ in entries)
    for name, data in entries:
        table += struct.pack("<QQQ", begin + len(content), len(data), len(name)) + name.encode()
        content += data
    return table + content

"""A module of many code objects answers before all of them are decoded, and with the answers of the whole index."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd import containers
from symd.config import Limits
from symd.engine import Engine, build_index
from symd.index import VERSION, Index
from symd.index.shelf import Shelf
from symd.index.sketch import LEAST, MOST
from symd.model import ByKernel, KernelOffset, Reason
from symd.query.symbolize import symbolize
from symd.store import Store
from tests.builders import igc

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
COUNT = LEAST + 20


@pytest.fixture(scope="module")
def container() -> bytes:
    """The same kernel under many names: every answer but the kernel's name is known from the first."""
    code = containers.unpack((BIN / "raycast" / "dg2-opt.dbg").read_bytes(), Limits()).objects[0]
    return igc.debug_container([igc.DebugRecord(f"ray_{number}", code.data) for number in range(COUNT)])


def queries(number: int) -> list[ByKernel]:
    return [ByKernel(f"ray_{number}", KernelOffset(offset)) for offset in range(0, 400, 8)]


def test_one_kernel_is_answered_as_the_whole_index_answers_it(container: bytes, tmp_path: Path) -> None:
    whole = Index(build_index(container, Limits()))
    with Engine(Store(tmp_path)) as engine:
        digest = engine.add(container).sha256
        for number in (7, 0, COUNT - 1, 7):
            expected = list(symbolize(whole, queries(number)))
            assert list(engine.symbolize(digest, queries(number))) == expected
            assert [engine.symbolize_one(digest, query) for query in queries(number)] == expected
        assert engine.symbolize_one(digest, ByKernel("nobody", KernelOffset(0))).reason is Reason.UNKNOWN_KERNEL
        assert engine.store.index(digest, index_version()) is None
        assert engine.module(digest) == whole.summary
        assert engine.store.index(digest, index_version()) is not None


def test_who_asks_for_many_kernels_gets_the_whole_index(container: bytes, tmp_path: Path) -> None:
    with Engine(Store(tmp_path)) as engine:
        digest = engine.add(container).sha256
        for number in range(MOST + 1):
            assert engine.store.index(digest, index_version()) is None
            engine.symbolize(digest, queries(number))
        assert engine.store.index(digest, index_version()) is not None


def index_version() -> int:
    return VERSION


def test_the_shelf_keeps_what_fits_and_always_the_last() -> None:
    index = Index(build_index((BIN / "raycast" / "dg2-opt.dbg").read_bytes(), Limits()))
    shelf = Shelf(index.weight * 2)
    for name in ("a", "b", "c"):
        shelf.put(name, index)
    assert [shelf.get(name) is not None for name in ("a", "b", "c")] == [False, True, True]
    shelf.get("b")
    shelf.put("d", index)
    assert [shelf.get(name) is not None for name in ("b", "c", "d")] == [True, False, True]
    tiny = Shelf(1)
    tiny.put("a", index)
    tiny.put("b", index)
    assert len(tiny) == 1
    assert tiny.get("b") is index

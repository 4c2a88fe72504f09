"""A module of many code objects answers before all of them are decoded, and with the answers of the whole index."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.indexes.builds import BUILD_THREADS
from symd.engine.reading.questions import InProcessReader, MakeIndex
from symd.formats import containers
from symd.index import VERSION, Index
from symd.index.module import build_index
from symd.index.partial import MAX_DECODED, MIN_OBJECTS
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.query.symbolize import symbolize
from symd.store import Store
from tests.builders import igc

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
COUNT = MIN_OBJECTS + 20


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
        assert engine.store.index(digest, index_version()) is None
        assert engine.module(digest) == whole.summary
        assert engine.store.index(digest, index_version()) is not None


def test_a_name_that_no_kernel_has_is_looked_for_in_the_whole_index(container: bytes, tmp_path: Path) -> None:
    """Functions have names too, and an unknown one is answered with those that are like it."""
    with Engine(Store(tmp_path)) as engine:
        digest = engine.add(container).sha256
        assert engine.symbolize_one(digest, ByKernel("nobody", KernelOffset(0))).reason is Reason.UNKNOWN_KERNEL
        assert engine.store.index(digest, index_version()) is not None


def test_who_asks_for_many_kernels_gets_the_whole_index(container: bytes, tmp_path: Path) -> None:
    with Engine(Store(tmp_path)) as engine:
        digest = engine.add(container).sha256
        for number in range(MAX_DECODED + 1):
            assert engine.store.index(digest, index_version()) is None
            engine.symbolize(digest, queries(number))
        assert engine.store.index(digest, index_version()) is not None


class Blocked(InProcessReader):
    """Says that others read, and makes no whole index before ``let_go`` is set."""

    elsewhere = True

    def __init__(self) -> None:
        super().__init__(Limits())
        self.let_go = threading.Event()

    def ask(self, module, question):
        assert not isinstance(question, MakeIndex) or self.let_go.wait(20)
        return super().ask(module, question)


def test_many_such_modules_are_indexed_by_a_few_threads(container: bytes, tmp_path: Path) -> None:
    reader = Blocked()
    with Engine(Store(tmp_path), reader=reader) as engine:
        digests = [engine.add(container + bytes(4 * number)).sha256 for number in range(BUILD_THREADS + 2)]
        begun = [thread for thread in threading.enumerate() if thread.name == "symd-build"]
        reader.let_go.set()
        assert len(begun) == BUILD_THREADS
        for thread in begun:
            thread.join(20)
        assert all(engine.store.index(digest, index_version()) is not None for digest in digests)


def index_version() -> int:
    return VERSION

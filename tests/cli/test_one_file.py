"""One file symbolized without a store answers as the engine does, from a partial index or from the whole."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.files.opened_file import SmallFile
from symd.errors import InvalidInput, LimitExceeded, ObjectNotFound, SymdError, UnknownFormat
from symd.formats import containers
from symd.index.partial import MAX_PARTIAL_QUERIES
from symd.model.addresses import ByKernel, BySection, KernelOffset, Query, SectionOffset
from symd.model.answers import Answer, Answers
from symd.query import symbolize
from symd.store import Store
from tests.builders.hostile import flips, truncations

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
FILES = [BIN / "raycast" / name for name in ("dg2-opt.dbg", "dg2-opt.zebin", "driver-l0-igc2-dg2-opt.debug-zebin")]

AMD = sorted(BIN.parents[1].glob("amdgpu/bin/v*.co"))[:12] + sorted(BIN.parents[1].glob("amdgpu/bin/v*.o"))[:4]


def engines_answers(data: bytes, queries: list[Query]) -> list[Answer]:
    with Engine(Store.temporary()) as engine:
        return list(engine.symbolize(engine.add(data).sha256, queries))


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
@pytest.mark.parametrize("count", [1, MAX_PARTIAL_QUERIES, MAX_PARTIAL_QUERIES + 1])
def test_the_answers_are_the_engines(path: Path, count: int) -> None:
    queries: list[Query] = [BySection(".text.raycast", SectionOffset(8 * number)) for number in range(count - 1)]
    queries.append(ByKernel("raycast", KernelOffset(16)))
    answers = list(SmallFile(str(path), Limits()).symbolize(queries))
    assert answers == engines_answers(path.read_bytes(), queries)


@pytest.mark.parametrize("path", AMD, ids=[path.name for path in AMD])
def test_what_is_mapped_is_answered_like_what_is_read(path: Path) -> None:
    data = path.read_bytes()
    [code] = containers.unpack(data, Limits()).objects
    texts = [section for section in code.sections if section.executable and section.size]
    queries: list[Query] = [
        BySection(text.index, SectionOffset(at)) for text in texts[:8] for at in range(0, text.size, text.size // 6 + 1)
    ]
    queries += [ByKernel(kernel.name, KernelOffset(4)) for kernel in code.kernels[:8]]
    assert list(SmallFile(str(path), Limits()).symbolize(queries[:MAX_PARTIAL_QUERIES])) == engines_answers(
        data, queries[:MAX_PARTIAL_QUERIES]
    )
    with pytest.raises(LimitExceeded):
        SmallFile(str(path), Limits(module_size=len(data) - 1))


def test_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = FILES[0].read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    queries: list[Query] = [ByKernel("raycast", KernelOffset(16))]
    answers = list(SmallFile(str(pipe), Limits()).symbolize(queries))
    writer.join()
    assert answers == engines_answers(data, queries)


def test_batches_one_after_the_other_are_answered_alike() -> None:
    path = FILES[2]
    one = SmallFile(str(path), Limits())
    queries: list[Query] = [ByKernel("raycast", KernelOffset(8 * number)) for number in range(MAX_PARTIAL_QUERIES + 10)]
    queries.append(ByKernel("nobody", KernelOffset(0)))
    singly = [one.symbolize([query])[0] for query in queries]
    assert singly == engines_answers(path.read_bytes(), queries)


def test_the_search_for_a_name_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    query = [ByKernel("raycas", KernelOffset(0))]
    assert SmallFile(str(FILES[1]), Limits()).symbolize(query)[0].candidates
    monkeypatch.setattr(symbolize, "NAME_SEARCH_LETTERS", 1)
    with pytest.raises(LimitExceeded) as caught:
        SmallFile(str(FILES[1]), Limits()).symbolize(query)
    assert caught.value.metadata == {"limit": "name_search_letters", "value": "1"}


def test_what_is_wrong_names_the_file(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no module")
    with pytest.raises(UnknownFormat) as unknown:
        SmallFile(str(text), Limits())
    assert str(text) in str(unknown.value)
    with pytest.raises(InvalidInput, match="no such file"):
        SmallFile(str(tmp_path / "nothing"), Limits())
    with pytest.raises(ObjectNotFound):
        SmallFile(str(FILES[0]), Limits()).symbolize([ByKernel("raycast", KernelOffset(0))], "nowhere")


def test_damaged_files_are_answered_or_refused(tmp_path: Path) -> None:
    data = FILES[2].read_bytes()
    path = tmp_path / "damaged"
    queries = [ByKernel("raycast", KernelOffset(8)), BySection(".text.raycast", SectionOffset(64))]
    outcomes = set()
    for damaged in [*truncations(data, len(data) // 15), *flips(data, 3, 60, 400)]:
        path.write_bytes(damaged)
        try:
            outcomes.add(len(SmallFile(str(path), Limits()).symbolize(queries)))
        except SymdError:
            outcomes.add(0)
    assert outcomes == {0, 2}


def test_small_batches_share_the_table_that_a_large_one_made() -> None:
    """What is written of its locations is made once."""
    file = SmallFile(str(BIN.parents[1] / "amdgpu" / "bin" / "v4-gfx900.co"), Limits())
    every = np.arange(0x1800, 0x2400, 4, dtype=np.uint64)
    before, large, after = (file.symbolize(column) for column in (every[::300], every, every[::300]))
    assert isinstance(before, Answers)
    assert isinstance(large, Answers)
    assert isinstance(after, Answers)
    assert large.locations.shared
    assert after.locations is large.locations is not before.locations
    assert list(after) == list(before)

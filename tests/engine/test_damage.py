"""A byte of the store that flips is noticed when it is read, changes no answer, and is mended by the next upload."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from symd.engine.engine import Engine
from symd.errors import DataLoss, ModuleNotFound
from symd.index import VERSION
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.contexts import Alias
from symd.store import Store
from symd.store.inspection import FindingKind, inspect

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
RAYCAST = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()
DIGEST = hashlib.sha256(RAYCAST).hexdigest()
QUERY = ByKernel("raycast", KernelOffset(0x610))


def flip(path: Path, at: int = 5000) -> None:
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 4
    path.write_bytes(data)


def file(root: Path) -> Path:
    return root / "modules" / DIGEST[:2] / DIGEST


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A store with one module whose file is damaged, a label and an alias."""
    with Engine(Store(tmp_path)) as engine:
        engine.add(RAYCAST, "label")
        engine.aliases.add([Alias("build-id", "key", DIGEST)])
    flip(file(tmp_path))
    return tmp_path


QUESTIONS = {
    "variables": lambda engine: engine.variables(DIGEST, QUERY),
    "object": lambda engine: engine.object_data(DIGEST, "raycast"),
    "sources": lambda engine: engine.sources(DIGEST, ["raycast.cl"]),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_damage_is_noticed_and_set_aside(damaged: Path, question) -> None:
    with Engine(Store(damaged)) as engine:
        with pytest.raises(DataLoss) as caught:
            question(engine)
        assert caught.value.metadata["module"] == f"modules/{DIGEST}"
        assert engine.missing([DIGEST]) == [DIGEST]
        assert (damaged / "damaged" / DIGEST).exists()
        with pytest.raises(ModuleNotFound):
            question(engine)
        assert engine.symbolize_one(DIGEST, QUERY).frames, "the index is whole and goes on answering"


def test_the_next_upload_repairs_it_and_all_is_as_it_was(damaged: Path) -> None:
    with Engine(Store(damaged)) as engine, pytest.raises(DataLoss):
        engine.variables(DIGEST, QUERY)
    with Engine(Store(damaged)) as engine:  # a start in between forgets nothing
        engine.resume()
        assert engine.missing([DIGEST]) == [DIGEST]
        engine.add(RAYCAST, "another label")
        assert engine.missing([DIGEST]) == []
        assert engine.object_data(DIGEST, "raycast")
        assert engine.record(DIGEST).label == "label"
        assert engine.aliases.resolve("build-id", "key")
        assert not (damaged / "damaged" / DIGEST).exists()


def test_a_damaged_module_is_not_indexed(damaged: Path) -> None:
    """Nor is what is wrong with it remembered as the module's own failure."""
    for path in (damaged / "index").rglob("*.idx"):
        path.unlink()
    with Engine(Store(damaged)) as engine:
        with pytest.raises(DataLoss):
            engine.symbolize_one(DIGEST, QUERY)
        assert engine.store.failure(DIGEST, VERSION) is None
        engine.add(RAYCAST)
        assert engine.symbolize_one(DIGEST, QUERY).frames


def test_removing_takes_what_was_set_aside_too(damaged: Path) -> None:
    with Engine(Store(damaged)) as engine:
        with pytest.raises(DataLoss):
            engine.variables(DIGEST, QUERY)
        engine.remove(DIGEST)
        assert list((damaged / "damaged").iterdir()) == []
        with pytest.raises(ModuleNotFound):
            engine.symbolize_one(DIGEST, QUERY)


def test_a_module_that_is_right_is_not_set_aside(tmp_path: Path) -> None:
    with Engine(Store(tmp_path)) as engine:
        engine.add(RAYCAST)
        assert not engine.store.set_aside(DIGEST)
        assert engine.missing([DIGEST]) == []


def test_an_open_index_is_not_changed_by_what_becomes_of_its_file(tmp_path: Path) -> None:
    """Each byte of the file is flipped under the open index; a mapping would show that."""
    with Engine(Store(tmp_path)) as engine:
        engine.add(RAYCAST)
    with Engine(Store(tmp_path)) as engine:
        index = engine.module(DIGEST)
        [path] = (tmp_path / "index").rglob("*.idx")
        before = path.read_bytes()
        with path.open("r+b") as opened:
            opened.write(bytes(byte ^ 0xFF for byte in before))
        assert engine.symbolize_one(DIGEST, QUERY).frames
        assert engine.module(DIGEST) == index
    with Engine(Store(tmp_path)) as engine:
        assert engine.symbolize_one(DIGEST, QUERY).frames
        assert path.read_bytes() == before, "it was made anew"


def test_an_index_that_lies_under_another_modules_name_is_not_believed(tmp_path: Path) -> None:
    """Whole, with a right checksum, and of the wrong module."""
    modules = [(BIN / "vadd" / name).read_bytes() for name in ("dg2-opt.dbg", "dg2-O0.dbg")]
    query = ByKernel("vadd", KernelOffset(0x1B0))
    with Engine(Store(tmp_path)) as engine:
        digests = [engine.add(data).sha256 for data in modules]
        right = [engine.symbolize_one(digest, query) for digest in digests]
    assert right[0] != right[1]
    first, second = (tmp_path / "index" / str(VERSION) / digest[:2] / f"{digest}.idx" for digest in digests)
    first.rename(tmp_path / "between")
    second.rename(first)
    (tmp_path / "between").rename(second)
    found = {finding.kind for finding in inspect(tmp_path).findings}
    assert found == {FindingKind.INDEX}
    with Engine(Store(tmp_path)) as engine:
        assert [engine.symbolize_one(digest, query) for digest in digests] == right
    assert not inspect(tmp_path).findings

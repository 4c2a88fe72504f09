"""The function that a daemon's processes call."""

from __future__ import annotations

import gc
import hashlib
from contextlib import ExitStack
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.reading import ModuleFile, OpenedModules, served
from symd.engine.reading.questions import MakeIndex, ObjectBytes, WorkerRequest
from symd.engine.reading.served import decode
from symd.formats import containers
from symd.index import Index
from tests.fuzz.mutations import SAMPLES


@pytest.mark.parametrize("collects", [True, False])
def test_a_process_that_looks_for_garbage_when_it_likes_does_so_after_an_index(
    tmp_path: Path, *, collects: bool
) -> None:
    module, index = SAMPLES / "amdgpu/bin/v4-scale.co", tmp_path / "index"
    index.touch()
    digest = hashlib.sha256(module.read_bytes()).hexdigest()
    request = served.request(ModuleFile(digest, str(module)), MakeIndex(str(index)))
    with module.open("rb") as data, index.open("r+b") as into:
        try:
            if not collects:
                gc.disable()
            size = decode(served.answer(request, Limits(), [data.fileno(), into.fileno()]))
            assert gc.isenabled() is collects
        finally:
            gc.enable()
    assert size == index.stat().st_size
    Index.open_checked(index.read_bytes(), digest)


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests of what is unpacked, by a process that has read nothing yet."""
    digests: list[str] = []
    unpack = containers.unpack

    def counted(data: bytes, limits: Limits | None = None, *rest: str | None) -> containers.UnpackedModule:
        digests.append(hashlib.sha256(data).hexdigest())
        return unpack(data, limits)

    monkeypatch.setattr(containers, "unpack", counted)
    monkeypatch.setattr(served, "_opened", OpenedModules())
    return digests


def asked(module: Path, question: WorkerRequest[object], *into: Path) -> str:
    """Asks as a daemon does; the module's digest."""
    digest = hashlib.sha256(module.read_bytes()).hexdigest()
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("r+b" if path in into else "rb")) for path in (module, *into)]
        served.answer(
            served.request(ModuleFile(digest, str(module)), question), Limits(), [each.fileno() for each in files]
        )
    return digest


def indexed(module: Path, folder: Path) -> str:
    into = folder / "index"
    into.touch()
    return asked(module, MakeIndex(str(into)), into)


ONE, OTHER = SAMPLES / "amdgpu/bin/v4-scale.co", SAMPLES / "amdgpu/bin/v4-gfx900.co"


def test_a_module_whose_index_was_made_is_open_for_the_next_question(tmp_path: Path, unpacked: list[str]) -> None:
    one = asked(ONE, ObjectBytes(""))
    other = indexed(OTHER, tmp_path)
    for module in (OTHER, ONE):
        asked(module, ObjectBytes(""))
    assert unpacked == [one, other]


def test_of_many_modules_whose_indexes_were_made_few_stay_open(tmp_path: Path, unpacked: list[str]) -> None:
    modules = []
    for number in range(6):
        modules.append(tmp_path / f"{number}.co")
        modules[-1].write_bytes(ONE.read_bytes() + bytes([number]))
        indexed(modules[-1], tmp_path)
    del unpacked[:]
    asked(modules[-1], ObjectBytes(""))
    assert unpacked == []
    first = asked(modules[0], ObjectBytes(""))
    assert unpacked == [first]


def test_a_large_module_does_not_stay_open_when_its_index_was_made(
    tmp_path: Path, unpacked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "LARGE_MODULE", 1000)
    digest = indexed(ONE, tmp_path)
    asked(ONE, ObjectBytes(""))
    assert unpacked == [digest, digest]

"""The engine keeps what it could read, forgets nothing that it could not, and builds each index once."""

from __future__ import annotations

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import DriverMissing, LimitExceeded, ModuleNotFound, NoDebugData, ObjectNotFound, UnknownFormat
from symd.formats import containers
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.model.grabs import Grabbed, GrabRequest
from symd.store import Store

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
RAYCAST = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()
DIGEST = hashlib.sha256(RAYCAST).hexdigest()


@pytest.fixture
def engine(tmp_path: Path):
    with Engine(Store(tmp_path / "store")) as made:
        yield made


def files(engine: Engine) -> dict[str, bytes]:
    """Every file of the store but the database."""
    found = (path for path in engine.store.root.rglob("*") if path.is_file() and "catalogue" not in path.name)
    return {str(path): path.read_bytes() for path in found}


def test_a_module_is_added_once_and_described(engine: Engine) -> None:
    assert engine.missing([DIGEST]) == [DIGEST]
    first = engine.add(RAYCAST, "raycast.dbg")
    before = files(engine)
    assert engine.add(RAYCAST, "again") == first
    assert files(engine) == before
    assert engine.missing([DIGEST]) == []
    assert [(record.sha256, record.label, record.format) for record in engine.modules()] == [
        (DIGEST, "raycast.dbg", "igc-debug")
    ]
    assert first.format == "igc-debug"
    assert [kernel.name for kernel in first.objects[0].kernels] == ["raycast"]


def test_bytes_that_cannot_be_read_leave_the_store_as_before(engine: Engine) -> None:
    engine.add(RAYCAST)
    before, records = files(engine), list(engine.modules())
    with pytest.raises(UnknownFormat):
        engine.add(b"neither ELF nor container")
    assert files(engine) == before
    assert list(engine.modules()) == records


def test_a_failure_is_remembered_and_the_bytes_are_not_read_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownFormat) as first:
        engine.add(b"not a module")
    monkeypatch.setattr(containers, "unpack", lambda *_: pytest.fail("opened again"))
    with pytest.raises(UnknownFormat) as second:
        engine.add(b"not a module")
    assert str(second.value) == str(first.value)


def test_an_index_survives_a_restart_without_being_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(Store(tmp_path)) as engine:
        engine.add(RAYCAST)
    monkeypatch.setattr(containers, "unpack", lambda *_: pytest.fail("opened again"))
    with Engine(Store(tmp_path)) as engine:
        answer = engine.symbolize(DIGEST, [ByKernel("raycast", KernelOffset(0x610))])[0]
    assert answer.reason is Reason.EXACT
    assert [frame.function for frame in answer.frames] == ["length_squared", "distance_to"]


def test_many_who_ask_for_one_module_wait_for_one_build(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.store.put(RAYCAST)
    opened = []
    original = containers.unpack

    def counting(*arguments: object) -> containers.UnpackedModule:
        opened.append(arguments)
        time.sleep(0.2)  # meanwhile the others ask
        return original(*arguments)

    monkeypatch.setattr(containers, "unpack", counting)
    together = threading.Barrier(8)

    def ask() -> str:
        together.wait()
        return engine.module(DIGEST).sha256

    with ThreadPoolExecutor(8) as pool:
        answers = [each.result() for each in [pool.submit(ask) for _ in range(8)]]
    assert answers == [DIGEST] * 8
    assert len(opened) == 1


def test_a_module_that_is_not_there_is_said_so(engine: Engine) -> None:
    for ask in (engine.module, lambda digest: engine.symbolize(digest, []), lambda digest: list(engine.lines(digest))):
        with pytest.raises(ModuleNotFound):
            ask("0" * 64)


def test_an_object_that_is_not_there_is_said_so(engine: Engine) -> None:
    engine.add(RAYCAST)
    for ask in (lambda: engine.symbolize(DIGEST, [], "nowhere"), lambda: engine.object_data(DIGEST, "nowhere")):
        with pytest.raises(ObjectNotFound):
            ask()
    assert engine.object_data(DIGEST, "raycast")[:4] == b"\x7fELF"


def test_a_kernel_that_is_not_there_is_an_answer(engine: Engine) -> None:
    engine.add(RAYCAST)
    assert engine.symbolize_one(DIGEST, ByKernel("nobody", KernelOffset(0))).reason is Reason.UNKNOWN_KERNEL


def test_a_module_larger_than_the_limit_is_refused(tmp_path: Path) -> None:
    limits = Limits(module_size=100)
    with Engine(Store(tmp_path, limits), limits) as engine, pytest.raises(LimitExceeded):
        engine.add(RAYCAST)


def grabbed(debug_data: bytes) -> Grabbed:
    return Grabbed(debug_data, b"", ("raycast",), "", "a driver", "a device")


def test_what_a_driver_gave_becomes_a_module(tmp_path: Path) -> None:
    with Engine(Store(tmp_path), grab=lambda *_, **__: grabbed(RAYCAST)) as engine:
        summary, _ = engine.grab(GrabRequest("opencl", "source", b"", label="raycast.cl"))
        assert summary.sha256 == DIGEST
        assert next(iter(engine.modules())).label == "raycast.cl"


def test_a_driver_without_debug_data_is_explained(tmp_path: Path) -> None:
    with Engine(Store(tmp_path), grab=lambda *_, **__: grabbed(b"")) as engine:
        with pytest.raises(NoDebugData, match="raycast"):
            engine.grab(GrabRequest("opencl", "source", b""))
        assert list(engine.modules()) == []


def test_an_engine_without_drivers_says_so(engine: Engine) -> None:
    with pytest.raises(DriverMissing):
        engine.grab(GrabRequest("opencl", "source", b""))

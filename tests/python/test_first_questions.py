"""The first questions about a module are answered from as much of it as they need, and as the index of all answers them."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import symd
from symd.config import Limits
from symd.debuginfo import reading
from symd.engine.engine import Engine
from symd.engine.files import opened_file
from symd.engine.files.opened_file import LargeFile
from symd.errors import FailedPrecondition, HashMismatch, LimitExceeded, SymdError
from symd.index import partial
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, Query, SectionOffset
from symd.store import Store
from tests.builders import igc
from tests.hostile.wrappers import in_archive
from tests.python.conftest import SAMPLES

KERNELS = SAMPLES / "kernels" / "bin"
COUNT = partial.MIN_OBJECTS + 20
SMALL_AND_LARGE = pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the code objects whose debug data is read, in that order, once for each time."""
    found: list[str] = []

    def each(codes: Iterable[Any], *rest: Any) -> Any:
        known = list(codes)
        found.extend(str(code.path) for code in known)
        return read_each(known, *rest)

    def one(code: Any, *rest: Any) -> Any:
        found.append(str(code.path))
        return read_part(code, *rest)

    def noted(codes: Iterable[Any]) -> Iterable[Any]:
        for code in codes:
            found.append(str(code.path))
            yield code

    read_each, read_part, read_in_turn = reading.read_each, reading.read_part, reading.read_in_turn
    for room in (reading, partial):
        monkeypatch.setattr(room, "read_in_turn", lambda codes, *rest: read_in_turn(noted(codes), *rest))
    monkeypatch.setattr(reading, "read_each", each)
    monkeypatch.setattr(reading, "read_part", one)
    return found


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Many code objects, m0 and so on, which are alike."""
    path = tmp_path / "kernels.a"
    path.write_bytes(in_archive(*[(KERNELS / "vadd" / "dg2-opt.zebin").read_bytes()] * COUNT))
    return path


@SMALL_AND_LARGE
def test_one_question_decodes_the_code_objects_that_it_needs(
    archive: Path, decoded: list[str], is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(opened_file, "LARGE", 1)
    for source in (archive, archive.read_bytes()):
        decoded.clear()
        with symd.open(source) as module:
            assert len(module.symbolize(0x40).candidates) == COUNT
            assert decoded == []
            one = module.symbolize(0x40, path="m7")
            assert one.frames
            assert set(decoded) == {"m7"}
            assert list(module.symbolize([0x40], path="m7")) == [one]
            assert set(decoded) >= {f"m{number}" for number in range(COUNT)}


def test_a_program_of_the_host_is_not_indexed_for_one_question(decoded: list[str]) -> None:
    """Its kernels have the same places in the code object of each architecture."""
    with symd.open(SAMPLES / "amdgpu" / "bin" / "host") as module:
        paths = {each.path for each in module.objects}
    decoded.clear()
    with symd.open(SAMPLES / "amdgpu" / "bin" / "host") as module:
        assert module.symbolize(1 << 40).reason is symd.Reason.OUTSIDE_TEXT
        assert decoded == []
        assert module.lines()
        assert set(decoded) == paths


@SMALL_AND_LARGE
@pytest.mark.parametrize("name", ["amdgpu/bin/host", "cuda/bin/program", "cuda/bin/tonemap.zstd.fatbin"])
def test_the_bytes_of_a_code_object_take_no_index(
    name: str, decoded: list[str], is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with symd.open(SAMPLES / name) as module:
        digests = {each.path: each.sha256 for each in module.objects}
    if is_large:
        monkeypatch.setattr(opened_file, "LARGE", 1)
    path = Path(shutil.copy(SAMPLES / name, tmp_path))
    monkeypatch.setattr(Engine, "add", lambda *_: pytest.fail("the engine is asked, which indexes all of it"))
    decoded.clear()
    for source in (path, path.read_bytes()):
        with symd.open(source) as module:
            assert {path: sha256(module.object_data(path)).hexdigest() for path in digests} == digests
    assert decoded == []


def test_who_asks_on_gets_the_index_of_all(tmp_path: Path, decoded: list[str]) -> None:
    code = symd.open(KERNELS / "raycast" / "dg2-opt.dbg").object_data("raycast")
    path = tmp_path / "many.dbg"
    path.write_bytes(igc.debug_container([igc.DebugRecord(f"ray_{number}", code) for number in range(COUNT)]))
    decoded.clear()
    with symd.open(path) as module:
        for number in range(partial.MAX_DECODED):
            module.symbolize(f"ray_{number}+8")
        assert len(set(decoded)) == partial.MAX_DECODED
        for number in range(COUNT):
            module.symbolize(f"ray_{number}+8")
        assert len(set(decoded)) == COUNT
        decoded.clear()
        for number in range(COUNT):
            module.symbolize(f"ray_{number}+8")
        assert decoded == []


def places(module: symd.Module) -> list[tuple[Query, str | None]]:
    """Places of every kind, of kernels and outside of them, with and without the code object."""
    found: list[tuple[Query, str | None]] = [(ByKernel("nothing", KernelOffset(4)), None)]
    for each in module.objects:
        for path in (None, each.path):
            found += [(ByAddress(ObjectAddress(address)), path) for address in (0, 0x44, 0x1010, 0x1978, 1 << 40)]
            for kernel in each.kernels[:2]:
                for offset in (0, 0x20, kernel.size // 2, kernel.size - 1, kernel.size + 64):
                    found.append((ByKernel(kernel.name, KernelOffset(offset)), path))
                    found.append((BySection(kernel.section or ".text", SectionOffset(offset)), path))
    return found


@SMALL_AND_LARGE
@pytest.mark.parametrize(
    "name",
    [
        "amdgpu/bin/host",
        "amdgpu/bin/v4-gfx900.co",
        "amdgpu/bin/shade.kpack",
        "cuda/bin/program",
        "cuda/bin/tonemap.zstd.fatbin",
        "kernels/bin/raycast/dg2-opt.dbg",
        "kernels/bin/filters/igc2-dg2-opt.zebin",
    ],
)
def test_answers_are_those_of_the_index_of_all(
    name: str, is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = SAMPLES / name
    if is_large:
        monkeypatch.setattr(opened_file, "LARGE", 1)
        path = Path(shutil.copy(path, tmp_path))  # without split debug data beside it
    with symd.open(path) as whole:
        asked = list(dict.fromkeys(places(whole)))
        asked = asked[:: 1 + len(asked) // 25]
        for query, within in asked:
            for as_written in (False, True):
                expected = whole.symbolizer.symbolize(whole.sha256, [query], within, as_written=as_written)[0]
                with symd.open(path) as module:
                    assert module.symbolize(query, path=within, as_written=as_written) == expected


def test_what_is_wrong_is_said_as_of_the_index_of_all(archive: Path) -> None:
    def said(ask: Callable[[], object]) -> str:
        with pytest.raises(symd.SymdError) as caught:
            ask()
        return str(caught.value)

    with symd.open(archive) as first, symd.open(archive) as whole:
        assert whole.summary
        assert said(lambda: first.symbolize(0, path="nowhere")) == said(lambda: whole.symbolize(0, path="nowhere"))
        with symd.open(archive) as alone:
            assert said(lambda: alone.object_data("nowhere")) == said(lambda: whole.object_data("nowhere"))


@SMALL_AND_LARGE
def test_a_mapped_file_that_was_written_to_is_not_answered_from(
    tmp_path: Path, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(opened_file, "LARGE", 1)
    path = tmp_path / "shade.co"
    data = (SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co").read_bytes()
    path.write_bytes(data)
    with symd.open(path) as module, symd.open(path) as indexed:
        wanted = module.symbolize(0x1978)
        assert indexed.symbolize([0x1978])[0] == wanted
        new = tmp_path / "new"
        new.write_bytes(b"another")
        new.replace(path)
        assert module.symbolize(0x1978) == wanted, "the file that was opened is as it was"
    path.write_bytes(data)
    with symd.open(path) as module, symd.open(path) as indexed:
        assert indexed.symbolize([0x1978])[0] == wanted
        path.write_bytes(data[:100])
        for ask in (
            lambda: module.symbolize(0x1978),
            module.object_data,
            lambda: module.summary,
            lambda: module.sha256,
        ):
            with pytest.raises(HashMismatch, match="open it again"):
                ask()
        assert indexed.symbolize(0x1978) == wanted


def test_a_closed_module_answers_nothing(archive: Path) -> None:
    module = symd.open(archive)
    module.symbolize(0x40)
    module.close()
    with pytest.raises(FailedPrecondition, match="is closed"):
        module.symbolize(0x40)


def test_a_large_file_is_gone_through_a_few_times(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened_file, "LARGE", 1)
    walks = []
    opened = LargeFile._open_index
    monkeypatch.setattr(LargeFile, "_open_index", lambda self, *rest: walks.append(rest) or opened(self, *rest))
    with symd.open(archive) as module:
        one = module.symbolize(0x40, path="m0").frames
        for number in range(COUNT):
            assert module.symbolize(0x40, path=f"m{number}").frames == one
    assert len(walks) == 3


@SMALL_AND_LARGE
def test_what_cannot_be_opened_is_said_as_the_engine_says_it(
    tmp_path: Path, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(opened_file, "LARGE", 1)
    noise = b"noise, and no module" * 100
    path = tmp_path / "noise"
    path.write_bytes(noise)
    for source, label in ((path, str(path)), (noise, "")):
        with Engine(Store.temporary(Limits())) as engine, pytest.raises(SymdError) as wanted:
            engine.add(noise)
        with pytest.raises(type(wanted.value)) as caught:
            symd.open(source).symbolize(0)
        assert str(caught.value) == str(wanted.value.prefix_where(label))
    for source in (path, noise, bytearray(noise)):
        with pytest.raises(LimitExceeded, match="larger than 100 bytes"):
            symd.open(source, limits=Limits(module_size=100))


@SMALL_AND_LARGE
def test_threads_ask_at_once(archive: Path, is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_large:
        monkeypatch.setattr(opened_file, "LARGE", 1)
    paths = [f"m{number}" for number in range(COUNT)]
    with symd.open(archive) as module, ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda path: module.symbolize(0x40, path=path), paths))
        assert len({answer.frames for answer in answers}) == 1
        assert list(pool.map(lambda path: module.symbolize([0x40], path=path)[0], paths)) == answers


def test_the_garbage_collector_is_left_as_it_was(archive: Path) -> None:
    before = gc.isenabled(), gc.get_freeze_count()
    with symd.open(archive) as module:
        module.symbolize(0x40, path="m7")
        assert (gc.isenabled(), gc.get_freeze_count()) == before
    gc.disable()
    try:
        with symd.open(archive) as module:
            module.symbolize(0x40, path="m7")
            assert not gc.isenabled()
    finally:
        gc.enable()

"""Two engines with one store, as two daemons have it: what one removes the other does not answer for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import LimitExceeded, ModuleNotFound
from symd.index.lookup import Index
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.model.breakpoints import Breakpoint, SourceLine
from symd.model.watches import Watching
from symd.store import Store

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
RAYCAST = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()
VADD = (BIN / "vadd" / "dg2-opt.dbg").read_bytes()
LONG = 30.0


def eventually_gone(engine: Engine, digest: str) -> bool:
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        try:
            engine.symbolize_one(digest, ByKernel("raycast", KernelOffset(0x610)))
        except ModuleNotFound:
            return True
        time.sleep(0.05)
    return False


def test_what_one_removes_the_other_forgets(tmp_path: Path) -> None:
    with Engine(Store(tmp_path)) as one, Engine(Store(tmp_path)) as other:
        digest = one.add(RAYCAST).sha256
        assert other.symbolize_one(digest, ByKernel("raycast", KernelOffset(0x610))).reason is Reason.EXACT
        one.remove(digest)
        assert eventually_gone(other, digest)


def test_what_one_evicts_both_forget(tmp_path: Path) -> None:
    with Engine(Store(tmp_path)) as other, Engine(Store(tmp_path, Limits(store_size=30_000))) as one:
        digest = one.add(RAYCAST).sha256
        assert other.symbolize_one(digest, ByKernel("raycast", KernelOffset(0x610))).reason is Reason.EXACT
        one.store.put(bytes(30_000))
        for engine in (one, other):
            assert eventually_gone(engine, digest)


def test_a_module_that_goes_while_it_is_opened_is_not_kept_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(Store(tmp_path)) as one, Engine(Store(tmp_path)) as other:
        digest = one.add(RAYCAST).sha256
        checked = Index.open_checked

        def late(data: bytes, of: str) -> Index:
            one.remove(digest)
            time.sleep(1)  # its removal is heard of before its index is open
            return checked(data, of)

        monkeypatch.setattr(Index, "open_checked", late)
        with pytest.raises(ModuleNotFound):
            other.module(digest)
        monkeypatch.undo()
        with pytest.raises(ModuleNotFound):
            other.module(digest)


def test_a_watch_sees_what_another_engine_takes_in(tmp_path: Path) -> None:
    breakpoint_ = Breakpoint("b", SourceLine("vadd.cl", 8))
    with Engine(Store(tmp_path)) as one, Engine(Store(tmp_path)) as other:
        watch = other.watch([breakpoint_])
        with watch:
            events = iter(watch)
            assert isinstance(next(events), Watching)
            digest = one.add(VADD).sha256
            assert next(events).digest == digest


def test_a_module_that_finds_no_room_is_not_remembered_as_a_failure(tmp_path: Path) -> None:
    with Engine(Store(tmp_path, Limits(store_size=1000))) as engine:
        with pytest.raises(LimitExceeded, match="store_size"):
            engine.add(RAYCAST)
        assert engine.missing([engine.store.put(b"small")]) == []
    with Engine(Store(tmp_path)) as engine:
        assert engine.add(RAYCAST).format == "igc-debug"


def test_a_module_whose_index_finds_no_room_is_answered_for_all_the_same(tmp_path: Path) -> None:
    with Engine(Store(tmp_path, Limits(store_size=len(RAYCAST) + 100))) as engine:
        digest = engine.add(RAYCAST).sha256
        assert engine.symbolize_one(digest, ByKernel("raycast", KernelOffset(0x610))).reason is Reason.EXACT
        assert not list(tmp_path.rglob("*.idx"))
        assert not list((tmp_path / "incoming").iterdir())

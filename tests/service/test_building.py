"""Modules are indexed in processes of their own; whatever becomes of those, the daemon says it in one error."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine import Engine
from symd.errors import DeadlineExceeded, LimitExceeded, Malformed, SymdError, Unavailable
from symd.index.module import build_index
from symd.service.building import Workers
from symd.store import Store

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
RAYCAST = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()


@pytest.fixture
def workers():
    with Workers(2) as made:
        yield made


def test_the_index_is_the_one_that_this_process_would_make(workers):
    assert workers.build(RAYCAST, Limits()) == build_index(RAYCAST, Limits())


def test_a_refusal_comes_back_as_itself(workers):
    with pytest.raises(SymdError) as here:
        build_index(RAYCAST[:100], Limits())
    with pytest.raises(type(here.value)) as there:
        workers.build(RAYCAST[:100], Limits())
    assert str(there.value) == str(here.value)
    assert isinstance(here.value, Malformed)
    assert workers.build(RAYCAST, Limits())


def test_time_that_is_up_is_said_and_the_next_module_is_indexed(workers):
    with pytest.raises(DeadlineExceeded, match="build_seconds"):
        workers.build(RAYCAST, replace(Limits(), build_seconds=0.001))
    assert workers.build(RAYCAST, Limits())


def test_memory_that_runs_out_is_said(workers):
    with pytest.raises(LimitExceeded, match=r"524288000 bytes.*build_memory"):
        workers.build(bytes(600 << 20), replace(Limits(), build_memory=500 << 20))
    assert workers.build(RAYCAST, Limits())


def children() -> set[int]:
    """The processes that this one has started, in any of its threads."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(number) for path in lists for number in path.read_text().split()}


def test_a_process_that_is_killed_is_one_clear_error(workers):
    before = children()
    workers.build(RAYCAST, Limits())
    (process,) = children() - before
    os.kill(process, signal.SIGSTOP)
    failed = []

    def ask():
        try:
            workers.build(RAYCAST, Limits())
        except SymdError as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.2)
    os.kill(process, signal.SIGKILL)
    asking.join(20)
    assert [type(error) for error in failed] == [Unavailable]
    assert "SIGKILL" in str(failed[0])


def test_many_who_ask_for_one_module_have_it_built_once(tmp_path):
    calls = []

    def build(data, limits):
        calls.append(len(data))
        time.sleep(0.2)
        return build_index(data, limits)

    large = (BIN / "vadd" / "dg2-opt.zebin").read_bytes() + bytes(1 << 16)
    with Engine(Store(tmp_path), build=build) as engine:
        digest = engine.store.put(large)
        asking = [threading.Thread(target=engine.module, args=(digest,)) for _ in range(8)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert calls == [len(large)]

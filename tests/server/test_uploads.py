"""Uploads to a real daemon: large ones go to the disk and not into memory, and wrong ones leave the store as it was."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest

from symd.v1 import module_service_pb2 as m
from symd.v1.module_service_pb2_grpc import ModuleServiceStub

SAMPLE = (Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.dbg").read_bytes()
CHUNK = 1 << 20
COUNT, SIZE = 5, 32 * CHUNK
"""Uploads that are open at once, and the bytes of each: 160 MiB together."""


@pytest.fixture
def daemon(tmp_path):
    """(process, address, store) of `symd serve`."""
    address, store = f"unix:{tmp_path}/s", tmp_path / "store"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline()
        yield process, address, store
        process.terminate()


def kept(store):
    return sorted(path.name for path in store.rglob("*") if path.is_file() and "catalogue" not in path.name)


def written(store):
    return sum(path.stat().st_size for path in store.rglob("incoming-*"))


def resident(process):
    """Bytes of memory that the process holds for itself."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) << 10


def test_uploads_that_are_open_at_once_are_bounded_in_memory(daemon):
    process, address, store = daemon
    before, half_way, go_on = resident(process), threading.Barrier(COUNT + 1), threading.Event()

    def parts(number):
        yield m.UploadModuleRequest(header=m.UploadHeader(sha256=f"{number:064x}", size_bytes=SIZE))
        for _ in range(SIZE // CHUNK - 1):
            yield m.UploadModuleRequest(chunk=bytes([number]) * CHUNK)
        half_way.wait(60)
        go_on.wait(60)
        yield m.UploadModuleRequest(chunk=bytes([number]) * CHUNK)

    with grpc.insecure_channel(address) as channel:
        calls = [ModuleServiceStub(channel).UploadModule.future(parts(number)) for number in range(COUNT)]
        half_way.wait(60)
        grown = resident(process) - before
        deadline = time.monotonic() + 30
        while written(store) < COUNT * (SIZE - CHUNK) and time.monotonic() < deadline:
            grown = max(grown, resident(process) - before)
            time.sleep(0.01)
        go_on.set()
        reasons = {call.exception(60).code() for call in calls}
    assert 0 < grown < COUNT * SIZE / 2
    assert reasons == {grpc.StatusCode.INVALID_ARGUMENT}  # their names were made up
    assert kept(store) == []


def test_a_wrong_hash_leaves_the_store_as_before_and_the_daemon_goes_on(daemon):
    _, address, store = daemon
    digest = hashlib.sha256(SAMPLE).hexdigest()

    def parts(name, data):
        yield m.UploadModuleRequest(header=m.UploadHeader(sha256=name, size_bytes=len(data), label="x"))
        yield m.UploadModuleRequest(chunk=data)

    with grpc.insecure_channel(address) as channel:
        stub = ModuleServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.UploadModule(parts("0" * 64, SAMPLE))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert kept(store) == []
        assert list(stub.ListModules(m.ListModulesRequest()).modules) == []
        assert stub.UploadModule(parts(digest, SAMPLE)).module.sha256 == digest
        assert [each.label for each in stub.ListModules(m.ListModulesRequest()).modules] == ["x"]

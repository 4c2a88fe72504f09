"""Bad input over gRPC: each a clear error of the right status; the daemon goes on, and its store is as it was."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from symd.errors import BuildFailed, ModuleNotFound, ObjectNotFound, SymdError
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.model.grabs import GrabRequest
from symd.v1 import module_service_pb2, module_service_pb2_grpc, symbol_service_pb2, symbol_service_pb2_grpc
from tests.builders.igc import broken_containers
from tests.daemon.conftest import Daemon
from tests.live.conftest import Target, demand

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
GOOD = (BIN / "raycast" / "dg2-opt.dbg").read_bytes()
GOOD_DIGEST = hashlib.sha256(GOOD).hexdigest()
ELF = GOOD[40:]
SAMPLES = [path for path in sorted(BIN.glob("*/*")) if path.parent.name in {"vadd", "filters"}]


@pytest.fixture(autouse=True)
def nothing_changes(daemon: Daemon) -> Iterator[None]:
    """Around each test: a good module is there before and after, and nothing else came or went."""
    with daemon.client() as client:
        client.add(GOOD, "good")
        before, records = daemon.settled(), [record.sha256 for record in client.modules()]
        yield
        answer = client.symbolize_one(GOOD_DIGEST, ByKernel("raycast", KernelOffset(0x610)))
        assert [frame.function for frame in answer.frames] == ["length_squared", "distance_to"]
        assert [record.sha256 for record in client.modules()] == records
        assert daemon.settled() == before
        assert daemon.process.poll() is None


def refused(daemon: Daemon, data: bytes) -> SymdError:
    with daemon.client() as client, pytest.raises(SymdError) as caught:
        client.add(data)
    assert caught.value.status in {"INVALID_ARGUMENT", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}
    assert caught.value.message
    return caught.value


def test_random_bytes(daemon: Daemon) -> None:
    dice = random.Random(7)
    for size in (1, 100, 70_000):
        assert refused(daemon, dice.randbytes(size)).reason == "UNKNOWN_FORMAT"


HONEST = {"ELF size of no bytes"}
"""A kernel without debug data is no defect: the container says so by this size."""


@pytest.mark.parametrize("name", sorted(broken_containers(ELF).keys() - HONEST))
def test_a_broken_container(daemon: Daemon, name: str) -> None:
    """Sizes past the end, a count of all ones, a name without an end, an ELF that is none, and more."""
    refused(daemon, broken_containers(ELF)[name])


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: "/".join(path.parts[-2:]))
def test_a_truncated_sample(daemon: Daemon, path: Path) -> None:
    data = path.read_bytes()
    for size in range(64, len(data) - 64, max(64, len(data) // 8 // 64 * 64)):
        refused(daemon, data[:size])


def upload(daemon: Daemon, parts: list[module_service_pb2.UploadModuleRequest]) -> grpc.RpcError:
    with grpc.insecure_channel(daemon.address) as channel, pytest.raises(grpc.RpcError) as caught:
        module_service_pb2_grpc.ModuleServiceStub(channel).UploadModule(iter(parts))
    return caught.value


def reason_of(error: grpc.RpcError) -> str:
    info = error_details_pb2.ErrorInfo()
    status = rpc_status.from_call(error)
    assert any(detail.Unpack(info) for detail in status.details)
    assert info.domain == "symd"
    return info.reason


def test_an_upload_whose_bytes_do_not_match_its_hash(daemon: Daemon) -> None:
    other = (BIN / "blur" / "dg2-opt.dbg").read_bytes()
    header = module_service_pb2.UploadHeader(sha256="0" * 64, size_bytes=len(other))
    request = module_service_pb2.UploadModuleRequest
    error = upload(daemon, [request(header=header), request(chunk=other)])
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason_of(error) == "HASH_MISMATCH"


def test_an_upload_without_its_header(daemon: Daemon) -> None:
    error = upload(daemon, [module_service_pb2.UploadModuleRequest(chunk=b"bytes")])
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_query_for_a_module_that_is_not_there(daemon: Daemon) -> None:
    with daemon.client() as client:
        for ask in (
            lambda: client.module("0" * 64),
            lambda: client.symbolize("0" * 64, [ByKernel("k", KernelOffset(0))]),
            lambda: list(client.lines("0" * 64)),
        ):
            with pytest.raises(ModuleNotFound):
                ask()


def test_a_query_for_an_object_that_is_not_there(daemon: Daemon) -> None:
    with daemon.client() as client, pytest.raises(ObjectNotFound):
        client.symbolize(GOOD_DIGEST, [ByKernel("raycast", KernelOffset(0))], "nowhere")


def test_a_query_for_a_kernel_that_is_not_there(daemon: Daemon) -> None:
    with daemon.client() as client:
        queries = [ByKernel("nobody", KernelOffset(0)), ByKernel("raycast", KernelOffset(0x610))]
        assert [answer.reason for answer in client.symbolize(GOOD_DIGEST, queries)] == [
            Reason.UNKNOWN_KERNEL,
            Reason.EXACT,
        ]


def test_a_name_that_is_no_module(daemon: Daemon) -> None:
    request = symbol_service_pb2.SymbolizeRequest(module="modules/../../etc/passwd")
    with grpc.insecure_channel(daemon.address) as channel:
        stub = symbol_service_pb2_grpc.SymbolServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Symbolize(request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.live
@pytest.mark.parametrize(
    ("api", "kind", "data"),
    [
        ("opencl", "source", lambda: b"kernel void broken(global int *a) { a[0] = undeclared; }"),
        ("opencl", "spirv", lambda: (BIN / "vadd" / "opt.spv").read_bytes()[:-200]),
        ("level-zero", "spirv", lambda: (BIN / "vadd" / "opt.spv").read_bytes()[:-200]),
    ],
    ids=["opencl source", "opencl spirv", "level zero spirv"],
)
def test_a_module_that_makes_the_compiler_fail(daemon: Daemon, api: str, kind: str, data: Callable[[], bytes]) -> None:
    demand(Target("dg2", None), api)
    request = GrabRequest(api, kind, data(), "-g", simulate="dg2")
    with daemon.client() as client, pytest.raises(SymdError) as caught:
        client.grab(request)
    assert caught.value.message
    if kind == "source":
        assert isinstance(caught.value, BuildFailed)
        assert "undeclared" in caught.value.build_log


@pytest.mark.live
def test_a_spirv_that_the_compiler_refuses_shows_its_build_log(daemon: Daemon, tmp_path: Path) -> None:
    """Double precision on a device that has none: the compiler refuses it with words of its own."""
    demand(Target("dg2", None), "level-zero")
    source = tmp_path / "doubles.cl"
    source.write_text("kernel void doubles(global double *a) { a[get_global_id(0)] *= 2.0; }\n")
    spirv = Target("pvc", None).compile(source, tmp_path).spirv
    with daemon.client() as client, pytest.raises(BuildFailed) as caught:
        client.grab(GrabRequest("level-zero", "spirv", spirv, "-g", simulate="dg2"))
    assert "double" in caught.value.build_log.lower()

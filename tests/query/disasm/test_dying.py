"""Disassemblers that die of a module, refuse it, hang or talk nonsense: no defect of symd's, over gRPC, HTTP and from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.rpc import code_pb2, error_details_pb2
from grpc_status import rpc_status

from symd.config import Limits
from symd.errors import FailedPrecondition, SymdError, ToolFailed, by_reason
from symd.formats.containers import unpack
from symd.model.code import Vendor
from symd.query.disasm import disassemble
from symd.v1.listing_service_pb2 import GetListingRequest
from symd.v1.listing_service_pb2_grpc import ListingServiceStub
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.query.disasm.objects import SAMPLES, made
from tests.server.http.daemon import PATIENCE, Web, web_daemon

SHADE = SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co"
SECTION = "echo 'Disassembly of section .text.0:'; "
NONSENSE = {
    "a section that was not given": r"echo 'Disassembly of section .text.99:'; printf '\tx // 000000000000: 00000000\n'",
    "a section without a number": "echo 'Disassembly of section .text.x:'",
    "an address behind the code": SECTION + r"printf '\tx // 0000FFFFFFFF: 00000000\n'",
    "an instruction longer than the code": SECTION + rf"printf '\tx // 000000000000: {' '.join(['00000000'] * 17)}\n'",
    "an address of no machine": SECTION + r"printf '\tx // FFFFFFFFFFFFFFFF: 00000000\n'",
}
DYING = {
    "SIGSEGV": ("kill -SEGV $$", "TOOL_CRASHED", {"signal": "SIGSEGV"}, "it died of SIGSEGV"),
    "SIGKILL": ("kill -KILL $$", "TOOL_CRASHED", {"signal": "SIGKILL"}, "it died of SIGKILL"),
    "refusal": ("echo no memory >&2; exit 7", "TOOL_FAILED", {"exit_status": "7"}, "exit status 7; its last words: no memory"),
    "nothing": ("exit 0", "TOOL_FAILED", {}, "it gave no instructions for the code"),
    "nonsense": (NONSENSE["a section that was not given"], "TOOL_FAILED", {}, "its answer makes no sense"),
}  # fmt: skip


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which llvm-objdump is looked for first."""
    folder = tmp_path_factory.mktemp("tools")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYMD_TOOLS", str(folder))
        yield folder


@pytest.fixture(scope="module")
def daemon(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with web_daemon(tmp_path_factory.mktemp("daemon"), "--limit", "disassembly_seconds=3") as started:
        yield started


def put(tools: Path, script: str, name: str = "llvm-objdump") -> None:
    (tools / name).write_text(f"#!/bin/sh\n{script}\n")
    (tools / name).chmod(0o700)


def refusal(daemon: Web, module: str) -> tuple[str, error_details_pb2.ErrorInfo, str]:
    """The status of GetListing, its ErrorInfo and its message, as a client of gRPC's alone has them."""
    with grpc.insecure_channel(daemon.address) as channel, pytest.raises(grpc.RpcError) as caught:
        [*ListingServiceStub(channel).GetListing(GetListingRequest(module=module), timeout=PATIENCE)]
    status = rpc_status.from_call(caught.value)
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    assert any(detail.Unpack(info) for detail in status.details)
    return code_pb2.Code.Name(status.code), info, status.message


@pytest.mark.parametrize("name", DYING)
def test_over_grpc_it_is_a_failed_precondition_that_names_tool_signal_and_module(
    tools: Path, daemon: Web, name: str
) -> None:
    script, reason, metadata, words = DYING[name]
    put(tools, script)
    (digest,) = daemon.add(SHADE)
    code, info, message = refusal(daemon, f"modules/{digest}")
    assert (code, info.reason) == ("FAILED_PRECONDITION", reason)
    told = {**metadata, "tool": "llvm-objdump", "module": f"modules/{digest}"}
    assert {key: info.metadata[key] for key in told} == told
    assert message.startswith(f"modules/{digest}: llvm-objdump: ")
    assert words in message


def test_over_grpc_one_that_hangs_is_a_deadline_that_names_it(tools: Path, daemon: Web) -> None:
    put(tools, "while :; do :; done")
    (digest,) = daemon.add(SHADE)
    code, info, _ = refusal(daemon, f"modules/{digest}")
    assert (code, info.metadata["tool"], info.metadata["module"]) == (
        "DEADLINE_EXCEEDED",
        "llvm-objdump",
        f"modules/{digest}",
    )


@pytest.mark.parametrize("name", DYING)
def test_over_http_the_page_says_it_in_the_place_of_instructions(tools: Path, daemon: Web, name: str) -> None:
    script, _, _, words = DYING[name]
    put(tools, script)
    (digest,) = daemon.add(SHADE)
    status, _, body = daemon.ask(f"api/modules/{digest}/listing")
    assert status == 200
    problem = json.loads(body)["problem"]
    assert problem.startswith("llvm-objdump: ")
    assert words in problem


@pytest.mark.parametrize("name", DYING)
@pytest.mark.parametrize("by_daemon", [False, True])
def test_the_command_ends_with_3_and_one_line(
    tools: Path,
    daemon: Web,
    run: Run,  # noqa: F811 - the fixture
    name: str,
    by_daemon: bool,
) -> None:
    script, _, _, words = DYING[name]
    put(tools, script)
    done = run("listing", SHADE, *(["--server", daemon.address] if by_daemon else []))
    assert done.code == 3
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert f"{SHADE}: llvm-objdump: " in done.err
    assert words in done.err


@pytest.mark.parametrize("what", NONSENSE)
def test_an_answer_without_sense_is_the_tools(tools: Path, what: str) -> None:
    put(tools, NONSENSE[what])
    ahead = made(bytes(64), vendor=Vendor.AMD, target="gfx900")
    (result,) = disassemble([ahead])
    assert isinstance(result, ToolFailed), result
    assert "no sense" in str(result) or "no instructions" in str(result)


def nvidia() -> object:
    return made(bytes(64), vendor=Vendor.NVIDIA, target="sm_90")


@pytest.mark.parametrize("said", [r"printf '\t/*ffffffffffffffffffff*/  NOP ;\n'", r"printf '\t/*0100*/  NOP ;\n'"])
def test_nonsense_of_nvdisasm_is_too(tools: Path, said: str) -> None:
    put(tools, said, "nvdisasm")
    (result,) = disassemble([nvidia()])
    assert isinstance(result, ToolFailed), result


@pytest.mark.parametrize(
    "said",
    [
        "",
        "echo 'OpNop ; 0xffffffffffffffffffff'",
        "kill -SEGV $$",
        r"printf 'OpNop ; 0x00000018\nOpNop ; 0x00000014\n'",
    ],
)
def test_nonsense_of_spirv_dis_is_too(tools: Path, said: str) -> None:
    put(tools, said, "spirv-dis")
    data = next((SAMPLES / "spirv" / "bin").glob("inline.O2.none.spv")).read_bytes()
    for result in disassemble(unpack(data, Limits()).objects):
        assert isinstance(result, ToolFailed), result


@pytest.mark.parametrize("reason", ["TOOL_FAILED", "TOOL_CRASHED", "DRIVER_FAILED", "DRIVER_CRASHED"])
def test_what_an_outside_part_did_is_no_defect_and_ends_with_3(reason: str) -> None:
    kind = by_reason(reason)
    assert kind is not None
    assert issubclass(kind, FailedPrecondition)
    assert (kind.status, kind.exit_code) == ("FAILED_PRECONDITION", 3)


def test_internal_is_symds_own_defect_alone() -> None:
    def kinds(of: type[SymdError]) -> Iterator[type[SymdError]]:
        yield of
        for each in of.__subclasses__():
            yield from kinds(each)

    assert [
        each.__name__ for each in kinds(SymdError) if each.status == "INTERNAL" and each.__module__ == "symd.errors"
    ] == ["SymdError"]

"""``symd core`` as people and scripts see it."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from symd.engine.files.input import is_regular_file
from symd.formats import budget
from tests.builders.amdgpu_core import AmdgpuCore
from tests.builders.cuda_core import CudaCore
from tests.builders.elf import build_elf
from tests.builders.relocated_cubin import relocated
from tests.cli.conftest import ROOT, Run
from tests.tools import require

DUMP = ROOT / "samples" / "cores" / "bin" / "illegal_address.nvcudmp"
CUBIN = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.debug.cubin"


def test_the_text(run: Run) -> None:
    done = run("core", DUMP)
    assert done.code == 0
    assert done.out.splitlines()[:13] == [
        "cuda-core: generator symd's tests, driver 580.65, cuda 13.0",
        "  device 0: Test GPU (sm_90)",
        "  code device0.module0 (handle 0x51) (sm_90), lines from the dump",
        "",
        "_Z5probePfPK6float3, grid 1, device 0: CUDA_EXCEPTION_14 Warp Illegal Address",
        "  2 threads: block (0,0,0) SM 0 warp 0 lanes 2; block (1,0,0) SM 1 warp 1 lanes 2",
        "  #0 0x00007f0000001080 squared at /tmp/symd-cuda/raycast.cu:13  (raised the error)",
        "  #1 0x00007f0000001bf0 distance_to at /tmp/symd-cuda/raycast.cu:21",
        "  #2 0x00007f0000004570 probe at /tmp/symd-cuda/raycast.cu:41",
        "    float x = 1.03906274",
        "    float y = 1.02343774",
        "    float z = 1.00000024",
        "",
    ]
    assert "    float x = 1.0390625, 1.03906262, 1.03906286 (lanes 0-1,3)" in done.out.splitlines()


def test_the_json(run: Run) -> None:
    head, *stacks = run("core", "--json", DUMP).json
    assert (head["record"], head["format"], head["stacks"]) == ("core", "cuda-core", len(stacks))
    assert head["devices"] == [{"number": 0, "name": "Test GPU", "target": "sm_90"}]
    assert [(image["object"], image["answered_by"]) for image in head["images"]] == [("device0.module0", "")]
    first = stacks[0]
    assert first["fault"] == {"number": 14, "name": "CUDA_EXCEPTION_14", "meaning": "Warp Illegal Address"}
    assert (first["pc"], first["error_pc"]) == (0x7F0000001090, 0x7F0000001080)
    assert first["waves"][1] == {"unit": 1, "wave": 1, "block": [1, 0, 0], "thread": [2, 0, 0], "lanes": [2]}
    call = first["calls"][1]
    assert (call["kind"], call["symbol"], call["offset"]) == ("return", "_Z11distance_tofff", 0xA6F)
    assert [(each["function"], each["line"]) for each in call["frames"]] == [("distance_to", 21)]
    assert first["variables"][0]["values"] == ["1.03906274"]


@pytest.fixture
def line_build(tmp_path: Path) -> Path:
    """A warp that stopped in an inlined call of a -lineinfo build, whose only names are mangled."""
    loaded = relocated((CUBIN.parent / "raycast.sm_90.lines.cubin").read_bytes(), 0x7F00_0000_0000)
    kernel = loaded.text[".text._Z5probePfPK6float3"]
    made = CudaCore(580)
    gpu = made.device(number=0, name="Some GPU", sm="sm_90")
    made.module(made.context(gpu), handle=0x77, relocated=loaded.data)
    made.grid(gpu, number=1, entry=kernel, module=0x77)
    warp = made.warp(made.block(made.sm(gpu, number=0), grid=1, index=(0, 0, 0)), number=0)
    made.lane(warp, number=0, pc=kernel + 0x210, thread=(0, 0, 0))
    dump = tmp_path / "lines.nvcudmp"
    dump.write_bytes(made.build())
    return dump


def test_names_as_they_were_written(run: Run, line_build: Path) -> None:
    require("c++filt")
    assert run("core", "-C", line_build).out.splitlines()[4:] == [
        "probe(float*, float3 const*), grid 1, device 0: active",
        "  1 thread: block (0,0,0) SM 0 warp 0 lanes 0",
        "  #0 0x00007f0000000210 squared(float, float, float) at /tmp/symd-cuda/raycast.cu:13 [INFERRED]",
        "       (inlined by) distance_to(float, float, float) at /tmp/symd-cuda/raycast.cu:21",
    ]
    assert "#0 0x00007f0000000210 _Z7squaredfff at" in run("core", line_build).out


def test_names_in_json_are_those_of_frames(run: Run, line_build: Path) -> None:
    """Kernels and symbols stay what one asks by, as in ``symbolize -C --json``."""
    require("c++filt")
    _, stack = run("core", "-C", "--json", line_build).json
    (call,) = stack["calls"]
    assert [each["function"] for each in call["frames"]] == [
        "squared(float, float, float)",
        "distance_to(float, float, float)",
    ]
    assert (stack["kernel"], call["symbol"]) == ("_Z5probePfPK6float3", "$_Z5probePfPK6float3$_Z11distance_tofff")


def test_info_and_symbolize_take_the_dump_as_a_module(run: Run) -> None:
    (found,) = run("info", "--json", DUMP).json
    assert (found["format"], found["objects"][0]["object"], found["objects"][0]["target"]) == (
        "cuda-core",
        "device0.module0",
        "sm_90",
    )
    assert "squared at /tmp/symd-cuda/raycast.cu:13" in run("symbolize", DUMP, "0x7f0000001080").out


def test_what_is_no_dump(run: Run, tmp_path: Path) -> None:
    done = run("core", CUBIN)
    assert (done.code, done.out) == (2, "")
    assert "is not a GPU core dump" in done.err
    cut = tmp_path / "cut.nvcudmp"
    cut.write_bytes(DUMP.read_bytes()[:50_000])
    done = run("core", cut)
    assert (done.code, "not written to its end" in done.err, done.err.count("\n")) == (2, True, 1)


def test_a_bound_that_is_passed_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(budget.BOUNDS, "core_stacks", (2, budget.BOUNDS["core_stacks"][1]))
    done = run("core", DUMP)
    assert (done.code, "more than 2 different stacks" in done.err) == (2, True)


def test_files_that_the_dump_names_are_opened(run: Run, tmp_path: Path) -> None:
    code = ROOT / "samples" / "amdgpu" / "bin" / "v3-gfx906-xnack-off.co"
    made = AmdgpuCore(host=True)
    made.load(code.read_bytes(), 0x7F12_0000_0000, uri=f"file://{code}")
    made.wave(pc=0x7F12_0000_1940, vector=[[0]] * 4)
    dump = tmp_path / "core"
    dump.write_bytes(made.build())
    assert "shade at /src/shade.cl:23:41" in run("core", dump).out
    assert "[NO_DEBUG_INFO]" in run("core", "--no-files", dump).out
    made.objects[0] = (0x7F12_0000_0000, f"file://{tmp_path}/gone.co")
    dump.write_bytes(made.build())
    done = run("core", dump)
    assert (done.code, "[NO_DEBUG_INFO]" in done.out) == (0, True)


def test_a_module_that_does_not_match_is_named(run: Run) -> None:
    other = ROOT / "samples" / "amdgpu" / "bin" / "v5-gfx90a.co"
    out = run("core", DUMP.with_name("address_error.gpucore"), "-m", other).out
    assert f"  note: {other} has other code (gfx90a, not gfx906)\n" in out
    assert "lines from" not in out
    same = other.with_name("v3-gfx906-xnack-off.co")
    out = run("core", DUMP.with_name("address_error.gpucore"), "-m", same).out
    assert f", lines from {same}\n" in out
    assert "has other code" not in out


@pytest.mark.parametrize("size", [29_000, 12_000, 6_000])
def test_a_rocm_dump_that_was_cut_off_says_so(run: Run, tmp_path: Path, size: int) -> None:
    whole = DUMP.with_name("address_error.core").read_bytes()
    cut = tmp_path / "cut.core"
    cut.write_bytes(whole[:size])
    for verb in ("core", "info"):
        assert "the dump was not written to its end" in run(verb, cut).out
    images = [each["name"] for each in run("core", "--json", cut).json[0]["images"]]
    assert images == (["loaded at 0x7f1200000000"] if size == 29_000 else [])
    cut.write_bytes(whole)
    for verb in ("core", "info"):
        assert "not written to its end" not in run(verb, cut).out


@pytest.mark.parametrize("size", [40, 300, 500, 600])
def test_the_core_file_of_a_process_that_was_cut_off_before_it_tells_of_gpus(
    run: Run, tmp_path: Path, size: int
) -> None:
    cut = tmp_path / "cut.core"
    cut.write_bytes(DUMP.with_name("address_error.core").read_bytes()[:size])
    for verb in ("core", "info"):
        assert "was not written to its end" in run(verb, cut).err


def test_the_core_file_of_a_process_without_gpus(run: Run, tmp_path: Path) -> None:
    host = tmp_path / "core"
    host.write_bytes(build_elf(machine=62, type=4))
    assert "the core file of a process, and says nothing of AMD's devices" in run("core", host).err


@pytest.mark.parametrize("name", ["address_error.core", "address_error.gpucore"])
@pytest.mark.parametrize("packed", [False, True])
def test_device_addresses_of_rocm_dumps(run: Run, tmp_path: Path, name: str, packed: bool) -> None:
    """As those of CUDA's: what the stacks of ``symd core`` say."""
    dump = tmp_path / "dump"
    content = DUMP.with_name(name).read_bytes()
    dump.write_bytes(gzip.compress(content) if packed else content)
    stacks = [each for each in run("core", "--json", dump).json if each["record"] == "stack"]
    queries = [f"{stack['pc']:#x}" for stack in stacks]
    answers = run("symbolize", "--json", dump, *queries).json
    assert [(each["reason"], each["frames"]) for each in answers] == [
        (stack["calls"][0]["reason"], stack["calls"][0]["frames"]) for stack in stacks
    ]
    assert answers[0]["reason"] == ("EXACT" if name.endswith(".core") else "NO_DEBUG_INFO")
    (other,) = run("symbolize", "--json", dump, "0x1940").json
    assert other["reason"] == "OUTSIDE_TEXT"


def test_a_device_without_a_name(run: Run) -> None:
    assert run("core", DUMP.with_name("address_error.core")).out.splitlines()[1] == "  device 4660 (gfx906)"


def test_the_text_of_a_rocm_dump(run: Run) -> None:
    assert run("core", DUMP.with_name("address_error.core")).out.splitlines()[3:9] == [
        "  note: queue 7 of device 4660: wave memory violation",
        "",
        "shade, grid 3, device 4660: stopped: address error",
        "  16 threads: block (0,0,0) XCC 0 wave 0 lanes 0-7; block (1,0,0) XCC 0 wave 1 lanes 0-7",
        "  #0 0x00007f1200001940 shade at /src/shade.cl:23:41",
        "",
    ]


def test_a_daemon_gets_files_that_the_dump_names_only_where_that_is_asked_for(
    run: Run, server: str, tmp_path: Path
) -> None:
    """A dump comes from elsewhere and may name any file; what has no code of it stays here even then."""
    code = ROOT / "samples" / "amdgpu" / "bin" / "v3-gfx906-xnack-off.co"
    other = tmp_path / "private.co"
    other.write_bytes((code.parent / "v5-gfx90a.co").read_bytes())
    made = AmdgpuCore(host=True)
    made.load(code.read_bytes(), 0x7F12_0000_0000, uri=f"file://{code}")
    made.load(code.read_bytes(), 0x7F13_0000_0000, uri=f"file://{other}")
    made.wave(pc=0x7F12_0000_1940, vector=[[0]] * 4)
    dump = tmp_path / "core"
    dump.write_bytes(made.build())

    def has(path: Path) -> bool:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return run("info", "--server", server, f"modules/{digest}").code == 0

    done = run("core", "--server", server, dump)
    assert (done.code, "[NO_DEBUG_INFO]" in done.out, has(code), has(other)) == (0, True, False, False)
    assert f"not sent to the daemon: file://{code}, file://{other}; --files sends" in done.err
    assert run("core", "--no-files", "--server", server, dump).err == ""
    done = run("core", "--files", "--server", server, dump)
    assert (done.code, "shade at /src/shade.cl:23:41" in done.out, has(code), has(other)) == (0, True, True, False)
    assert f"not sent to the daemon: file://{other}; -m FILE" in done.err


@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/self/mounts", "/sys/kernel/uevent_seqnum", "/dev/full"])
def test_a_file_that_the_kernel_makes_up_is_none(path: str) -> None:
    assert not is_regular_file(f"file://{path}")


def test_an_empty_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not is_regular_file(f"file://{tmp_path}/file")
    (tmp_path / "file").write_text("code")
    assert is_regular_file(f"file://{tmp_path}/file")


def test_a_dump_that_a_gpu_wrote(run: Run) -> None:
    """Of the modules that the driver loads for itself only their number is said."""
    done = run("core", DUMP.with_name("orbit.nvcudmp.gz"))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[:9] == [
        "cuda-core: generator UD, driver 580.159, cuda 13.0",
        "  device 0: NVIDIA H100 80GB HBM3 (sm_90)",
        "  code device0.module9 (handle 0x5614b80368f0) (sm_90), lines from the dump",
        "  code of 9 more modules, in which no thread had stopped",
        "",
        "_Z5orbitPfPK4BodyPKii, grid 1, device 0: CUDA_EXCEPTION_14 Warp Illegal Address",
        (
            "  32 threads: block (0,0,0) SM 124 warp 0 lanes "
            "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31; block (1,0,0) SM 126 warp 0 lanes "
            "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31"
        ),
        "  #0 0x00007fd2c37b00a0 pull at /tmp/symd-cuda/orbit.cu:26  (raised the error)",
        "  #1 0x00007fd2c37ae780 walk at /tmp/symd-cuda/orbit.cu:35",
    ]
    assert "    float dx = 0" in done.out.splitlines()


def test_device_addresses_of_a_dump_with_both_images_of_a_module(run: Run) -> None:
    done = run("symbolize", DUMP.with_name("orbit.nvcudmp.gz"), "0x7fd2c37b00a0", "0x7fd2c37ae780")
    assert done.out.splitlines() == [
        "0x7fd2c37b00a0: pull at /tmp/symd-cuda/orbit.cu:26",
        "0x7fd2c37ae780: walk at /tmp/symd-cuda/orbit.cu:35",
    ]

"""``symd run`` on programs that nobody here wrote, with the real drivers: darktable and hashcat of Debian, dpctl and dpnp of PyPI.

They are large, and each test is skipped where its program is not here: CONTRIBUTING.md says how they are found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from symd.capture.drivers.apis import APIS
from symd.capture.drivers.simulate import launcher
from symd.model.captures import CaptureWay
from tests.live.capturing import Host, Outcome
from tests.live.conftest import NEWER_ROOT, demand
from tests.live.test_capture_opencl import HOSTS, frames

HASHCAT_FILES = Path("/usr/share/hashcat")
SYCL_PYTHON = os.environ.get("SYMD_SYCL_PYTHON", "")
VADD = Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "vadd" / "opt.spv"
TIMINGS = re.compile(
    r"^\d+\.\d+ |KERNEL LOADING TIME: .*|^(?:Started|Stopped|Time\.\w+\.*|Speed\.#\d\.*): .*", re.MULTILINE
)
BUILD_AND_COMPUTE = """
import dpctl
from dpctl import program
queue = dpctl.SyclQueue("opencl:gpu")
source = '''kernel void axpy(global float *y, global const float *x, float a) {
  size_t i = get_global_id(0);
  y[i] += a * x[i];
}'''
print(program.create_program_from_source(queue, source, "-g").has_sycl_kernel("axpy"))
program.create_program_from_spirv(dpctl.SyclQueue("level_zero:gpu"), open(VADD, "rb").read())
"""
ROOTS = """
import dpnp
x = dpnp.arange(8, dtype="float32", device="level_zero:gpu")
y = dpnp.sqrt(x) + x * 2
print(y.shape)
"""


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    if request.node.get_closest_marker("live_new") and NEWER_ROOT is None:
        pytest.skip("SYMD_LIVE_NEW_ROOT is not set; `make live-new` sets the newer drivers up")
    demand(request.param, "opencl")
    return Host(request.param, "opencl", tmp_path)


def installed(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not on PATH")
    return path


def both(host: Host, *command: str, options: tuple[str, ...] = ()) -> Outcome:
    """Bare and captured, each with a home folder that nothing was kept in, and the same but for timings."""
    home = host.folder / "home"
    outcomes = []
    for run in (host.bare, lambda *words, **more: host.captured(*words, options=options, **more)):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        outcomes.append(run(*command, HOME=str(home), XDG_CACHE_HOME=str(home / ".cache")))
    bare, captured = outcomes
    assert captured.status == bare.status
    assert captured.errors == bare.errors
    assert TIMINGS.sub("", captured.output) == TIMINGS.sub("", bare.output)
    return captured


def loader_beside(host: Host, files: Path) -> Path:
    """A copy of the driver folder's loader in a folder where it has a program's files beside it."""
    folder = host.folder / "beside"
    folder.mkdir()
    for file in files.iterdir():
        (folder / file.name).symlink_to(file)
    loader = launcher(APIS[host.api], host.target.root)[0]
    return Path(shutil.copy(loader, folder))


def assert_unloaded(captured: Outcome) -> None:
    """Everything that was loaded was let go of."""
    assert len(captured.named("ModuleUnloaded")) == len(captured.loaded)


def test_darktable_says_lines_of_its_own_kernels(host: Host) -> None:
    program = Path(installed("darktable-cltest"))
    usr = program.parents[1]
    # It would look beside /proc/self/exe, which is the loader of a driver folder.
    folders = ("--datadir", f"{usr}/share/darktable", "--moduledir", f"{usr}/lib/x86_64-linux-gnu/darktable")
    captured = both(host, str(program), *folders, options=("--debug-lines",))
    assert captured.status == 0
    built = captured.output.count("could not load cached binary program, trying to compile source")
    assert len(captured.loaded) == built > 0
    assert_unloaded(captured)
    assert {event.way for event in captured.loaded} == {CaptureWay.OPENCL_LAYER}
    by_kernel = {kernel: event for event in captured.loaded for kernel in event.kernels}
    for kernel in ("diffuse_pde", "build_mask"):
        assert kernel in by_kernel[kernel].addresses
        assert any(function == kernel and line for function, line in frames(by_kernel[kernel], kernel))


def test_hashcat_compiles_and_links(host: Host) -> None:
    program = installed("hashcat")
    if host.target.root is not None:
        host = replace(host, loader=str(loader_beside(host, HASHCAT_FILES)))
    hashes = host.folder / "hashes"
    hashes.write_text("8743b52063cd84097a65d1633f5c74f5\n")
    options = ("--force", "--self-test-disable", "--potfile-disable", "--logfile-disable")
    captured = both(host, program, "-m", "0", "-a", "3", *options, str(hashes), "?d?d")
    assert captured.status == 1, "exhausted: a simulated device finds nothing"
    assert {"m00000_sxx", "gpu_memset", "l_markov"} <= {kernel for event in captured.loaded for kernel in event.kernels}
    assert len(captured.loaded) == 3
    assert_unloaded(captured)


def sycl_python(host: Host, package: str) -> str:
    if not SYCL_PYTHON:
        pytest.skip("SYMD_SYCL_PYTHON names no Python with dpctl and dpnp")
    if host.target.root is None:
        pytest.skip("the older Level Zero loader crashes when dpctl looks for devices, without symd too")
    found = subprocess.run([SYCL_PYTHON, "-c", f"import {package}"], check=False, capture_output=True)
    if found.returncode:
        pytest.skip(f"{SYCL_PYTHON} has no {package}")
    return SYCL_PYTHON


def test_dpctl_through_both_interfaces(host: Host) -> None:
    python = sycl_python(host, "dpctl")
    captured = both(host, python, "-c", BUILD_AND_COMPUTE.replace("VADD", repr(str(VADD))))
    assert (captured.status, captured.output) == (0, "True\n")
    assert {event.kernels: event.way for event in captured.loaded} == {
        ("axpy",): CaptureWay.OPENCL_LAYER,
        ("vadd",): CaptureWay.PRELOAD,
    }
    by_kernel = {event.kernels[0]: event for event in captured.loaded}
    assert ("axpy", 3) in frames(by_kernel["axpy"], "axpy")
    assert any(line for _, line in frames(by_kernel["vadd"], "vadd"))


def test_dpnp_through_level_zero(host: Host) -> None:
    captured = both(host, sycl_python(host, "dpnp"), "-c", ROOTS)
    assert (captured.status, captured.output) == (0, "(8,)\n")
    names = " ".join(kernel for event in captured.loaded for kernel in event.kernels)
    assert "sqrt_contig_kernel" in names
    assert "add_contig_kernel" in names
    assert {event.way for event in captured.loaded} == {CaptureWay.PRELOAD}
    assert_unloaded(captured)

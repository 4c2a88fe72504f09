"""``symd run`` on a C++ program built like SYCL's runtime: backends that it opens itself, threads that build at once, exceptions."""

from __future__ import annotations

from collections import Counter

from symd.model.captures import CaptureWay
from tests.live.capturing import Host, assert_same, built
from tests.live.conftest import demand
from tests.live.test_capture_level_zero import RAYCAST, VADD
from tests.live.test_capture_opencl import host as host_of_opencl

host = host_of_opencl
THREADS = 4


def test_two_backends_whose_threads_build_at_once(host: Host) -> None:
    """A module goes with the last reference to it; a failed build is an exception, and its log is kept."""
    demand(host.target, "level-zero")
    program = built(host.folder, "sycl_like_host.cpp")
    words = (str(THREADS), VADD, RAYCAST)
    captured = host.captured(program, *words)
    assert_same(host.bare(program, *words), captured)
    assert captured.status == 7
    each_thread = ["built raycast"] * THREADS + ["built twice"] + ["built vadd"] * THREADS
    assert captured.output.splitlines() == [*each_thread, "failed clBuildProgram"]
    assert Counter((event.kernels, event.way) for event in captured.loaded) == {
        (("raycast",), CaptureWay.PRELOAD): THREADS,
        (("vadd",), CaptureWay.PRELOAD): THREADS,
        (("twice",), CaptureWay.OPENCL_LAYER): 1,
    }
    assert len(captured.named("FailedBuild")) == 1
    assert len(captured.named("ModuleUnloaded")) == len(captured.loaded)

"""A breakpoint that was set before a program starts fires when the program builds its module under ``symd run``, and says where it is."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from symd import Client
from symd.engine.engine import Engine
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.breakpoints import Breakpoint, SourceLine
from symd.model.watches import LoadBegan, LoadEnded, ModuleAdded, Resolved, Watching
from symd.store import Store
from tests.daemon.processes import serving
from tests.live.capturing import Host, built
from tests.live.conftest import NEWER_ROOT, Target, demand
from tests.live.test_capture_opencl import HOSTS

LONG = 120.0
"""Seconds after which what does not come is given up."""
MODULES = 3
LINE = 3
"""Of the kernel in what the program builds (``programs/opencl_host.c``)."""


@pytest.mark.parametrize("target", HOSTS)
def test_a_breakpoint_set_before_the_program_starts_fires_when_its_module_loads(
    request: pytest.FixtureRequest, tmp_path: Path, target: Target
) -> None:
    if request.node.get_closest_marker("live_new") and NEWER_ROOT is None:
        pytest.skip("SYMD_LIVE_NEW_ROOT is not set; `make live-new` sets the newer drivers up")
    demand(target, "opencl")
    host, program = Host(target, "opencl", tmp_path), built(tmp_path, "opencl_host.c")
    kernels = [f"scale_{number}" for number in range(MODULES)]
    with serving(tmp_path) as daemon, daemon.client() as client, client.watch() as modules:
        begin = next(modules).resume_token
        pending = [Breakpoint(file, SourceLine(file, LINE)) for file in dict.fromkeys(sources(host, program))]
        with client.watch(pending) as watch:
            assert next(watch) == Watching()
            ended = run(host, program, daemon.address)
            timer = threading.Timer(LONG, watch.close)
            timer.start()
            found = list(islice((each for each in watch if isinstance(each, Resolved)), 2 * MODULES))
            timer.cancel()
        assert ended == 7
        loaded = [each for each in found if each.loaded is not None]
        assert [each.answer.locations[0].kernel for each in loaded] == kernels
        for each in loaded:
            resolve_back(client, each)
        with client.watch(resume_token=begin) as again:
            kinds = [type(each) for each in islice(again, 1 + 3 * MODULES)][1:]
    assert [kinds.count(kind) for kind in (ModuleAdded, LoadBegan, LoadEnded)] == [MODULES] * 3


def run(host: Host, program: Path, address: str) -> int:
    """The exit code of the program under ``symd run`` beside a daemon."""
    command = [
        sys.executable,
        "-m",
        "symd",
        "run",
        "--server",
        address,
        "--",
        *host.command(program, "plain", str(MODULES)),
    ]
    variables = host.variables | {"SYMD_CAPTURES": str(host.folder / "captures")}
    return subprocess.run(command, env=variables, check=False, capture_output=True, timeout=LONG).returncode


def sources(host: Host, program: Path) -> list[str]:
    """What the driver calls the source of each kernel, as a run of the same program has them before."""
    with Engine(Store.temporary()) as engine:
        return [
            engine.symbolize_one(engine.add(event.data).sha256, ByKernel(event.kernels[0], KernelOffset(0)))
            .frames[-1]
            .file
            or ""
            for event in host.captured(program, "plain", str(MODULES)).loaded
        ]


def resolve_back(client: Client, fired: Resolved) -> None:
    """The device addresses of the breakpoint are those of its line, in a program that has ended by now."""
    assert fired.loaded is not None
    addresses = [address for place in fired.answer.locations for address in place.device_addresses]
    assert len(addresses) == len(fired.answer.locations)
    asked = np.array(addresses, np.uint64)
    answers = client.contexts.symbolize(fired.loaded.context.id, asked, fired.loaded.load.time)
    assert {answer.module for answer in answers} == {fired.digest}
    assert {answer.answer.frames[0].line for answer in answers} == {LINE}

"""Figures of docs/reliability.md about limits on memory.

python tools/limit_figures.py drivers   address space that builds take with each driver that is here (SYMD_DRIVERS names others)
python tools/limit_figures.py watches   the daemon's memory beside watches of many breakpoints, and after them
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import grpc

from symd.capture.drivers import grab
from symd.capture.drivers.simulate import SIMULATED_PRODUCTS
from symd.config import MIB, Limits, default_drivers
from symd.errors import SymdError
from symd.model.grabs import GrabRequest
from symd.v1.breakpoint_service_pb2 import (
    Breakpoint,
    PathRule,
    PendingBreakpoint,
    SourceLine,
    WatchRequest,
    WatchStart,
)
from symd.v1.breakpoint_service_pb2_grpc import BreakpointServiceStub

KERNELS = Path(__file__).parents[1] / "samples/kernels"
SMALL = (KERNELS / "vadd.cl").read_bytes()
PRODUCT = "dg2"
"""One that both generations of drivers simulate."""
LARGE = (
    "kernel void large(global float *x) { int i = get_global_id(0); float a = x[i];\n"
    + "".join(f"a = sin(a * {n}.5f) + x[i + {n}] / (a + {n}.25f);\n" for n in range(120))
    + "x[i] = a; }\n"
).encode()
"""A kernel that compiles for long."""


def drivers() -> None:
    """Address space of builds, and the least limit with which all simulated products build."""
    for name in ("", *sorted(generations := default_drivers())):
        products = [each for each in SIMULATED_PRODUCTS if _built(each, SMALL, Limits(), generations, name) is not None]
        samples = [path.read_bytes() for path in sorted(KERNELS.glob("*.cl"))]
        taken = [_built(PRODUCT, text, Limits(), generations, name) for text in samples]
        large = _built(PRODUCT, LARGE, Limits(), generations, name)
        least = next(
            (
                size
                for size in range(256 * MIB, Limits().driver_memory, 64 * MIB)
                if all(_built(each, SMALL, Limits(driver_memory=size), generations, name) for each in products)
            ),
            0,
        )
        most = max((each.memory for each in taken if each is not None), default=0)
        print(f"{name or 'the system':<12} {', '.join(products)}: builds of the samples take at most {most // MIB} MiB")
        if large is not None:
            print(f"{'':<12} a build of {large.seconds:.1f} s, {large.size:,} bytes, takes {large.memory // MIB} MiB")
        print(f"{'':<12} all products build with driver_memory={least // MIB}M")


class Built(NamedTuple):
    """A build: seconds, bytes of the binary, the most bytes of address space."""

    seconds: float
    size: int
    memory: int


def _built(product: str, text: bytes, limits: Limits, generations: Mapping[str, str], name: str) -> Built | None:
    """None where it fails."""
    most, over = [0], threading.Event()

    def look() -> None:
        while not over.wait(0.002):
            for path in Path("/proc/self/task").glob("*/children"):
                for child in path.read_text().split():
                    with suppress(OSError, StopIteration):
                        lines = Path(f"/proc/{child}/status").read_text().splitlines()
                        most.append(next(int(line.split()[1]) for line in lines if line.startswith("VmPeak")) << 10)

    looking = threading.Thread(target=look)
    looking.start()
    begun = time.perf_counter()
    request = GrabRequest("opencl", "source", text, "-g", simulate=product, driver=name, timeout=limits.driver_seconds)
    try:
        grabbed = grab(request, limits, generations)
    except SymdError:
        return None
    finally:
        over.set()
        looking.join()
    return Built(time.perf_counter() - begun, len(grabbed.native), max(most))


def watches() -> None:
    """40 watches of 7 MB each, of one client: how many are taken, and the daemon's memory."""
    rules = [PathRule(prefix="/x" * 2000, replacement=f"/{number}") for number in range(100)]
    wanted = [PendingBreakpoint(id=str(at), breakpoint=_breakpoint(rules)) for at in range(18)]
    request = WatchRequest(start=WatchStart(breakpoints=wanted, only_new=True))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        address = f"unix:{folder}/socket"
        command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", f"{folder}/store"]
        daemon = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(daemon.terminate)
        assert daemon.stdout is not None  # noqa: S101 - asked for above
        daemon.stdout.readline()
        before, calls, most = _own(daemon.pid), [], 0
        with grpc.insecure_channel(address, (("grpc.max_send_message_length", -1),)) as channel:
            for _ in range(40):
                call = BreakpointServiceStub(channel).Watch(iter([request]))
                with suppress(grpc.RpcError):
                    next(call)
                    calls.append(call)
                most = max(most, _own(daemon.pid))
        time.sleep(15)
        sizes = f"{before // MIB} MiB before, {most // MIB} at most, {_own(daemon.pid) // MIB} after them"
        print(f"{len(calls)} of 40 watches of {request.ByteSize() / 1e6:.1f} MB are taken: {sizes}")


def _breakpoint(rules: list[PathRule]) -> Breakpoint:
    return Breakpoint(line=SourceLine(file="a.cl", line=1), path_rules=rules)


def _own(pid: int) -> int:
    """Bytes of a process's memory that are its own (proc(5))."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) << 10


def main() -> int:
    figures = {"drivers": drivers, "watches": watches}
    parser = argparse.ArgumentParser(description="Figures of docs/reliability.md about limits on memory.")
    parser.add_argument("figure", choices=figures)
    figures[parser.parse_args().figure]()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

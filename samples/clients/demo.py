"""The main job in one run: a daemon of its own, a module from the real Level Zero driver and one from the real OpenCL
driver (simulated device: no GPU is needed), and the inlined source frames of some addresses over gRPC."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from symd import Client
from symd.errors import ServerUnavailable
from symd.model.grabs import GrabRequest
from symd.model.summaries import ModuleSummary

KERNELS = Path(__file__).parents[1] / "kernels"
DEVICE = "dg2"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="symd-demo-") as folder:
        address = f"unix:{folder}/symd.sock"
        command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", f"{folder}/store"]
        print("$ symd serve &")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as daemon:
            try:
                with connected(address, daemon) as symd:
                    level_zero(symd)
                    opencl(symd)
            finally:
                daemon.terminate()
        print(f"\nthe daemon stopped with exit code {daemon.returncode}")
        return daemon.returncode


def connected(address: str, daemon: subprocess.Popen[bytes]) -> Client:
    """A client, as soon as the daemon answers."""
    for _ in range(200):
        client = Client(address)
        try:
            client.missing(["0" * 64])
        except ServerUnavailable:
            client.close()
            if daemon.poll() is not None:
                raise
            time.sleep(0.05)
        else:
            return client
    raise SystemExit("the daemon did not answer within 10 seconds")


def level_zero(symd: Client) -> None:
    data = (KERNELS / "bin" / "raycast" / "opt.spv").read_bytes()
    print(f"\n$ symd grab --api level-zero --simulate {DEVICE} raycast.spv")
    show(symd, GrabRequest(api="level-zero", kind="spirv", data=data, simulate=DEVICE, label="raycast.spv"))


def opencl(symd: Client) -> None:
    data = (KERNELS / "mandelbrot.cl").read_bytes()
    print(f"\n$ symd grab --api opencl --simulate {DEVICE} --build-flags -g mandelbrot.cl")
    request = GrabRequest("opencl", "source", data, build_flags="-g", simulate=DEVICE, label="mandelbrot.cl")
    show(symd, request)


def show(symd: Client, request: GrabRequest) -> None:
    module, grabbed = symd.grab(request)
    print(
        f"{grabbed.driver}, {grabbed.device}: {module.format}, {module.size} bytes, kernels {', '.join(grabbed.kernels)}"
    )
    for kernel in grabbed.kernels:
        deepest(symd, module, kernel)


def deepest(symd: Client, module: ModuleSummary, kernel: str, count: int = 3) -> None:
    """The addresses of a kernel with the deepest inlining, one for each distinct stack."""
    size = next(k.size for o in module.objects for k in o.kernels if k.name == kernel)
    answers = symd.symbolize_column(module.sha256, np.arange(0, size, 8, dtype=np.uint64), kernel=kernel)
    _, first = np.unique(answers.location, return_index=True)
    stacks = sorted((answers[int(at)] for at in first), key=lambda answer: -len(answer.frames))
    for answer in stacks[:count]:
        print(f"{kernel}+{answer.section_offset:#x}")
        for frame in answer.frames:
            print(f"    {frame.function}  {frame.file}:{frame.line}{'  (inlined)' if frame.inlined else ''}")


if __name__ == "__main__":
    sys.exit(main())

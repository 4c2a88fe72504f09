"""The main job in one run: a daemon of its own, a module from the real Level Zero driver and one from the real OpenCL
driver (simulated device: no GPU is needed), and the inlined source frames of some addresses over gRPC. Then clinfo, a program that knows
nothing of symd, under ``symd run``: its kernels, and a device address of it after it has ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from symd import Client
from symd.capture.drivers.simulate import environment
from symd.errors import ServerUnavailable
from symd.model.answers import Reason
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
                    captured(symd, address, folder)
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
    print(f"\nLevel Zero, from {KERNELS.name}/bin/raycast/opt.spv, simulating {DEVICE}:")
    show(symd, GrabRequest(api="level-zero", kind="spirv", data=data, simulate=DEVICE, label="raycast.spv"))


def opencl(symd: Client) -> None:
    path = KERNELS / "mandelbrot.cl"
    print(f"\nOpenCL, from {KERNELS.name}/{path.name}, simulating {DEVICE}:")
    request = GrabRequest("opencl", "source", path.read_bytes(), build_flags="-g", simulate=DEVICE, label=str(path))
    show(symd, request)


def captured(symd: Client, address: str, folder: str) -> None:
    """Run clinfo on the simulated device, and ask the daemon for a device address that it had."""
    if shutil.which("clinfo") is None:
        print("\nclinfo is not here: `apt-get install clinfo`, and symd run shows its kernel")
        return
    command = ["symd", "run", "--server", address, "--debug-lines", "--", "clinfo"]
    print(f"\n$ {' '.join(command)}    # simulating {DEVICE}", flush=True)
    known = {record.id for record in symd.contexts.all()}
    variables = environment(os.environ, DEVICE, None) | {"SYMD_CAPTURES": f"{folder}/captures"}
    run = [sys.executable, "-m", *command]
    subprocess.run(run, check=False, env=variables, stdout=subprocess.DEVNULL, timeout=600)
    for context in (record for record in symd.contexts.all() if record.id not in known):
        for load in (load for _, load in symd.contexts.loads(context.id) if load.segments):
            segment = load.segments[0]
            asked = np.arange(segment.address, segment.address + 0x400, 8, dtype=np.uint64)
            answers = symd.contexts.symbolize(context.id, asked, np.full(asked.size, load.time, np.int64))
            found = [(int(at), each.answer) for at, each in zip(asked, answers, strict=True) if each.answer.frames]
            if found:
                at, answer = found[-1]
                print(
                    f"{', '.join(each.start.kernel for each in load.segments)}: at device address {at:#x} was {answer.kernel}+{answer.section_offset:#x}"
                )
                for frame in answer.frames:
                    print(f"    {frame.function}  {frame.file}:{frame.line}{'  (inlined)' if frame.inlined else ''}")
                return


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
    distinct = (answers[int(at)] for at in first)
    stacks = sorted((each for each in distinct if each.reason is Reason.EXACT), key=lambda answer: -len(answer.frames))
    for answer in stacks[:count]:
        print(f"{kernel}+{answer.section_offset:#x}")
        for frame in answer.frames:
            print(f"    {frame.function}  {frame.file}:{frame.line}{'  (inlined)' if frame.inlined else ''}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # who reads no further, as head: the daemon has been ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is still to be flushed
        sys.exit(1)

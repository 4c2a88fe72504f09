"""The committed AMD samples, opened, for the tests of every AMD module."""

from __future__ import annotations

import subprocess
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from symd.config import Limits
from symd.errors import SymdError
from symd.formats.budget import Budget
from symd.formats.containers.amd import amdgpu
from symd.formats.containers.format import Contents, Element, Format
from symd.model.code import CodeObject
from tests import tools

BIN = Path(__file__).parents[4] / "samples" / "amdgpu" / "bin"
OBJECTS = sorted(path.name for path in BIN.iterdir() if path.suffix in {".co", ".o"} and path.name[0] == "v")
LINKED = [name for name in OBJECTS if name.endswith(".co")]


def path(name: str) -> Path:
    return BIN / name


def sample(name: str) -> bytes:
    return (BIN / name).read_bytes()


def budget(**limits: int) -> Budget:
    return Budget(Limits(**limits))


def contents(reader: Format, data: bytes, name: str = "") -> Contents:
    return reader.read(Element(name, data), budget())


def decode(data: bytes) -> CodeObject:
    found = contents(amdgpu, data).code_object
    assert found is not None
    return found


def compiled(
    folder: Path,
    name: str,
    text: str,
    *options: str,
    target: str = "gfx900",
    compiler: str = "clang-22",
    link: bool = True,
) -> Path:
    """A code object of the source ``text`` in a file called ``name`` (OpenCL C, or HIP), linked unless told otherwise."""
    (folder / name).write_text(text)
    common = ("-nogpulib", "-g", "-mcode-object-version=4", *options)
    machine = ("-target", "amdgcn-amd-amdhsa", f"-mcpu={target}")
    steps = [("-x", "cl", "-cl-std=CL2.0", *machine, *common, "-c", name, "-o", f"{name}.o")]
    if name.endswith(".hip"):
        only = ("-x", "hip", "--cuda-device-only", "-nogpuinc", "-std=c++17", "--no-gpu-bundle-output", "-emit-llvm")
        steps = [
            (*only, f"--offload-arch={target}", *common, "-c", name, "-o", f"{name}.bc"),
            ("-x", "ir", *machine, *common, "-c", f"{name}.bc", "-o", f"{name}.o"),
        ]
    for step in steps:
        ran([tools.require(compiler), *step], folder)
    if link:
        ran([tools.require("ld.lld"), "-shared", f"{name}.o", "-o", f"{name}.co"], folder)
    return folder / f"{name}.{'co' if link else 'o'}"


def ran(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def code(name: str) -> CodeObject:
    return decode(sample(name))


def survives(action: Callable[[], object], most: int = 64 << 20) -> str:
    """Run it: an answer or an error of the tree, and at most ``most`` bytes at once. Says which it was."""
    tracemalloc.start()
    try:
        action()
        outcome = "answered"
    except SymdError as error:
        outcome = type(error).__name__
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < most, f"took {peak} bytes"
    return outcome


def truncations(data: bytes) -> list[bytes]:
    return [data[:length] for length in range(0, len(data), 64)]

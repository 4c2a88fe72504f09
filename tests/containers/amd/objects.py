"""The committed AMD samples, opened, for the tests of every AMD module."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

from symd.budget import Budget
from symd.config import Limits
from symd.containers.amd import amdgpu
from symd.containers.format import Contents, Element, Format
from symd.errors import SymdError
from symd.model.code import CodeObject

BIN = Path(__file__).parents[3] / "samples" / "amdgpu" / "bin"
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

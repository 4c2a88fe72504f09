"""The files of samples/cuda, opened as the tests of several rooms need them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from symd.config import Limits
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.nvidia import cubin, fatbin
from symd.model.code import CodeObject

FOLDER = Path(__file__).parents[3] / "samples" / "cuda" / "bin"
CUBINS = sorted(path.name for path in FOLDER.glob("*.cubin"))
FATBINS = sorted(path.name for path in FOLDER.glob("*.fatbin"))


def data(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


@cache
def code(name: str) -> CodeObject:
    """A cubin, read."""
    return read_cubin(data(name))


def read_cubin(content: bytes, target: str | None = None) -> CodeObject:
    found = cubin.read(Element("", content, target=target), Budget(Limits())).code_object
    assert found is not None
    return found


def read_fatbin(content: bytes, limits: Limits | None = None) -> Contents:
    return fatbin.read(Element("", content), Budget(limits or Limits()))

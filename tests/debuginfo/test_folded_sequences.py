"""Of functions that the linker folded, the one whose debug data says where it is has its lines, whichever line table says them last."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from symd import containers
from symd.config import Limits
from symd.index import Index
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.answers import Answer
from symd.query.symbolize import symbolize
from tests.tools import require

SOURCE = """
__attribute__((noinline)) static int helper_{0}(int x) {{ return x * 7 + 3; }}
int function_{0}(int x) {{ return helper_{0}(x) * 2 + {0}; }}
"""
LINES = {1: 12, 2: 2}
"""Where the helper of each source stands."""


@pytest.fixture(scope="module", params=[(1, 2), (2, 1)], ids=str)
def folded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """A code object of two units with the same helper, and the number of the one that is linked first: its helper stays."""
    folder = tmp_path_factory.mktemp("folded")
    flags = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx900", "-nogpulib", "-O2", "-g", "-ffunction-sections"]
    for number, line in LINES.items():
        (folder / f"m{number}.c").write_text("\n" * (line - 2) + SOURCE.format(number))
    sources, objects = ([f"m{number}.{kind}" for number in request.param] for kind in "co")
    subprocess.run([require("clang"), *flags, "-c", *sources], cwd=folder, check=True)
    subprocess.run([require("ld.lld"), "-shared", "--icf=all", *objects, "-o", "m.co"], cwd=folder, check=True)
    return (folder / "m.co").read_bytes(), request.param[0]


def place_of(data: bytes) -> range:
    """The addresses of the instructions of the helper."""
    (code,) = containers.unpack(data, Limits()).objects
    helper = next(each for each in code.functions if each.name.startswith("helper"))
    address = next(each.address for each in code.sections if each.index == helper.section_index) + helper.offset
    return range(address, address + helper.size, 4)


def check(answer: Answer, number: int) -> None:
    (frame,) = answer.frames
    assert answer.reason.name == "EXACT"
    assert frame.file is not None
    assert (frame.function, Path(frame.file).name, frame.line) == (f"helper_{number}", f"m{number}.c", LINES[number])


def test_the_lines_are_those_of_the_helper_that_stays(folded: tuple[bytes, int]) -> None:
    data, number = folded
    queries = [ByAddress(ObjectAddress(address)) for address in place_of(data)]
    for answer in symbolize(Index(build_index(data, Limits())), queries):
        check(answer, number)

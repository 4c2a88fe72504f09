"""Programs that GCC 12 compiles here for GPUs: their images against readelf's symbols, and frames in them against
llvm-symbolizer's. They are made anew each time because GCC links libraries of its own into them."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from symd.formats.containers import unpack
from symd.model.answers import Reason
from symd.query.symbolize import symbolize_column
from tests import tools
from tests.agreement import ours

SOURCE = Path(__file__).parent / "offloaded.c"
AMD = "-foffload=amdgcn-amdhsa", "-foffload-options=amdgcn-amdhsa=-march=gfx900"
NVIDIA = ("-foffload=nvptx-none",)
BOTH = "-foffload=nvptx-none,amdgcn-amdhsa", "-foffload-options=amdgcn-amdhsa=-march=gfx900"
PROGRAMS = {
    "pie": (*AMD, "-O2", "-pie"),
    "fixed": (*AMD, "-O0", "-no-pie"),
    "library.so": (*BOTH, "-O2", "-shared", "-fPIC"),
    "texts": (*NVIDIA, "-O2"),
}
STEP = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of PROGRAMS, and an object that is not linked."""
    where = tmp_path_factory.mktemp("gcc")
    gcc = tools.require("x86_64-linux-gnu-gcc-12")
    if not tools.find("x86_64-linux-gnu-accel-amdgcn-amdhsa-gcc-12"):
        tools.require("gcc-12-offload-amdgcn")
    for name, options in {**PROGRAMS, "object.o": (*BOTH, "-O2", "-c")}.items():
        command = [gcc, "-g", "-fopenmp", *options, str(SOURCE), "-o", name]
        # without a ptxas on the way, which might not know GCC's old architectures
        done = subprocess.run(
            command, cwd=where, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    subprocess.run([tools.require("strip"), "-o", where / "stripped", where / "pie"], check=True)
    return where


def arrays(path: Path, name: str) -> list[bytes]:
    """What the symbols of that name stand for, in the order of their addresses."""
    sections = re.findall(
        r"^ *\[ *(\d+)\] \S+ +\S+ +([0-9a-f]+) ([0-9a-f]+)", tools.output("readelf", "-SW", path), re.MULTILINE
    )
    symbols = re.findall(
        rf"^ *\d+: ([0-9a-f]+) +(\w+) OBJECT .* (\d+) {name}$", tools.output("readelf", "-sW", path), re.MULTILINE
    )
    data, found = path.read_bytes(), {}
    for address, size, section in symbols:
        start, offset = next((int(a, 16), int(o, 16)) for number, a, o in sections if number == section)
        at = offset + int(address, 16) - start
        found[at] = data[at : at + int(size, 0)]
    return [found[at] for at in sorted(found)]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("name", PROGRAMS)
def test_images_are_the_arrays_that_symbols_name(folder: Path, name: str) -> None:
    opened = unpack((folder / name).read_bytes())
    code, texts = arrays(folder / name, "gcn_code"), arrays(folder / name, r"ptx_code_\d+")
    assert len(code) == (name != "texts")
    assert bool(texts) == (name in {"texts", "library.so"})
    assert [digest(one.data) for one in opened.objects] == [digest(one) for one in code]
    listed = opened.containers[0].facts.get("ptx", ())
    assert sorted(each["size"] + 1 for each in listed) == sorted(map(len, texts))
    assert any(texts) == any("main$_omp_fn$0" in each["kernels"] for each in listed)


def test_a_stripped_program_has_the_same_image(folder: Path) -> None:
    plain, stripped = (unpack((folder / name).read_bytes()).objects for name in ("pie", "stripped"))
    assert [digest(one.data) for one in plain] == [digest(one.data) for one in stripped]


def test_an_object_says_that_it_is_not_linked(folder: Path) -> None:
    assert "linking makes code of it" in unpack((folder / "object.o").read_bytes()).notes[0]


@pytest.mark.parametrize("name", ["pie", "fixed", "library.so"])
def test_frames_of_the_sources_functions_are_those_of_llvm_symbolizer(folder: Path, name: str, tmp_path: Path) -> None:
    (code,) = unpack((folder / name).read_bytes()).objects
    path = tmp_path / "code.elf"
    path.write_bytes(code.data)
    text = code.section(".text")
    assert text is not None
    own = [one for one in code.functions if re.search(r"_omp_fn|contrast|clamped|darkened", one.name)]
    addresses = sorted({text.address + at for one in own for at in range(one.offset, one.offset + one.size, STEP)})
    answers = symbolize_column(ours.index(code.data).view(as_written=True), np.array(addresses, np.uint64))
    command = [
        tools.require("llvm-symbolizer-22"),
        f"--obj={path}",
        "--inlines",
        "--no-demangle",
        "--output-style=JSON",
    ]
    printed = tools.output(*command, *map(hex, addresses))
    chains = set()
    for address, answer, theirs in zip(addresses, answers, json.loads(printed), strict=True):
        wanted = [(one["FunctionName"], one["FileName"], one["Line"], one["Column"]) for one in theirs["Symbol"]]
        assert answer.reason is Reason.EXACT, hex(address)
        assert ours.frames(answer) == wanted, hex(address)
        chains.add(tuple(frame.function for frame in answer.frames))
    assert ("contrast",) in chains
    if name != "fixed":
        assert ("clamped", "darkened", "main._omp_fn.1") in chains

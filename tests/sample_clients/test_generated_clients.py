"""Clients in C++, Go and TypeScript, made of nothing but the protos, ask a running daemon and print what llvm-symbolizer says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from symd import Client
from tests import tools

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "samples" / "clients"
SAMPLE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
NEEDED = {
    "cpp": ("g++", "protoc", "grpc_cpp_plugin"),
    "go": ("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc"),
    "typescript": ("node", "npm", "protoc"),
}


class Frame(NamedTuple):
    """A frame of LLVM's."""

    function: str
    file: str
    line: int


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A daemon that may show the sources of AMD's samples."""
    folder, sources = tmp_path_factory.mktemp("daemon"), SAMPLE.parents[1] / "src"
    address = f"unix:{folder}/symd.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(folder / "store")]
    command += ["--source-root", str(sources), "--map", f"/src={sources}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline().strip() == f"symd serves at {address}"
        yield address
        daemon.terminate()
        assert daemon.wait(20) == 0


@pytest.fixture(scope="module")
def inlined() -> tuple[int, list[str]]:
    """An address with inlined frames, and these as llvm-symbolizer has them: "function file:line", innermost first."""
    text = tools.output(tools.require("llvm-dwarfdump"), "--debug-info", SAMPLE)
    call = text.index("DW_TAG_inlined_subroutine")
    address = int(text[text.index("DW_AT_low_pc", call) :].split("(", 1)[1].split(")")[0], 16)
    asked = ["--inlines", "--functions=short", "--no-demangle", f"--obj={SAMPLE}", hex(address)]
    lines = tools.output(tools.require("llvm-symbolizer"), *asked).split()
    frames = [f"{function} {place.rsplit(':', 1)[0]}" for function, place in zip(lines[::2], lines[1::2], strict=True)]
    assert len(frames) > 1
    return address, frames


@pytest.fixture(scope="module")
def digest(server: str) -> Iterator[str]:
    with Client(server) as client:
        yield client.add(SAMPLE.read_bytes()).sha256


@pytest.fixture(scope="module", params=sorted(NEEDED))
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A language, and the folder that its clients are built into, once for all tests."""
    language: str = request.param
    for tool in NEEDED[language]:
        tools.require(tool)
    folder = tmp_path_factory.mktemp(language)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    build = [CLIENTS / language / "build", folder]
    done = subprocess.run(build, capture_output=True, text=True, env=environment, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return language, folder


def command(built: tuple[str, Path], client: str, *arguments: str | Path) -> list[str]:
    """The command that runs a client."""
    language, folder = built
    program = ["node", folder / f"{client}.js"] if language == "typescript" else [folder / client]
    return [str(word) for word in (*program, *arguments)]


def test_a_generated_client_symbolizes_one_address(
    built: tuple[str, Path], server: str, digest: str, inlined: tuple[int, list[str]]
) -> None:
    assert digest == sha256(SAMPLE.read_bytes()).hexdigest()
    address, frames = inlined
    printed = tools.output(*command(built, "symbolize", server, digest, hex(address)))
    assert printed.splitlines() == frames
    missing = command(built, "symbolize", server, "0" * 64, hex(address))
    failed = subprocess.run(missing, capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode == 1
    assert "UNKNOWN_MODULE: " in failed.stderr
    if built[0] == "typescript":
        return
    assert tools.output(*command(built, "symbolize", server, digest, "0x1")) == "REASON_OUTSIDE_TEXT\n"
    misused = subprocess.run(command(built, "symbolize"), capture_output=True, text=True, check=False)
    assert "usage: symbolize SERVER SHA256 ADDRESS" in misused.stderr


def symbolized(module: Path, addresses: Iterable[int]) -> dict[int, list[Frame]]:
    """The frames of each address, innermost first, as llvm-symbolizer has them."""
    asked = sorted(set(addresses))
    options = ["--inlines", "--functions=short", "--no-demangle", f"--obj={module}"]
    text = tools.output(tools.require("llvm-symbolizer"), *options, *map(hex, asked))
    found: dict[int, list[Frame]] = {}
    for address, block in zip(asked, text.strip().split("\n\n"), strict=True):
        lines = block.splitlines()
        frames = zip(lines[::2], (place.rsplit(":", 2) for place in lines[1::2]), strict=True)
        found[address] = [Frame(function, file, int(line)) for function, (file, line, _) in frames]
    return found


def first_address(module: Path, line: int) -> int:
    """The lowest address of a line, of the line table that llvm-dwarfdump reads."""
    rows = tools.output(tools.require("llvm-dwarfdump"), "--debug-line", module)
    return min(
        int(row[1], 16) for row in re.finditer(r"^(0x[0-9a-f]+) +(\d+) ", rows, re.MULTILINE) if int(row[2]) == line
    )


def stepped_over(module: Path, start: int) -> tuple[int, Frame]:
    """Where a step over ends: instruction by instruction, until the frame has another line or is left."""
    found = symbolized(module, range(start, start + 0x100, 4))
    depth, function, line = len(found[start]), found[start][0].function, found[start][0].line
    for address, frames in found.items():
        if len(frames) < depth or frames[-depth].function != function:
            return address, frames[0]
        if len(frames) == depth and frames[0].line not in {0, line}:
            return address, frames[0]
    raise AssertionError(f"no step ends within 256 bytes of {start:#x}")


@pytest.mark.parametrize("built", ["typescript"], indirect=True)
@pytest.mark.parametrize("line", [14, 21])
def test_a_debugger_waits_for_a_module_stops_steps_and_sees_it_go(
    built: tuple[str, Path], server: str, line: int
) -> None:
    other = SAMPLE.with_name("v4-gfx1035.co")
    printed = tools.output(*command(built, "debugger", server, SAMPLE, other, f"shade.cl:{line}")).splitlines()
    start, caller = first_address(SAMPLE, line), first_address(other, line) + 3
    one, two = (f"at 0x{base}{address:08x}" for base, address in ((1, start), (2, caller - 3)))
    assert printed[:3] == ["watching", "acknowledged", "loaded load 1"]
    assert printed[3].startswith("breakpoint 1 load 1 ")
    assert printed[4] == "loaded load 2"
    assert printed[5].startswith("breakpoint 1 load 2 ")
    assert one in printed[3]
    assert two in printed[5]
    stack = [*symbolized(SAMPLE, [start])[start], *symbolized(other, [caller])[caller]]
    shown = [place.removesuffix(" (inlined)") for place in printed if place.startswith("# ")]
    assert shown == [f"# {each.function} {each.file}:{each.line}" for each in stack]
    declared = {"blend": {"a", "b", "half_way"}, "shade": {"out", "in", "steps", "tile", "lane", "near", "far"}}
    for block in "\n".join(printed).split("\n# ")[1:]:
        names = set(re.findall(r"^  .*?(\w+) = ", block.split("\n   ")[0], re.MULTILINE))
        assert names == declared[block.split()[0]]
    listed = tools.output(tools.require("llvm-objdump"), "-d", f"--start-address={start:#x}", SAMPLE)
    instruction = re.search(rf"^\s+(\S.*?)\s+// 0*{start:X}:", listed, re.MULTILINE)
    assert instruction
    assert f"=> {instruction[1]}" in printed
    source = (ROOT / "samples" / "amdgpu" / "src" / "shade.cl").read_text().splitlines()
    assert f"{line}: {source[line - 1]}" in printed
    address, frame = stepped_over(SAMPLE, start)
    step = f"step over to 0x1{address:08x} {frame.function} {frame.file}:{frame.line}"
    assert step in [text.removesuffix(" (inlined)") for text in printed]
    assert printed[-2] == "unloaded load 1"
    assert printed[-1].startswith("gone 1 load 1 ")
    assert one in printed[-1]


def kernels_of(server: str, module: Path) -> list[tuple[int, int]]:
    """The address and size of each kernel, as llvm-readelf has them, in the order in which the daemon lists them."""
    text = tools.output(tools.require("llvm-readelf"), "--symbols", "--wide", module)
    rows = re.findall(r"^ +\d+: ([0-9a-f]+) +(\d+) FUNC .* (\S+)$", text, re.MULTILINE)
    symbols = {name: (int(address, 16), int(size)) for address, size, name in rows}
    with Client(server) as client:
        (only,) = client.add(module.read_bytes()).objects
    return [symbols[kernel.name] for kernel in only.kernels]


def sampled(kernels: list[tuple[Path, int, int]], count: int) -> Counter[tuple[Path, int]]:
    """How many of the profilers' samples are at each address of a module; each kernel is (module, address, size)."""
    found: Counter[tuple[Path, int]] = Counter()
    state = 1
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        module, address, size = kernels[(state >> 33) % len(kernels)]
        found[module, address + (state >> 13) % size] += 1
    return found


@pytest.mark.parametrize("built", ["cpp", "go"], indirect=True)
def test_a_profiler_sums_the_samples_of_each_line(built: tuple[str, Path], server: str) -> None:
    modules = [SAMPLE, SAMPLE.with_name("nested-14.co")]
    kernels = [(module, *kernel) for module in modules for kernel in kernels_of(server, module)]
    samples = sampled(kernels, 30_000)
    frames = {module: symbolized(module, [at for other, at in samples if other == module]) for module in modules}
    lines: Counter[str] = Counter()
    for (module, address), count in samples.items():
        function, file, line = frames[module][address][0]
        if line:
            lines[f"{function} {file}:{line}"] += count
    expected = [f"{count} {name}" for name, count in sorted(lines.items(), key=lambda each: (-each[1], each[0]))]
    printed = tools.output(*command(built, "profiler", server, "30000", *modules))
    heading = r"(?m)^by (?:kernel|device address): 30000 samples, \S+ M samples/s, [1-9]\d* bytes back\n"
    nothing, *tables = re.split(heading, printed)
    assert nothing == ""
    assert len(tables) == 2
    assert tables[0] == tables[1]
    exact = [row for row in tables[0].splitlines() if " REASON_" not in row]
    assert len(tables[0].splitlines()) == 10
    assert len(exact) > 5
    assert exact == expected[: len(exact)]


@pytest.mark.parametrize(
    ("language", "packages"),
    [
        ("cpp", {"g++", "pkg-config", "protobuf-compiler-grpc", "libgrpc++-dev", "libssl-dev"}),
        ("go", {"golang-go", "protoc-gen-go-1-5", "protoc-gen-go-grpc"}),
        ("typescript", {"nodejs", "npm"}),
    ],
)
def test_a_build_names_the_packages_that_are_missing(language: str, packages: set[str], tmp_path: Path) -> None:
    for tool in ("bash", "dirname", "mkdir", "python3"):
        (tmp_path / tool).symlink_to(tools.require(tool))
    build = [CLIENTS / language / "build", tmp_path / "out"]
    done = subprocess.run(build, capture_output=True, text=True, env={"PATH": str(tmp_path)}, timeout=60, check=False)
    assert done.returncode == 1
    heading = "missing packages of Debian: apt-get install "
    assert done.stderr.startswith(heading)
    named = set(done.stderr.removeprefix(heading).split())
    assert named >= packages | {"protobuf-compiler", "libprotobuf-dev"}

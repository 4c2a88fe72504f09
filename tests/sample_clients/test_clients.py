"""The sample clients run against a daemon, and what they print is true."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.agreement import llvm, oracle_elf
from tests.live.conftest import Target, demand

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "samples" / "clients"
KERNELS = ROOT / "samples" / "kernels"
RAYCAST = KERNELS / "bin" / "raycast" / "dg2-opt.dbg"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("daemon")
    address = f"unix:{folder}/symd.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(folder / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline().strip() == f"symd serves at {address}"
        yield address
        daemon.terminate()
        assert daemon.wait(20) == 0


def run(name: str, *arguments: str | Path) -> str:
    command = [sys.executable, str(CLIENTS / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def owned_by_llvm(elf: bytes, folder: Path) -> dict[int, set[tuple[int, int]]]:
    """Line to the ranges that it owns, from llvm-dwarfdump's rows: neighbours of one line are one range."""
    result: dict[int, list[tuple[int, int]]] = {}
    rows = [row for table in llvm.line_tables(elf, folder) for row in table]
    for row, following in pairwise(rows):
        if row.address == following.address or "end_sequence" in row.flags or row.line == 0:
            continue
        ranges = result.setdefault(row.line, [])
        if ranges and ranges[-1][1] == row.address:
            ranges[-1] = (ranges[-1][0], following.address)
        else:
            ranges.append((row.address, following.address))
    return {line: set(ranges) for line, ranges in result.items()}


def owned_by_report(text: str) -> dict[int, set[tuple[int, int]]]:
    lines = text.splitlines()[2:]
    result = {}
    for title, ranges in zip(lines[::2], lines[1::2], strict=True):
        spans = re.findall(r"\[(0x[0-9a-f]+), (0x[0-9a-f]+)\)", ranges)
        result[int(title.split(":")[1])] = {(int(start, 16), int(end, 16)) for start, end in spans}
    return result


def test_ze_debug_info_gives_each_line_the_addresses_that_it_owns(server: str, tmp_path: Path) -> None:
    demand(Target("dg2", None), "level-zero")
    spirv = KERNELS / "bin" / "raycast" / "opt.spv"
    text = run("ze_debug_info.py", spirv, KERNELS / "raycast.cl", "--server", server, "--simulate", "dg2")
    assert "Kernel raycast" in text
    elf = oracle_elf.addends_stored(oracle_elf.split_container(RAYCAST.read_bytes())["raycast"], {1: 8})
    assert owned_by_report(text) == owned_by_llvm(elf, tmp_path)


def test_cl_debug_info_shows_the_programs_own_lines(server: str) -> None:
    demand(Target("dg2", None), "opencl")
    source = KERNELS / "mandelbrot.cl"
    text = run("cl_debug_info.py", source, "--server", server, "--simulate", "dg2")
    shown = re.findall(r"^  \S+:(\d+): (.*)$", text, re.MULTILINE)
    assert len(shown) > 5
    own = source.read_text().splitlines()
    assert all(own[int(number) - 1].strip() == line for number, line in shown)


def test_a_debuggers_client_shows_the_stack(server: str) -> None:
    text = run("single_address.py", RAYCAST, "raycast", "0x610", "--server", server)
    assert text.splitlines() == [
        "#0  length_squared at /tmp/symd-opencl/raycast.cl:6  (inlined)",
        "#1  distance_to at /tmp/symd-opencl/raycast.cl:14",
    ]
    text = run("single_address.py", RAYCAST, "raycast", "0x368", "--server", server)
    assert text.splitlines() == [
        "CONTRADICTORY",
        "#0  length_squared at no line  (inlined)",
        "#1  raycast at /tmp/symd-opencl/raycast.cl:24",
    ]


def test_a_profilers_client_names_the_hottest_lines(server: str) -> None:
    text = run("bulk_profile.py", RAYCAST, "--samples", "50000", "--server", server)
    shares = [float(line.split("%")[0]) for line in text.splitlines()]
    assert 1 < len(shares) <= 10
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100.0, abs=0.1)
    form = re.compile(r" *[0-9.]+%  (\w+ raycast\.cl:\d+|\w+ \(no line\)|\(no frame\))")
    assert all(form.fullmatch(line) for line in text.splitlines())
    assert "(no frame)" in text, "most of the kernel's code is in the range of the function that it calls"


def test_the_demo_prints_inlined_frames_from_both_drivers() -> None:
    demand(Target("dg2", None), "level-zero")
    demand(Target("dg2", None), "opencl")
    text = run("demo.py")
    assert "Level Zero driver" in text
    assert "OpenCL" in text
    assert text.count("(inlined)") >= 6
    assert "the daemon stopped with exit code 0" in text


def test_a_profilers_client_asks_about_all_kernels_of_all_modules_at_once(server: str) -> None:
    tonemap = KERNELS / "bin" / "tonemap" / "dg2-opt.dbg"
    text = run("bulk_profile.py", RAYCAST, tonemap, "--samples", "50000", "--server", server)
    assert "raycast.cl:" in text
    assert "transfer.h:" in text
    by_address = run(
        "bulk_profile.py", RAYCAST, tonemap, "--samples", "50000", "--device-addresses", "--server", server
    )
    assert by_address == text


@pytest.mark.parametrize(
    "arguments",
    [
        ("single_address.py", RAYCAST, "raycast", "0x610"),
        ("bulk_profile.py", RAYCAST, "--samples", "1000"),
        ("profile_hotspots.py", RAYCAST, "--samples", "1000"),
        ("debug_backend.py", RAYCAST.with_name("igc2-dg2-opt.zebin"), "raycast.cl:16"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_client_whose_reader_has_gone_shows_no_traceback(server: str, arguments: tuple[str | Path, ...]) -> None:
    command = [sys.executable, str(CLIENTS / arguments[0]), *map(str, arguments[1:]), "--server", server]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


def test_a_location_without_a_line_is_called_so(server: str) -> None:
    printed = run("profile_hotspots.py", "--server", server, KERNELS / "bin" / "tonemap" / "dg2-opt.dbg")
    assert "(no line)" in printed
    assert " :0" not in printed

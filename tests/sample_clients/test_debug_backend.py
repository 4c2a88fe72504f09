"""The debugger's sample client sets breakpoints in a program that runs, by device address, and what it prints of each stop is true."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sample_clients.test_debug_adapter import Machine
from tests.tools import output, require

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "samples" / "kernels"
BLUR = KERNELS / "bin" / "blur" / "dg2-opt.zebin"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A daemon that may show the sources of the sample kernels."""
    folder = tmp_path_factory.mktemp("daemon")
    address = f"unix:{folder}/symd.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(folder / "store")]
    command += ["--source-root", str(KERNELS), "--map", f"/tmp/symd-opencl={KERNELS}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline().strip() == f"symd serves at {address}"
        yield address
        daemon.terminate()
        assert daemon.wait(20) == 0


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "samples" / "clients" / "debug_backend.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_module_that_cannot_be_read_is_said_in_a_line(server: str) -> None:
    done = run("/nowhere/k.co", "x.cl:6", "--server", server)
    assert done.returncode == 1
    assert done.stderr == "debug_backend.py: /nowhere/k.co: No such file or directory\n"


def test_a_breakpoint_leads_to_stack_variables_source_and_instructions(server: str, tmp_path: Path) -> None:
    """blur.cl's helper ``at`` is inlined into four places; IGA's command line has the instructions."""
    require("iga64")
    done = run(BLUR, "blur.cl:8", "--server", server)
    assert done.returncode == 0, done.stderr
    loaded, *places = done.stdout.partition("unloaded")[0].split("breakpoint ")
    assert len(places) == 4
    base = int(loaded.removeprefix("loaded blur at "), 16)
    source = (KERNELS / "blur.cl").read_text().splitlines()
    text = tmp_path / "text"
    output(require("llvm-objcopy"), "-O", "binary", "--only-section=.text.blur", BLUR, text)
    printed = output("iga64", "-d", "-p=xehpg", "-Xprint-pc", text)
    offsets = {int(each, 16) for each in re.findall(r"/\* \[([0-9A-F]+)\]", printed)}
    for place in places:
        address = re.match(r"blur\.cl:8: blur (0x[0-9a-f]+), .*/blur\.cl:8\n", place)
        assert address
        assert source[7].strip() in place
        inner, outer = r"#0 at at .*/blur\.cl:8 \(inlined\)\n", r" {4}#1 blur at .*/blur\.cl:1[0-9]\n"
        assert re.search(inner + r"( {6}\S.*\n)* {6}int [xy] = .*\n( {6}\S.*\n)*" + outer, place)
        marked = re.findall(r"^ +=> (0x[0-9a-f]+) ", place, re.MULTILINE)
        assert [int(each, 16) for each in marked] == [int(address[1], 16)]
        listed = {int(each, 16) for each in re.findall(r"^ {4}(?:=>|  ) (0x[0-9a-f]+)  ", place, re.MULTILINE)}
        assert int(address[1], 16) in listed
        assert {each - base for each in listed} <= offsets
        assert len(listed) == 5


SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"


def test_breakpoints_come_and_go_and_steps_end_where_dwarfdump_says(server: str, tmp_path: Path) -> None:
    """The second breakpoint is set while the module is loaded; the first is gone by the time that is unloaded."""
    machine = Machine(SHADE, tmp_path)
    [kernel] = re.findall(r"^([0-9a-f]+) T shade$", output(require("llvm-nm"), SHADE), re.MULTILINE)
    done = run(SHADE, "shade.cl:21", "shade.cl:13", "--server", server)
    assert done.returncode == 0, done.stderr
    *_, loaded = re.findall(r"^loaded shade at (0x[0-9a-f]+)$", done.stdout, re.MULTILINE)
    stops = re.findall(
        r"^breakpoint shade\.cl:(\d+): shade (0x[0-9a-f]+), (?:.*\n)*?  step over: (\S+), .*:(\d+)$",
        done.stdout,
        re.MULTILINE,
    )
    assert [line for line, *_ in stops] == ["21", "13", "13"]
    for line, pc, end, line_there in stops:
        address, expected = (int(each, 16) - int(loaded, 16) + int(kernel, 16) for each in (pc, end))
        assert machine.row(address).line == int(line)
        assert machine.step(address, "line") == expected
        assert machine.row(expected).line == int(line_there)
    assert done.stdout.endswith("unloaded, and with it the breakpoint shade.cl:13\n")


def test_a_line_without_a_place_is_refused_by_name(server: str) -> None:
    done = run(BLUR, "blur.cl:4000", "--server", server)
    assert done.returncode == 1
    assert "PAST_END" in done.stderr


def test_without_a_daemon_there_is_one_sentence(tmp_path: Path) -> None:
    done = run(BLUR, "blur.cl:8", "--server", f"unix:{tmp_path}/nobody.sock")
    assert done.returncode == 1
    assert done.stderr.startswith("debug_backend.py: ")
    assert done.stderr.count("\n") == 1


def test_without_a_disassembler_and_without_sources_a_stop_is_shown_and_what_is_missing_is_said(tmp_path: Path) -> None:
    """The daemon finds no tools, and may read no folder."""
    address = f"unix:{tmp_path}/symd.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(tmp_path / "store")]
    bare = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=bare) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline().strip() == f"symd serves at {address}"
        try:
            done = run(SHADE, "shade.cl:13", "--server", address)
        finally:
            daemon.terminate()
    assert (done.returncode, done.stderr) == (0, "")
    assert "(source not found; start the daemon with --source-root DIR, and --map FROM=TO)" in done.stdout
    assert re.search(r"instructions\n {4}\(none: .*llvm-objdump", done.stdout)

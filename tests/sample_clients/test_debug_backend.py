"""The debugger's sample client walks from a breakpoint to its instructions, and what it prints is true."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def test_a_breakpoint_leads_to_stack_variables_source_and_instructions(server: str, tmp_path: Path) -> None:
    """blur.cl's helper ``at`` is inlined into four places; IGA's command line has the instructions."""
    require("iga64")
    done = run(BLUR, "blur.cl:8", "--server", server)
    assert done.returncode == 0, done.stderr
    places = done.stdout.split("breakpoint ")[1:]
    assert len(places) == 4
    source = (KERNELS / "blur.cl").read_text().splitlines()
    text = tmp_path / "text"
    output(require("llvm-objcopy"), "-O", "binary", "--only-section=.text.blur", BLUR, text)
    printed = output("iga64", "-d", "-p=xehpg", "-Xprint-pc", text)
    offsets = {int(each, 16) for each in re.findall(r"/\* \[([0-9A-F]+)\]", printed)}
    for number, place in enumerate(places, 1):
        address = re.match(rf"{number}: blur (0x[0-9a-f]+), .*/blur\.cl:8\n", place)
        assert address
        assert source[7].strip() in place
        assert re.search(r"#0 at at .*/blur\.cl:8 \(inlined\)\n +#1 blur at .*/blur\.cl:1[0-9]\n", place)
        assert re.search(r"variables\n( {4}\S.*\n)*    int [xy] = ", place)
        marked = re.findall(r"^ +=> (0x[0-9a-f]+) ", place, re.MULTILINE)
        assert [int(each, 16) for each in marked] == [int(address[1], 16)]
        listed = {int(each, 16) for each in re.findall(r"^ {4}(?:=>|  ) (0x[0-9a-f]+)  ", place, re.MULTILINE)}
        assert int(address[1], 16) in listed
        assert listed <= offsets


def test_a_line_without_a_place_is_refused_by_name(server: str) -> None:
    done = run(BLUR, "blur.cl:4000", "--server", server)
    assert done.returncode == 1
    assert "PAST_END" in done.stderr

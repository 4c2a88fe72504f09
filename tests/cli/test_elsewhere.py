"""Places behind the end of the kernel that they count from, and places that the debug data contradicts itself at."""

import os
import re
import subprocess

import pytest

from tests.cli.conftest import ROOT, SYMD, Run, drawn_on, pseudo_terminal
from tests.tools import output, require

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
DOUBTED = ROOT / "samples" / "kernels" / "bin" / "raycast" / "dg2-opt-zebin.raycast.elf"


@pytest.mark.parametrize("verb", ["symbolize", "variables", "locals", "listing"])
def test_a_place_in_the_next_kernel_is_said_to_be_there(run: Run, symd: Run, verb: str) -> None:
    symbols = output(require("readelf"), "-sW", SHADE)
    value, size = re.search(r": ([0-9a-f]{16}) +(\d+) FUNC .* shade$", symbols, re.MULTILINE).groups()
    (other,) = re.search(r": ([0-9a-f]{16}) +\d+ FUNC .* clear$", symbols, re.MULTILINE).groups()
    place = f"shade+{int(other, 16) - int(value, 16) + 8:#x}"
    for call in (run, symd):  # here, and as the process that answers one place at once
        said = call(verb, SHADE, place)
        assert (said.code, f"symd: shade has {size} bytes: {place} lies in clear\n" in said.err) == (0, True)
        inside = call(verb, SHADE, f"shade+{int(size) - 4:#x}")
        assert " bytes: " not in inside.err
    assert " bytes: " not in run(verb, "--json", SHADE, place).err


def test_a_place_behind_a_function_says_which_other_has_it(run: Run) -> None:
    assert run("symbolize", SHADE, "march+0x100").err == "symd: march+0x100 lies in shade\n"
    padding = run("symbolize", SHADE, "shade+0xb8")
    assert "[GAP]" in padding.out
    assert padding.err == "symd: shade has 180 bytes: shade+0xb8 lies past its end, in no function's code\n"


def test_a_person_is_told_what_a_contradictory_place_is_said_to_be() -> None:
    """What llvm-symbolizer says of it is what the rows say."""
    said = output(require("llvm-symbolizer"), "-e", DOUBTED, "0x100").splitlines()
    master, slave = pseudo_terminal()
    with subprocess.Popen([*SYMD, "symbolize", DOUBTED, "0x100"], stdout=subprocess.PIPE, stderr=slave) as process:
        os.close(slave)
        assert process.stdout is not None
        answered = process.stdout.read().decode()
    told = drawn_on(master).decode()
    assert answered == "0x100: in raycast [CONTRADICTORY]\n"
    assert f"the debug data says {said[0]} at {said[1]} at 0x100, but contradicts itself there:" in told
    assert f"symd symbolize --as-written {DOUBTED} 0x100 shows what it says" in told


def test_a_program_is_told_nothing_of_it(symd: Run) -> None:
    assert symd("symbolize", DOUBTED, "0x100").err == ""

"""symd and pyelftools read the same from every sample, and something is read: rows of every object with DWARF, and of those
with units functions, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symd.debuginfo.verify import verify
from symd.debuginfo.verify.comparison import BLOCK_LOCATION, PROGRAM_START
from symd.errors import SymdError
from symd.formats import containers
from symd.model.code import CodeObject, DebugScheme
from tests import tools

SAMPLES = Path(__file__).parents[3] / "samples"
SCOPES = ("DW_TAG_subprogram\n", "DW_TAG_inlined_subroutine\n")
WITHOUT_DWARF = {
    DebugScheme.NONE: "there is no debug data",
    DebugScheme.SPIRV: "it is SPIR-V, which pyelftools does not read",
}

EMPTY = "Intel_Symbol_Table_Void_Program"
"""An object that Intel's compiler makes without any code."""


def objects(path: Path) -> tuple[CodeObject, ...]:
    try:
        return containers.unpack(path.read_bytes()).objects
    except SymdError:
        return ()


FILES = sorted(path for path in SAMPLES.glob("*/bin/**/*") if path.is_file())
WITH_DWARF = [path for path in FILES if any(code.debug not in WITHOUT_DWARF for code in objects(path))]


def test_there_are_samples_of_every_vendor_with_dwarf():
    assert {path.relative_to(SAMPLES).parts[0] for path in WITH_DWARF} >= {"amdgpu", "cuda", "kernels"}
    assert len(WITH_DWARF) > 150


@pytest.mark.parametrize("path", WITH_DWARF, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_there_is_no_difference(path: Path):
    for code in objects(path):
        report = verify([code])
        assert report.differences == []
        empty = EMPTY in f"{path.name} {code.path}"
        reason = "its debug sections hold no row, function or variable" if empty else WITHOUT_DWARF.get(code.debug)
        if code.section(".debug_info.dwo") is not None:
            assert [one.reason.partition(":")[0] for one in report.not_compared] == ["scopes and variables"]
        else:
            assert [one.reason for one in report.not_compared] == ([] if reason is None else [reason])
        assert bool(report.rows) == (reason is None)


@pytest.mark.parametrize("name", ["v5-gfx90a.co", "v4-gfx900-dwarf4.co", "v4-gfx900-O0.co"])
def test_as_much_is_compared_as_dwarfdump_prints(name: str):
    """Rows of line tables, DIEs that are variables, and functions and inlined calls that state code."""
    path = SAMPLES / "amdgpu" / "bin" / name
    dwarfdump = tools.require("llvm-dwarfdump-22", "llvm-dwarfdump")
    rows = re.findall(r"^0x[0-9a-f]{16} +\d+ ", tools.output(dwarfdump, "--debug-line", path), re.MULTILINE)
    dies = re.split(r"^0x[0-9a-f]{8}: +", tools.output(dwarfdump, "--debug-info", path), flags=re.MULTILINE)
    scopes = [die for die in dies if die.startswith(SCOPES) and re.search(r"DW_AT_(low_pc|ranges)\t", die)]
    variables = [die for die in dies if die.startswith(("DW_TAG_variable\n", "DW_TAG_formal_parameter\n"))]
    report = verify(objects(path))
    assert (report.rows, report.scopes, report.variables) == (len(rows), len(scopes), len(variables))
    assert min(report.rows, report.scopes, report.variables) > 1


@pytest.mark.parametrize(
    ("path", "known"),
    [("cuda/bin/linked.sm_80.lines.cubin", PROGRAM_START), ("kernels/bin/blur/dg2-O0.dbg", BLOCK_LOCATION)],
)
def test_known_deviations_are_named_with_their_reason(path: str, known):
    report = verify(objects(SAMPLES / path))
    assert {(one.name, one.reason) for one in report.deviations} == {known}
    assert all(one.count > 0 for one in report.deviations)

"""CUDA as clang 14 and 22 wrap it: fat binaries of the old driver with and without relocatable device code, offload binaries of the
new one, and what its linker makes of them. tests.agreement.test_nvidia has the bytes of all that cuobjdump extracts."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.formats.containers import unpack
from symd.query.line_tables import lines
from tests import tools
from tests.agreement import ours
from tests.golden.cuda import make, samples

FOLDER = samples.FOLDER / "clang"
SECTIONS = {
    "fatbin-14.o": ".nv_fatbin",
    "fatbin-22.o": ".nv_fatbin",
    "module-22.o": "__nv_relfatbin",
    "offloading-22.o": ".llvm.offloading",
    "linked-22.so": ".nv_fatbin",
}
TARGETS = {"sm_75", "sm_80"}


@pytest.mark.parametrize("name", SECTIONS)
def test_both_code_objects_are_found_in_their_section(name: str) -> None:
    opened = unpack((FOLDER / name).read_bytes())
    assert {code.target for code in opened.objects} == TARGETS
    assert [code.path.split("/")[0] for code in opened.objects] == [SECTIONS[name]] * 2
    assert {kernel.name for code in opened.objects for kernel in code.kernels} == {"_Z5normsPfPKfi"}


def test_images_of_an_offload_section_are_those_that_llvm_extracts(tmp_path: Path) -> None:
    for code in unpack((FOLDER / "offloading-22.o").read_bytes()).objects:
        theirs = tmp_path / f"{code.target}.cubin"
        image = f"--image=file={theirs},triple=nvptx64-nvidia-cuda,arch={code.target}"
        tools.output(tools.require("llvm-offload-binary-22"), image, FOLDER / "offloading-22.o")
        assert theirs.read_bytes() == code.data


@pytest.mark.parametrize("name", SECTIONS)
def test_rows_are_those_that_elfutils_reads(name: str, tmp_path: Path) -> None:
    index = ours.index((FOLDER / name).read_bytes())
    for code in unpack((FOLDER / name).read_bytes()).objects:
        path = tmp_path / "code.cubin"
        path.write_bytes(code.data)
        theirs = [line.split(" ") for line in make.rows(str(path))]
        (table,) = lines(index, code.path)
        mine = [(int(table.offset[at]), int(table.line[at])) for at in range(len(table))]
        assert len(mine) > 5
        assert mine[:-1] == [(int(offset, 16), int(line)) for _, offset, _, line, *_ in theirs[:-1]]
        assert mine[-1][0] == int(theirs[-1][1], 16)

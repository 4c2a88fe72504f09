"""A kernel by the name of its entry point, and by that of the function behind it, in SPIR-V and in machine code made of it: Intel's
drivers and llvm-spirv take the latter, as of Zig, which writes ``k.go`` for ``go``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import symd
from symd.model.answers import Reason
from tests.builders.elf import AX, Section, Symbol, build_elf
from tests.formats.spirv_rules.assembly import assemble, module, offset_of

SPIRV_SECTION = 0xFF000009
MODULE = module(entry='Kernel %kernel "go"', decorations='OpName %kernel "k.go"')
SPIRV = assemble(MODULE)


def zebin() -> bytes:
    texts = [Section(f".text.{name}", flags=AX, data=bytes(64)) for name in ("other", "k.go")]
    symbols = [Symbol(each.name.removeprefix(".text."), 0, 64, each.name, 2) for each in texts]
    return build_elf(machine=205, sections=[*texts, Section(".spv", SPIRV_SECTION, data=SPIRV)], symbols=symbols)


@pytest.mark.parametrize("data", [SPIRV, zebin()], ids=["SPIR-V", "zebin"])
def test_a_kernel_goes_by_both_names(data: bytes) -> None:
    with symd.open(data) as opened:
        by_entry, by_function = opened.symbolize(["go+0x8", "k.go+0x8"])
        assert by_entry.reason is not Reason.UNKNOWN_KERNEL
        assert (by_entry.section, by_entry.section_offset) == (by_function.section, by_function.section_offset)
        assert by_entry.section_offset == 8 or data is SPIRV
        assert opened.symbolize("stop+0x8").reason is Reason.UNKNOWN_KERNEL


def test_the_spirv_inside_goes_by_both_names_too(tmp_path: Path) -> None:
    begin = offset_of(SPIRV, "OpFunction ", tmp_path)
    with symd.open(zebin()) as opened:
        found = opened.symbolize(["go+0", "k.go+0"], path="spirv")
        assert [each.section_offset for each in found] == [begin, begin]


def test_the_command_takes_both(tmp_path: Path) -> None:
    file = tmp_path / "k.zebin"
    file.write_bytes(zebin())
    for name in ("go", "k.go"):
        command = [sys.executable, "-m", "symd", "symbolize", file, f"{name}+0x8"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, f"{name}+0x8: k.go [NO_DEBUG_INFO]\n")

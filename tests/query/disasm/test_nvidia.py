"""NVIDIA code. nvdisasm cannot be installed everywhere: where it is not, a stand-in plays back what it once printed."""

from __future__ import annotations

import json
import os
import random
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from symd.errors import ToolCrashed, ToolFailed, ToolMissing, Unsupported
from symd.model.code import Vendor
from symd.model.line_tables import Instructions
from symd.query.disasm import disassemble, nvidia
from symd.query.disasm.disassembler import code_ranges
from symd.system.installed import programs
from tests.query.disasm.objects import SAMPLES, made, objects

BIN = SAMPLES / "cuda" / "bin"
GOLDEN = Path(__file__).parents[2] / "golden" / "nvdisasm"
FILES = sorted(path.name.removesuffix(".json") for path in GOLDEN.glob("*.json"))
PYTHON = os.path.realpath(sys.executable)
"""A stand-in reads no virtual environment."""
PLAYER = """\
#!{python} -I
import hashlib, json, sys
golden = json.loads({golden!r})
text = open(sys.argv[-1], "rb").read()
base = sys.argv[sys.argv.index("-base") + 1]
sys.stdout.write("\\t.headerflags\\t@\\"EF_CUDA_SM90\\"\\n" + golden["runs"][hashlib.sha256(text).hexdigest() + " " + base])
"""
Install = Callable[[str], None]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a script in the place of nvdisasm."""

    def install(script: str) -> None:
        monkeypatch.setenv("SYMD_TOOLS", str(tmp_path))
        (tmp_path / "nvdisasm").write_text(script)
        (tmp_path / "nvdisasm").chmod(stat.S_IRWXU)

    return install


def check(name: str) -> None:
    """What symd makes of the file are the offsets and mnemonics that nvdisasm printed for the whole file."""
    whole = json.loads((GOLDEN / f"{name}.json").read_text())["whole"]
    (code,) = objects(BIN / name)
    (ours,) = disassemble([code])
    assert isinstance(ours, Instructions), ours
    names = {section.index: section.name for section in code.sections}
    found: dict[str, list[str]] = {}
    for section, offset, size, text in zip(
        ours.section.tolist(), ours.offset.tolist(), ours.size.tolist(), ours.text, strict=True
    ):
        words = text.split()
        mnemonic = " ".join(words[: 2 if words[0].startswith("@") else 1])
        assert size == 16
        found.setdefault(names[section], []).append(f"{offset:04x} {mnemonic}")
    assert found == whole


@pytest.mark.parametrize("name", FILES)
def test_instructions_are_those_that_nvdisasm_prints_of_the_whole_file(name: str, program: Install) -> None:
    program(PLAYER.format(python=PYTHON, golden=(GOLDEN / f"{name}.json").read_text()))
    check(name)


needs_nvdisasm = pytest.mark.skipif(
    not programs("nvdisasm", nvidia._elsewhere()), reason="nvdisasm is not installed, and no package of Debian has it"
)


@needs_nvdisasm
@pytest.mark.parametrize("name", FILES)
def test_the_same_with_the_real_program(name: str) -> None:
    check(name)


@needs_nvdisasm
@pytest.mark.parametrize("name", ["raycast.sm_80.ptxas-12.4.cubin", "linked.sm_100.lines.cubin", "program"])
def test_every_byte_of_code_is_in_one_instruction(name: str) -> None:
    for code in objects(BIN / name):
        (ours,) = disassemble([code])
        assert isinstance(ours, Instructions), ours
        columns = zip(ours.section.tolist(), ours.offset.tolist(), ours.size.tolist(), strict=True)
        covered = [(section, at) for section, offset, size in columns for at in range(offset, offset + size)]
        assert covered == [(each.section, at) for each in code_ranges(code) for at in range(each.offset, each.end)]


@needs_nvdisasm
@pytest.mark.parametrize("size", [1, 15, 16, 17, 800])
def test_hostile_bytes_are_shown_as_what_they_are_to_the_last(size: int) -> None:
    """Or refused, where the program finds fault with the code again and again."""
    (result,) = disassemble([made(random.Random(size).randbytes(size), vendor=Vendor.NVIDIA, target="sm_90")])
    assert isinstance(result, Instructions | ToolFailed)
    if isinstance(result, Instructions):
        assert int(result.size.sum()) == size


CODE = made(bytes(range(48)), vendor=Vendor.NVIDIA, target="sm_90")
REFUSES = f"""#!{PYTHON} -I
import sys
text = open(sys.argv[-1], "rb").read()
bad = [at for at in range(0, len(text), 16) if text[at] == 16]
for at in bad:
    print(f"nvdisasm error   : Unrecognized operation for functional unit 'uC' at address 0x{{at:08x}}", file=sys.stderr)
    print("nvdisasm error   : Illegal instruction found", file=sys.stderr)
if bad:
    sys.exit(1)
for at in range(0, len(text), 16):
    print(f"        /*{{at:04x}}*/                   OP{{text[at]}} R1, c[0x0][0x28] ;")
"""


def test_what_the_program_refuses_to_decode_is_replaced_and_shown_as_such(program: Install) -> None:
    """The stand-in fails on every instruction whose first byte is 16, as nvdisasm does on illegal ones."""
    program(REFUSES)
    (result,) = disassemble([CODE])
    assert isinstance(result, Instructions)
    assert result.offset.tolist() == [0, 16, 32]
    assert [*result.text] == ["OP0 R1, c[0x0][0x28]", "(not decoded)", "OP32 R1, c[0x0][0x28]"]


def test_bytes_that_fill_no_instruction_are_shown_as_such(program: Install) -> None:
    program(REFUSES)
    (result,) = disassemble([made(bytes(20), vendor=Vendor.NVIDIA, target="sm_90")])
    assert isinstance(result, Instructions)
    assert result.size.tolist() == [16, 4]
    assert result.text[1] == "(not decoded)"


def test_a_program_that_fails_without_saying_where_is_an_error(program: Install) -> None:
    program("#!/bin/sh\necho 'nvdisasm fatal   : no memory' >&2\nexit 255\n")
    (result,) = disassemble([CODE])
    assert isinstance(result, ToolFailed)
    assert "no memory" in str(result)


def test_a_program_that_dies_is_an_error_that_names_the_signal(program: Install) -> None:
    program("#!/bin/sh\nkill -SEGV $$\n")
    (result,) = disassemble([CODE])
    assert isinstance(result, ToolCrashed)


def test_an_architecture_that_no_program_knows_is_named(program: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words are nvdisasm 13.1's of SM50."""
    program("#!/bin/sh\necho \"nvdisasm fatal   : Value 'SM50' is not defined for option 'binary'\" >&2\nexit 1\n")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(nvidia, "_elsewhere", list)
    (result,) = disassemble([made(bytes(16), vendor=Vendor.NVIDIA, target="sm_50")])
    assert isinstance(result, ToolMissing)
    assert "sm_50" in str(result)


def test_without_the_program_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("SYMD_TOOLS", raising=False)
    monkeypatch.setattr(nvidia, "_elsewhere", list)
    (result,) = disassemble([CODE])
    assert isinstance(result, ToolMissing)
    assert "CUDA" in result.hint


def test_code_for_no_known_architecture_is_refused(program: Install) -> None:
    program(REFUSES)
    (result,) = disassemble([made(bytes(16), vendor=Vendor.NVIDIA, target=None)])
    assert isinstance(result, Unsupported)


@pytest.mark.parametrize(
    ("architecture", "advice"),
    [
        ("SM120a", "install the CUDA toolkit, or pip install nvidia-cuda-nvdisasm: the newest one"),
        ("SM61", "CUDA 12 is the last that knows it: pip install triton==3.5.1, or put its nvdisasm"),
        ("SM37", "CUDA 11 is the last that knows it: put its nvdisasm"),
        ("SM30", "CUDA 10 is the last that knows it"),
        ("SM20", "CUDA 8 is the last that knows it"),
    ],
)
def test_an_architecture_that_is_not_known_is_one_of_another_toolkit(architecture: str, advice: str) -> None:
    """Each toolkit's release notes say which architectures it drops: 9 sm_2x, 11 sm_30, 12 sm_35 and 37, 13 those before sm_75."""
    assert nvidia._which_knows(architecture).startswith(advice)

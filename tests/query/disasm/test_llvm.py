"""AMD code: what llvm-objdump says of the very files, though it is given our bare instructions."""

from __future__ import annotations

import os
import random
import re
import stat
from pathlib import Path

import pytest

from symd.config import Limits
from symd.debuginfo import reading
from symd.errors import DeadlineExceeded, LimitExceeded, ToolCrashed, ToolFailed, ToolMissing, Unsupported
from symd.model.code import Function, Kernel, Vendor
from symd.model.debug_info import RowFlag
from symd.model.line_tables import CodeSpan, Instructions
from symd.query.disasm import disassemble, disassembler, llvm
from symd.query.disasm.disassembler import InstructionBytes, code_ranges
from tests.query.disasm.objects import SAMPLES, made, objects
from tests.tools import find, output, require

BIN = SAMPLES / "amdgpu" / "bin"
LINE = re.compile(r"\t(.*?)\s*// ([0-9A-F]{12}): ([0-9A-F ]+?)(?: <.*>)?$")
NEWER_THAN_14 = ("gfx1100", "gfx1201", "gfx942", "generic")
OLD_ENOUGH = [
    path
    for path in sorted(BIN.iterdir())
    if path.suffix in {".co", ".o"}
    and not path.name.startswith("host")
    and path.name != "offloading.o"
    and not any(word in path.name for word in NEWER_THAN_14)
]


ONE_TEXT = [path for path in OLD_ENOUGH if not any(word in path.name for word in ("sections", "cut", "packed"))]
"""Files whose code has an address of its own, and that llvm-objdump can read as they are."""


def by_command_line(program: str, path: Path, target: str) -> dict[int, tuple[int, str]]:
    """Address to (size, text) of everything that the same program prints of the file itself."""
    cpu, *features = target.split(":")
    attributes = ",".join(feature[-1] + feature[:-1] for feature in features)
    printed = output(program, "-d", "-z", f"--mcpu={cpu}", f"--mattr={attributes}", path)
    hits = (LINE.match(line) for line in printed.splitlines())
    return {int(hit[2], 16): (len(hit[3].replace(" ", "")) // 2, without_target(hit[1])) for hit in hits if hit}


def without_target(text: str) -> str:
    """Of a branch the mnemonic alone: given a file with symbols, llvm-objdump may write a label's name for the number."""
    plain = re.sub(r" <0x[0-9a-f]+>$", "", text).strip()
    return plain.split()[0] if "branch" in plain else plain


@pytest.mark.parametrize("path", ONE_TEXT, ids=lambda path: path.name)
def test_instructions_are_those_of_the_command_line(path: Path) -> None:
    require("llvm-objdump")
    (code,) = objects(path)
    (ours,) = disassemble([code])
    assert isinstance(ours, Instructions), ours
    assert code.target
    base = next(section.address for section in code.sections if section.index == ours.section[0])
    columns = zip(ours.offset.tolist(), ours.size.tolist(), ours.text, strict=True)
    mine = {base + offset: (size, without_target(text)) for offset, size, text in columns}
    theirs = by_command_line(ours.disassembler, path, code.target)
    assert len(mine) > 5
    assert {address: theirs.get(address) for address in mine} == mine


@pytest.mark.parametrize("path", OLD_ENOUGH, ids=lambda path: path.name)
def test_every_byte_of_code_is_in_one_instruction_and_every_row_on_the_start_of_one(path: Path) -> None:
    require("llvm-objdump")
    (code,) = objects(path)
    (ours,) = disassemble([code])
    assert isinstance(ours, Instructions)
    columns = [*zip(ours.section.tolist(), ours.offset.tolist(), ours.size.tolist(), strict=True)]
    covered = [(section, at) for section, offset, size in columns for at in range(offset, offset + size)]
    assert covered == [(each.section, at) for each in code_ranges(code) for at in range(each.offset, each.end)]
    rows = reading.read(code).rows
    inside = {*covered}
    begins = (rows.flags & RowFlag.END_SEQUENCE) == 0
    found = {*zip(rows.section[begins].tolist(), rows.offset[begins].tolist(), strict=True)} & inside
    assert found <= {(section, offset) for section, offset, _ in columns}


def test_branches_name_the_offset_in_their_section() -> None:
    """scale_v4.s: the loop begins 12 bytes into the text, and the branch back to it is its last instruction."""
    require("llvm-objdump")
    (code,) = objects(BIN / "v4-scale.co")
    (ours,) = disassemble([code])
    assert isinstance(ours, Instructions)
    loop = next(each for each in code.functions if each.name == "loop")
    branches = [text for text in ours.text if "branch" in text]
    assert branches
    assert branches[0].endswith(f" <{loop.offset:#x}>")


def test_newer_processors_need_a_newer_version() -> None:
    newer = [version for version in (19, 20, 21, 22) if find(f"llvm-objdump-{version}")]
    (code,) = objects(BIN / "v5-gfx1100.co")
    (ours,) = disassemble([code])
    if isinstance(ours, ToolMissing):
        assert not newer
        assert "gfx1100" in str(ours)
    else:
        assert isinstance(ours, Instructions), ours
        assert int(ours.size.sum()) == sum(len(each.data) for each in code_ranges(code))


@pytest.mark.parametrize("size", [1, 3, 4, 6, 4001])
def test_hostile_bytes_are_shown_as_what_they_are_to_the_last(size: int) -> None:
    require("llvm-objdump")
    code = made(random.Random(size).randbytes(size), vendor=Vendor.AMD, target="gfx900")
    (result,) = disassemble([code])
    assert isinstance(result, Instructions), result
    assert int(result.size.sum()) == size


def test_many_ranges_of_many_objects_go_through_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    require("llvm-objdump")
    runs = []
    real = disassembler.run_tool
    monkeypatch.setattr(disassembler, "run_tool", lambda *words, **more: runs.append(1) or real(*words, **more))
    functions = tuple(Function(f"f{at}", 1, at, 4) for at in range(0, 400, 8))
    first = made(bytes.fromhex("000080bf") * 100, vendor=Vendor.AMD, target="gfx900", functions=functions, path="a")
    second = made(bytes.fromhex("000081bf") * 3, vendor=Vendor.AMD, target="gfx900", path="b")
    one, other = disassemble([first, second])
    assert isinstance(one, Instructions)
    assert isinstance(other, Instructions)
    assert one.offset.tolist() == list(range(0, 400, 8))
    assert other.offset.tolist() == [0, 4, 8]
    assert {*one.text} == {"s_nop 0"}
    assert {*other.text} == {"s_endpgm"}
    assert len(runs) == 1


def test_a_target_is_options() -> None:
    def options(target: str | None, width: int | None = None) -> tuple[str, ...]:
        kernels = (Kernel("k", 1, 0, 8, {"simd_width": width}),)
        code = made(bytes(8), vendor=Vendor.AMD, target=target, kernels=kernels)
        return llvm.options(InstructionBytes(code, 1, 0, bytes(8)))

    assert options("gfx90a:sramecc+:xnack-") == ("--mcpu=gfx90a", "--mattr=+sramecc,-xnack")
    assert options("gfx900", 64) == ("--mcpu=gfx900",)
    assert options("gfx1100", 32) == ("--mcpu=gfx1100",)
    assert options("gfx1100", 64) == ("--mcpu=gfx1100", "--mattr=-wavefrontsize32,+wavefrontsize64")
    assert options(None) == ()


def test_code_that_does_not_name_its_processor_is_refused() -> None:
    require("llvm-objdump")
    (result,) = disassemble([made(bytes(8), vendor=Vendor.AMD, target=None)])
    assert isinstance(result, Unsupported)


CODE = made(bytes(64), vendor=Vendor.AMD, target="gfx900")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a shell script in the place of llvm-objdump; with None nothing at all is installed."""

    def install(script: str | None, name: str = "llvm-objdump") -> None:
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}" if script is not None else str(tmp_path))
        monkeypatch.setenv("SYMD_TOOLS", str(tmp_path))
        monkeypatch.setattr(llvm, "ROCM", ())
        if script is not None:
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(stat.S_IRWXU)

    return install


def test_without_the_program_the_error_says_what_to_install(program) -> None:
    program(None)
    (result,) = disassemble([CODE])
    assert isinstance(result, ToolMissing)
    assert "apt-get install llvm" in result.hint


def test_a_program_that_dies_is_an_error_that_names_the_signal(program) -> None:
    program("kill -ABRT $$")
    (result,) = disassemble([CODE])
    assert isinstance(result, ToolCrashed)
    assert "SIGABRT" in str(result)


def test_a_program_that_hangs_is_ended(program) -> None:
    program("while :; do :; done")
    (result,) = disassemble([CODE], limits=Limits(disassembly_seconds=0.3))
    assert isinstance(result, DeadlineExceeded)
    assert result.hint == "ask for one function, or raise disassembly_seconds"


def test_who_asked_for_one_kernel_is_told_to_ask_for_one_code_object(program) -> None:
    program("while :; do :; done")
    named = made(bytes(64), vendor=Vendor.AMD, target="gfx900", kernels=(Kernel("k", 1, 0, 64),))
    (result,) = disassemble([named], [CodeSpan(named.path, 1, 8, 16)], Limits(disassembly_seconds=0.3))
    assert isinstance(result, DeadlineExceeded)
    assert result.hint == "ask for one code object, or raise disassembly_seconds"


def test_a_program_that_writes_without_end_is_stopped(program) -> None:
    program("while :; do echo yes; done")
    (result,) = disassemble([CODE])
    assert isinstance(result, LimitExceeded)


def test_one_that_does_not_know_the_processor_gives_way_to_the_next(program) -> None:
    require("llvm-objdump")
    program("echo \"'gfx900' is not a recognized processor for this target (ignoring processor)\" >&2; exit 134")
    (result,) = disassemble([CODE])
    assert isinstance(result, Instructions)
    assert int(result.size.sum()) == 64


def test_a_program_that_prints_no_instructions_is_an_error(program) -> None:
    program("echo 'Available CPUs for this target:'")
    (result,) = disassemble([CODE])
    assert isinstance(result, ToolFailed)
    assert "no instructions" in str(result)


def test_where_none_knows_it_the_error_names_the_processor(program, monkeypatch: pytest.MonkeyPatch) -> None:
    program("echo 'is not a recognized processor' >&2; exit 1")
    monkeypatch.setenv("PATH", os.environ["SYMD_TOOLS"])
    (result,) = disassemble([CODE])
    assert isinstance(result, ToolMissing)
    assert "gfx900" in str(result)


def test_the_text_of_one_request_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all runs: two code objects of different processors are two runs."""
    require("llvm-objdump")
    codes = [made(bytes(40_000), vendor=Vendor.AMD, target=target) for target in ("gfx900", "gfx90a")]
    assert all(isinstance(each, Instructions) for each in disassemble(codes))
    monkeypatch.setattr(disassembler, "DISASSEMBLY_SIZE", 100_000)
    results = disassemble(codes[:1])
    assert isinstance(results[0], LimitExceeded)
    assert {**results[0].metadata, "tool": ""} == {"tool": "", "limit": "disassembly_size", "value": "100000"}

"""Intel code: the same instructions as IGA's command line prints, and every line row on one of them."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from symd.config import Limits
from symd.debuginfo import reading
from symd.errors import SymdError, ToolCrashed, ToolFailed, ToolMissing, Unsupported
from symd.model.code import CodeObject, Function
from symd.model.debug_info import RowFlag
from symd.model.line_tables import Instructions
from symd.query.disasm import disassemble, disassembler, iga
from symd.query.disasm.disassembler import code_ranges
from symd.system.process import confinement
from symd.system.process.run import Ended, ExitStatus
from tests.query.disasm.objects import SAMPLES, made, objects, texts
from tests.tools import output, require

KERNELS = SAMPLES / "kernels" / "bin"
PLATFORMS = {"skl": "9", "gen9": "9", "tgllp": "xe", "gen12lp": "xe", "dg2": "xehpg", "xe-hpg": "xehpg"}
PLATFORMS |= {"pvc": "xehpc", "xe-hpc": "xehpc"}
INSTRUCTION = re.compile(r"/\* \[([0-9A-F]+)\]  \*/ (.*)")
LABEL = re.compile(r"\bL-?[0-9]+\b")
NEWER = ("bmg",)
"""Devices that the library of the older generation does not know."""
CODE = [
    path
    for path in sorted(KERNELS.glob("*/*"))
    if path.suffix in {".dbg", ".zebin", ".debug-zebin"} and not any(device in path.name for device in NEWER)
]


def by_command_line(text: bytes, target: str, folder: Path) -> list[tuple[int, str]]:
    """(offset, text without label names) of every instruction that iga64 prints."""
    file = folder / "text.bin"
    file.write_bytes(text)
    printed = output(require("iga64"), "-d", f"-p={PLATFORMS[target]}", "-Xprint-pc", file)
    found = (INSTRUCTION.match(line) for line in printed.splitlines())
    return [(int(hit[1], 16), comparable(hit[2])) for hit in found if hit]


def comparable(text: str) -> str:
    """Without names of labels; and the command line spells the function of ``bfn`` where the library numbers it."""
    text = LABEL.sub("L", text)
    if " bfn." not in text:
        return text.rstrip()
    return " ".join(re.sub(r"bfn\.\S+", "bfn", text.partition("//")[0]).split())


def decoded(code: CodeObject) -> Instructions:
    require("iga64")  # of the package that needs the library
    (result,) = disassemble([code])
    assert isinstance(result, Instructions), result
    return result


@pytest.mark.parametrize(
    "sample",
    [
        *("raycast/dg2-O0.zebin", "raycast/skl-opt.dbg", "raycast/tgllp-O0.dbg", "raycast/pvc-opt.dbg"),
        *("particles/igc2-dg2-O0.zebin", "particles/pvc-O0.dbg", "mandelbrot/igc2-dg2-O0.zebin", "blur/skl-O0.dbg"),
    ],
)
def test_instructions_are_those_of_the_command_line(sample: str, tmp_path: Path) -> None:
    """The command line is given whole sections; what it shows beyond ours is padding."""
    for code in objects(KERNELS / sample):
        sections = {section.index: section.name for section in code.sections}
        ours = decoded(code)
        assert code.target
        for name, text in texts(code.data).items():
            own = [number for number, index in enumerate(ours.section.tolist()) if sections[index] == name]
            listed = [(int(ours.offset[number]), comparable(ours.text[number])) for number in own]
            printed = by_command_line(text, code.target, tmp_path)
            assert printed[: len(listed)] == listed
            assert {line.strip() for _, line in printed[len(listed) :]} <= {"illegal"}


@pytest.mark.parametrize("path", CODE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_byte_of_code_is_in_one_instruction_and_every_row_on_the_start_of_one(path: Path) -> None:
    require("iga64")
    codes = objects(path)
    for code, result in zip(codes, disassemble(codes), strict=True):
        assert isinstance(result, Instructions), result
        expected = [(each.section, at) for each in code_ranges(code) for at in range(each.offset, each.end)]
        columns = zip(result.section.tolist(), result.offset.tolist(), result.size.tolist(), strict=True)
        starts, covered = set(), []
        for section, offset, size in columns:
            starts.add((section, offset))
            covered += [(section, at) for at in range(offset, offset + size)]
        assert covered == expected
        rows = reading.read(code).rows
        begins = (rows.flags & RowFlag.END_SEQUENCE) == 0
        assert set(zip(rows.section[begins].tolist(), rows.offset[begins].tolist(), strict=True)) <= starts
        assert not [text for text in result.text if "illegal" in text or "not decoded" in text]


def test_labels_count_from_the_start_of_the_section() -> None:
    """The same kernel behind 64 bytes that are not its own: what it jumps to moves with it."""
    (code,) = objects(KERNELS / "raycast" / "dg2-O0.zebin")
    text = texts(code.data)[".text.raycast"][: code.kernels[0].size]
    alone = decoded(made(text))
    moved = decoded(made(bytes(64) + text, functions=(Function("k", 1, 64, len(text)),)))
    assert (moved.offset - 64).tolist() == alone.offset.tolist()

    def targets(instructions: Instructions) -> list[int]:
        code_part = (each.partition("//")[0] for each in instructions.text)
        return [int(number[1:]) for each in code_part for number in LABEL.findall(each)]

    assert len(targets(alone)) > 10
    assert set(targets(alone)) <= {*alone.offset.tolist(), len(text)}
    assert targets(moved) == [target + 64 for target in targets(alone)]


def test_all_objects_of_a_container_go_through_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    require("iga64")
    runs = []
    real = disassembler.run_tool
    monkeypatch.setattr(disassembler, "run_tool", lambda *words, **more: runs.append(1) or real(*words, **more))
    codes = objects(KERNELS / "particles" / "dg2-opt.dbg")
    assert len(codes) > 1
    assert all(isinstance(each, Instructions) for each in disassemble(codes))
    assert len(runs) == 1


@pytest.mark.parametrize("target", ["skl", "dg2", "pvc"])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 15, 16, 4000, 4001])
def test_hostile_bytes_are_shown_as_what_they_are_to_the_last(target: str, size: int) -> None:
    require("iga64")
    code = made(random.Random(size).randbytes(size), target=target)
    (result,) = disassemble([code])
    assert isinstance(result, Instructions)
    assert int(result.size.sum()) == size
    assert all(line.isprintable() for line in result.text)


def test_code_without_a_known_device_is_refused_and_does_not_harm_its_neighbours() -> None:
    require("iga64")
    good = made(texts(objects(KERNELS / "vadd" / "dg2-opt.zebin")[0].data)[".text.vadd"][:64])
    results = disassemble([made(bytes(16), target=None), good, made(bytes(16), target="gen99"), good])
    assert isinstance(results[0], Unsupported)
    assert "does not say" in str(results[0])
    assert isinstance(results[2], Unsupported)
    assert isinstance(results[1], Instructions)
    assert isinstance(results[3], Instructions)


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a library that lacks IGA's functions one."""
    monkeypatch.setattr(iga, "LIBRARIES", ("libnowhere64.so.9", "libc.so.6"))
    (result,) = disassemble([made(bytes(16))])
    assert isinstance(result, ToolMissing)
    assert "libigc" in result.hint
    assert result.status == "FAILED_PRECONDITION"


def test_the_library_opens_nothing_once_it_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A library that tries, in the place of one that damaged code has taken over."""
    compiler = shutil.which("cc")
    if compiler is None or not confinement.available():
        pytest.skip("no C compiler, or this kernel cannot confine")
    source = """
        #include <fcntl.h>\n#include <stdio.h>\n#include <sys/socket.h>\n#include <unistd.h>
        void *kv_create(unsigned gen, void *bytes, size_t size, int *status, char *said, size_t most, unsigned swsb) {
            int file = open("/etc/passwd", O_RDONLY), made = open("made", O_CREAT | O_WRONLY, 0600);
            snprintf(said, most, "file %d made %d socket %d child %d", file, made, socket(AF_INET, SOCK_STREAM, 0), fork());
            *status = 7;
            return 0;
        }
        size_t kv_get_inst_syntax() { return 0; }
    """
    command = [compiler, "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(tmp_path / "libiga64.so.1")]
    subprocess.run(command, input=source, text=True, check=True)
    monkeypatch.setenv("SYMD_TOOLS", str(tmp_path))
    (result,) = disassemble([made(bytes(16))])
    assert isinstance(result, SymdError)
    assert "file -1 made -1 socket -1 child -1" in str(result)


def test_a_device_that_the_library_does_not_know_asks_for_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    require("iga64")
    monkeypatch.setattr(iga, "LIBRARIES", ("libiga64.so.1",))
    monkeypatch.delenv("SYMD_TOOLS", raising=False)
    (result,) = disassemble([made(bytes(16), target="bmg")])
    assert isinstance(result, ToolMissing)
    assert "libigc2" in result.hint


def test_a_crash_costs_the_code_that_caused_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is played: it decodes the first text, dies of the second, and decodes the third when asked again."""
    answers = [
        Ended(ExitStatus(-11), b"0 16 first\n= libiga64.so.1\n0 8 half of the second\n", ""),
        Ended(ExitStatus(0), b"0 16 third\n= libiga64.so.1\n", ""),
    ]
    monkeypatch.setattr(disassembler, "run_tool", lambda *_, **__: answers.pop(0))
    first, second, third = disassemble([made(bytes(16)), made(bytes(16)), made(bytes(16))])
    assert isinstance(first, Instructions)
    assert list(first.text) == ["first"]
    assert isinstance(second, ToolCrashed)
    assert second.metadata["signal"] == "SIGSEGV"
    assert isinstance(third, Instructions)
    assert list(third.text) == ["third"]


@pytest.mark.parametrize(
    "answer",
    [b"= one\n= two\n= three\n", b"! x y\n= two\n", b"0 16\xff\n= one\n", b"text\n= one\n", b"0 17 long\n= one\n",
     b"99999999999999999999 8 far\n= one\n", b"-8 8 before\n= one\n", b"0 0 empty\n= one\n"],
)  # fmt: skip
def test_an_answer_without_sense_is_an_error_for_each(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """Whoever has taken over the child may write anything."""
    monkeypatch.setattr(disassembler, "run_tool", lambda *_, **__: Ended(ExitStatus(0), answer, ""))
    results = disassemble([made(bytes(16)), made(bytes(16))])
    assert [type(each) for each in results] == [ToolFailed, ToolFailed]
    assert all("makes no sense" in str(each) for each in results)


def test_a_child_that_gives_no_answer_is_an_error_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        disassembler, "run_tool", lambda *_, **__: Ended(ExitStatus(1), b"", "Traceback\nno such thing\n")
    )
    results = disassemble([made(bytes(16)), made(bytes(16))])
    assert all(isinstance(each, ToolFailed) and "no such thing" in str(each) for each in results)


def test_the_deadline_of_a_request_covers_all_its_runs() -> None:
    (result,) = disassemble([made(bytes(16))], limits=Limits(disassembly_seconds=0.0))
    assert isinstance(result, SymdError)
    assert result.status == "DEADLINE_EXCEEDED"


@pytest.mark.live_new
def test_newer_devices_decode_with_the_newer_library(monkeypatch: pytest.MonkeyPatch) -> None:
    root = os.environ.get("SYMD_LIVE_NEW_ROOT")
    if not root:
        pytest.skip("SYMD_LIVE_NEW_ROOT is not set")
    monkeypatch.setenv("SYMD_TOOLS", str(next(Path(root).resolve().rglob("libiga64.so.2")).parent))
    (code,) = objects(KERNELS / "vadd" / "igc2-bmg-opt.zebin")
    (result,) = disassemble([code])
    assert isinstance(result, Instructions), result
    assert int(result.size.sum()) == code.kernels[0].size
    assert "libiga64.so.2" in result.disassembler
    assert not [text for text in result.text if "illegal" in text]

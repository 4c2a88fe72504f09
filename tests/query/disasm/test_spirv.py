"""SPIR-V through spirv-dis: instructions begin where the words of the module say, and each function's are its own."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import ToolFailed, ToolMissing
from symd.formats import containers
from symd.model.line_tables import CodeSpan
from symd.query.disasm import disassemble
from tests.tools import require

KERNELS = Path(__file__).parents[3] / "samples" / "kernels" / "bin"
HEADER_WORDS = 5


def code_of(data):
    (code,) = containers.unpack(data, Limits()).objects
    return code


def boundaries(data):
    """(offset, size) of each instruction (SPIR-V 2.3: the high half of its first word is its number of words)."""
    words = struct.unpack(f"<{len(data) // 4}I", data)
    at, found = HEADER_WORDS, []
    while at < len(words):
        found.append((4 * at, 4 * (words[at] >> 16)))
        at += words[at] >> 16
    return found


@pytest.mark.parametrize("name", ["raycast", "vadd", "mandelbrot"])
def test_instructions_are_those_of_the_words(name):
    require("spirv-dis")
    data = (KERNELS / name / "opt.spv").read_bytes()
    code = code_of(data)
    (found,) = disassemble([code])
    got = list(zip(found.offset.tolist(), found.size.tolist(), strict=True))
    spans = [(each.offset, each.offset + each.size) for each in (*code.functions, *code.kernels)]
    assert got == [each for each in boundaries(data) if any(start <= each[0] < end for start, end in spans)]
    assert sum("OpFunction " in text for text in found.text) == len({start for start, _ in spans})
    assert found.disassembler == "spirv-dis"


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_language_that_spirv_dis_does_not_know_hides_no_instruction(order):
    """As the modules of newer compilers have them: an older spirv-dis refuses these whole."""
    require("spirv-dis")
    data = (KERNELS / "vadd" / "opt.spv").read_bytes()
    words = list(struct.unpack(f"<{len(data) // 4}I", data))
    sources = [at // 4 for at, _ in boundaries(data) if words[at // 4] & 0xFFFF == 3]
    assert sources
    for at in sources:
        words[at + 1] = 4242
    (known,) = disassemble([code_of(data)])
    (found,) = disassemble([code_of(struct.pack(f"{order}{len(words)}I", *words))])
    assert (found.offset.tolist(), list(found.text)) == (known.offset.tolist(), list(known.text))


def test_a_kernel_alone():
    require("spirv-dis")
    code = code_of((KERNELS / "raycast" / "opt.spv").read_bytes())
    (kernel,) = code.kernels
    (found,) = disassemble([code], [CodeSpan(code.path, kernel.section_index, kernel.offset, kernel.offset + 4)])
    at = found.offset.tolist().index(kernel.offset)
    end = found.offset.tolist().index(kernel.offset + kernel.size)
    assert found.text[at].startswith("%raycast = OpFunction")
    assert found.text[end - 1] == "OpFunctionEnd"


def test_a_program_that_refuses_is_told(tmp_path, monkeypatch):
    program = tmp_path / "spirv-dis"
    program.write_text("#!/bin/sh\necho 'error: 7: Invalid opcode' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("SYMD_TOOLS", str(tmp_path))
    (found,) = disassemble([code_of((KERNELS / "vadd" / "opt.spv").read_bytes())])
    assert isinstance(found, ToolFailed)
    assert "Invalid opcode" in str(found)


def test_a_program_that_is_missing_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (found,) = disassemble([code_of((KERNELS / "vadd" / "opt.spv").read_bytes())])
    assert isinstance(found, ToolMissing)
    assert "spirv-tools" in str(found)
    assert "v2025.5 or newer" in str(found)


def test_a_module_that_spirv_dis_is_too_old_for_may_be_newer_than_it():
    """A capability that no version has stands for one of a later version."""
    require("spirv-dis")
    data = bytearray((KERNELS / "vadd" / "opt.spv").read_bytes())
    capability = 4 * HEADER_WORDS
    assert data[capability : capability + 4] == struct.pack("<I", 2 << 16 | 17), "OpCapability"
    data[capability + 4 : capability + 8] = struct.pack("<I", 0xFFFF)
    (refused,) = disassemble([code_of(bytes(data))])
    assert isinstance(refused, ToolFailed)
    assert "newer than this spirv-dis: v2025.5 knows" in refused.hint

"""The container builders write what Intel's tools write: real samples are taken apart by hand and built again."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.builders import igc
from tests.builders.elf import ET_EXEC
from tests.builders.hostile import flips, random_bytes, truncations
from tests.tools import output, require

SAMPLES = Path(__file__).parents[2] / "samples" / "kernels"


@pytest.mark.parametrize("name", ["particles/dg2-opt.dbg", "blur/skl-O0.dbg", "filters/pvc-opt.dbg"])
def test_a_real_debug_container_can_be_built_again_from_its_parts(name):
    data = (SAMPLES / "bin" / name).read_bytes()
    magic, version, size, device, stepping, pointer, count = struct.unpack_from("<4s6I", data)
    records, at = [], 28
    for _ in range(count):
        name_size, elf_size, isa_size = struct.unpack_from("<3I", data, at)
        at += 12
        kernel = data[at : at + name_size].rstrip(b"\0").decode()
        records.append(igc.DebugRecord(kernel, data[at + name_size : at + name_size + elf_size]))
        at += name_size + elf_size + isa_size
    assert (magic, version, size, pointer) == (igc.MAGIC, igc.VERSION, 0, 0)
    assert igc.debug_container(records, device=device, stepping=stepping) == data
    assert [record.name for record in records] == json.loads((SAMPLES / "manifest.json").read_text())[name]["kernels"]


def test_a_record_may_claim_what_is_not_true():
    built = igc.debug_record(igc.DebugRecord("abc", b"12345", name_size=9, elf_size=1, isa_size=7))
    assert built == struct.pack("<3I", 9, 1, 7) + b"abc\0" + b"12345\0\0\0"
    assert igc.debug_record(igc.DebugRecord("abcd", b"", terminated=False)) == struct.pack("<3I", 4, 0, 0) + b"abcd"


def test_a_name_has_at_least_one_nul():
    assert igc.padded_name("abcd") == b"abcd\0\0\0\0"
    assert len(igc.padded_name("x" * 468)) == 472


def test_a_patch_token_program_has_the_words_of_a_real_one_where_a_debug_container_has_zeros():
    kernels = [igc.PatchTokenKernel("one", bytes(64), [(0x19, bytes(4))]), igc.PatchTokenKernel("two", bytes(32))]
    data = igc.patch_token_program(kernels, patches=[(42, b"")])
    assert data[:4] == igc.debug_container([])[:4]
    assert struct.unpack_from("<6I", data, 4) == (1081, igc.DG2, 8, 2, 0, 8)
    real = (SAMPLES / "bin" / "particles" / "dg2-opt.bin").read_bytes()
    assert struct.unpack_from("<5I", real, real.rindex(b"CTNI") + 4) == (1081, igc.DG2, 8, 5, 0)


def real_kernels(program: bytes) -> list[tuple[str, bytes]]:
    """Names and code of a patch-token program, walked by the sizes in its headers."""
    count, _, patches = struct.unpack_from("<3I", program, 16)
    at, kernels = 28 + patches, []
    for _ in range(count):
        name, patch, heap, *heaps, size = struct.unpack_from("<7I", program, at + 12)
        at += 40
        kernels.append((program[at : at + name].rstrip(b"\0").decode(), program[at + name + 0 : at + name + size]))
        at += name + patch + heap + sum(heaps)
    assert at == len(program)
    return kernels


def test_a_patch_token_program_is_walked_like_a_real_one():
    real = (SAMPLES / "bin" / "particles" / "dg2-opt.bin").read_bytes()
    start = real.rindex(b"CTNI")
    sections = output(require("readelf"), "-SW", SAMPLES / "bin" / "particles" / "dg2-opt.bin")
    line = next(line for line in sections.splitlines() if "LOUSER+0x7f000005" in line)
    offset, size = (int(word, 16) for word in line.split("LOUSER+0x7f000005")[1].split()[1:3])
    assert offset == start
    assert [name for name, _ in real_kernels(real[start : start + size])] == [
        "emit", "attract", "move", "nothing", "energy",
    ]  # fmt: skip
    built = igc.patch_token_program(
        [igc.PatchTokenKernel("one", b"\1" * 64, [(0x19, bytes(4))]), igc.PatchTokenKernel("four", b"\2" * 32)]
    )
    assert real_kernels(built) == [("one", b"\1" * 64), ("four", b"\2" * 32)]


def test_a_neo_elf_is_what_readelf_shows_of_a_real_one(tmp_path):
    path = tmp_path / "program.bin"
    path.write_bytes(igc.neo_elf([(igc.OPTIONS, b"-g\0"), (igc.SPIRV, bytes(20)), (igc.DEVICE_DEBUG, bytes(28))]))
    text = output(require("readelf"), "-hSW", path)
    assert "Processor Specific: (ff04)" in text
    assert [word for word in ("BuildOptions", "SPIRV Object", "OpenCL Device Debug") if word not in text] == []
    assert [kind for kind in ("0x7f000006", "0x7f000009", "0x7f000008") if f"LOUSER+{kind}" not in text] == []


def test_a_kernel_elf_looks_like_the_ones_in_real_containers(tmp_path):
    (tmp_path / "kernel.elf").write_bytes(igc.kernel_elf(bytes(16)))
    text = output(require("readelf"), "-hSsW", tmp_path / "kernel.elf")
    assert "EXEC (Executable file)" in text
    assert ET_EXEC == 2
    assert " .text " in text


def test_broken_containers_differ_from_each_other_and_from_the_sound_one():
    elf = igc.kernel_elf(bytes(64))
    broken = igc.broken_containers(elf)
    sound = igc.debug_container([igc.DebugRecord("kernel", elf)])
    assert len({*broken.values(), sound}) == len(broken) + 1


def test_truncations_end_before_the_whole():
    assert [len(cut) for cut in truncations(bytes(129))] == [0, 64, 128]
    assert [len(cut) for cut in truncations(bytes(128))] == [0, 64]


def test_flips_keep_the_length_change_something_and_repeat():
    data = bytes(range(200))
    made = list(flips(data, seed=3, count=50))
    assert made == list(flips(data, seed=3, count=50)) != list(flips(data, seed=4, count=50))
    assert len(made) == 50
    assert {len(copy) for copy in made} == {200}
    assert sum(copy == data for copy in made) <= 1
    assert list(flips(b"", seed=1)) == []


def test_random_bytes_have_the_size_and_the_prefix_that_were_asked_for():
    assert random_bytes(1, 50) == random_bytes(1, 50) != random_bytes(2, 50)
    assert random_bytes(1, 50, b"CTNI")[:4] == b"CTNI"
    assert [len(random_bytes(1, size, b"CTNI")) for size in (0, 3, 4, 99)] == [0, 3, 4, 99]

"""What compressed code objects expand to is told from headers; what nobody can read counts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.config import Limits
from symd.formats.containers import unpack
from symd.formats.containers.code_reloader import expanded_size
from tests.builders.elf import Section, build_elf
from tests.hostile.wrappers import in_archive

SAMPLES = Path(__file__).parents[3] / "samples"
EXPANDING_NOTHING = Limits(expansion=0)


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def code_bytes(data: bytes) -> int:
    return sum(len(code.data) for code in unpack(data).objects)


@pytest.mark.parametrize("name", ["cuda/bin/tonemap.zstd.fatbin", "cuda/bin/tonemap.lz4.fatbin"])
def test_a_fat_binary_is_its_compressed_cubins(name):
    assert expanded_size(sample(name), EXPANDING_NOTHING) == code_bytes(sample(name))


def test_cubins_that_are_compressed_as_one_are_padded():
    data = sample("cuda/bin/tonemap.concat-lz4.fatbin")
    padding = sum(-len(code.data) % 8 for code in unpack(data).objects)
    assert expanded_size(data, EXPANDING_NOTHING) == code_bytes(data) + padding


def test_a_bundle_is_what_its_header_says():
    data = sample("amdgpu/bin/v3-zstd.ccob")
    assert expanded_size(data, EXPANDING_NOTHING) >= code_bytes(data)


def test_members_of_an_archive_are_added_up():
    data = sample("cuda/bin/tonemap.zstd.fatbin")
    assert expanded_size(in_archive(data, data), EXPANDING_NOTHING) == 2 * code_bytes(data)


@pytest.mark.parametrize(
    ("section", "name"),
    [(".nv_fatbin", "cuda/bin/tonemap.zstd.fatbin"), (".hip_fatbin", "amdgpu/bin/v3-zstd.ccob")],
)
def test_a_program_is_what_its_sections_hold(section, name):
    data = sample(name)
    program = build_elf(machine=62, sections=[Section(section, data=data, align=8)])
    assert expanded_size(program, EXPANDING_NOTHING) == expanded_size(data, EXPANDING_NOTHING) > 0


@pytest.mark.parametrize("name", ["cuda/bin/tonemap.none.fatbin", "amdgpu/bin/v4-gfx900.co", "amdgpu/bin/host-plain.o"])
def test_what_is_not_compressed_counts_nothing(name):
    assert expanded_size(sample(name), EXPANDING_NOTHING) == 0


@pytest.mark.parametrize("kept", [0, 5, 20, 70])
def test_what_was_cut_off_counts_nothing(kept):
    for name in ("cuda/bin/tonemap.zstd.fatbin", "amdgpu/bin/v3-zstd.ccob", "cuda/bin/program"):
        assert expanded_size(sample(name)[:kept], Limits()) in (0, expanded_size(sample(name), Limits()))

"""Every format in its worst shape: cut, flipped, noise behind a true magic, nested in itself, malformed beside healthy, and made
to inflate. An error of the tree or an answer, within the budget of memory."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import LimitExceeded, SymdError
from symd.formats import containers
from symd.formats.containers import FORMATS
from symd.index import Index
from tests.builders.elf import AX, Section, build_elf
from tests.builders.hostile import flips
from tests.builders.igc import DebugRecord, debug_container
from tests.hostile.child import LIMITS
from tests.hostile.test_bytes import use
from tests.hostile.wrappers import WRAPPERS, container_bombs, elf_bombs, in_host, nested

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "samples/kernels/bin"
SAMPLES = sorted(
    path for path in (ROOT / "samples").glob("*/bin/**/*") if path.is_file() and not path.is_relative_to(KERNELS)
)
"""Those of ``samples/kernels`` are cut in ``test_bytes``."""
FLIPPED = [
    "amdgpu/bin/v2-gfx900.co",
    "amdgpu/bin/v4-gfx900-zlib.co",
    "amdgpu/bin/v4-gfx900-headers-cut.co",
    "amdgpu/bin/v4-gfx900-sections.o",
    "amdgpu/bin/v6-gfx9-generic.co",
    "amdgpu/bin/odd.bundle",
    "amdgpu/bin/v1-zlib.ccob",
    "amdgpu/bin/v3-zstd.ccob",
    "amdgpu/bin/images.offload",
    "amdgpu/bin/libhost.a",
    "amdgpu/bin/host",
    "cuda/bin/saxpy.sm_75.lines.cubin",
    "cuda/bin/raycast.sm_90.debug.cubin",
    "cuda/bin/tonemap.sm_100.lines.cubin",
    "cuda/bin/tonemap.lz4.fatbin",
    "cuda/bin/tonemap.zstd.fatbin",
    "cuda/bin/program.rdc.o",
    "spirv/bin/arguments.O2.ocl-100.spv",
    "spirv/bin/arguments.O0.legacy.spv",
    "spirv/bin/waves.gVS.spv",
]
"""At least one of each format and of each kind of debug data."""
HEALTHY = (ROOT / "samples/amdgpu/bin/v4-gfx900.co").read_bytes()
NOISE = random.Random(3).randbytes(900)
MIB = 1 << 20


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_truncated_sample_is_refused_or_answered(path: Path) -> None:
    data = path.read_bytes()
    for size in range(0, len(data), 64):
        use(data[:size])


@pytest.mark.parametrize("name", FLIPPED)
def test_a_sample_with_flipped_bits_is_refused_or_answered(name: str) -> None:
    for broken in flips((ROOT / "samples" / name).read_bytes(), seed=len(name), count=60):
        use(broken)


def test_the_samples_are_of_every_format() -> None:
    """So that truncation meets every reader; patch tokens, which carry nothing, aside."""
    claimed = {containers.identify(path.read_bytes()) for path in (*SAMPLES, *KERNELS.rglob("*.*")) if path.is_file()}
    assert {module.NAME for module in FORMATS} - {module.NAME for module in claimed if module} == {"patch-tokens"}


def magic(module: containers.Format) -> bytes:
    """The shortest beginning of a sample that its reader claims whatever follows."""
    for path in (*SAMPLES, *KERNELS.rglob("*.*")):
        data = path.read_bytes()[:64] if path.is_file() else b""
        for size in range(4, len(data)):
            if all(module.claims(data[:size] + rest) for rest in (bytes(64), b"\xff" * 64, NOISE)):
                return data[:size]
    return {"patch-tokens": b"CTNI\x39\4\0\0\7\x0c\0\0"}[module.NAME]


@pytest.mark.parametrize("module", [*FORMATS], ids=lambda module: module.NAME)
def test_noise_after_a_true_magic_is_refused(module: containers.Format) -> None:
    dice = random.Random(module.NAME)
    head = magic(module)
    for size in (1, 8, 64, 500, 4096):
        data = head + dice.randbytes(size)
        assert containers.identify(data) is module
        assert isinstance(use(data), SymdError)


def test_noise_after_an_elf_identification_is_refused() -> None:
    dice = random.Random("ELF")
    for size in (1, 8, 64, 500, 4096):
        assert isinstance(use(b"\x7fELF\2\1\1" + bytes(9) + dice.randbytes(size)), SymdError)


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_is_nested_within_the_limit_is_found(name: str) -> None:
    index = use(nested(WRAPPERS[name], HEALTHY, 3))
    assert isinstance(index, Index)
    assert {"shade", "clear"} <= set(index.kernels)


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_is_nested_too_deep_is_refused_with_the_bound(name: str) -> None:
    assert isinstance(use(nested(WRAPPERS[name], HEALTHY, 8)), Index)
    error = use(nested(WRAPPERS[name], HEALTHY, 9))
    assert isinstance(error, LimitExceeded)
    assert error.metadata == {"limit": "nesting_depth", "value": "8"}
    assert str(error).endswith("lies in more than 8 containers")


def test_formats_nest_in_each_other() -> None:
    data = HEALTHY
    for name in ("offload-bundle", "ccob", "offload-binary", "host-elf", "archive", "cuda-fatbin", "igc-debug"):
        data = WRAPPERS[name](data)
    [found] = containers.unpack(data).objects
    assert found.data == HEALTHY
    assert found.path.count("/") == 6


def whole_file_sections(machine: int, kind: int, name: str, section_type: int, count: int) -> bytes:
    """An ELF image whose sections of that name each hold the whole image."""
    sections = [Section(".text.k", flags=AX, data=bytes(64))]
    size = len(build_elf(machine=machine, type=kind, sections=[*sections, *[Section(name, section_type)] * count]))
    itself = Section(name, section_type, offset=0, size=size)
    return build_elf(machine=machine, type=kind, sections=[*sections, *[itself] * count])


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize(
    "how",
    [(62, 1, ".llvm.offloading", 1), (62, 1, ".nv_fatbin", 1), (0, 0xFF04, "debug", 0xFF000008), (205, 1, ".spv", 0xFF000009)],
    ids=["host-elf offloading", "host-elf fatbin", "neo-elf", "zebin"],
)  # fmt: skip
def test_an_image_that_contains_itself_ends_at_the_depth_limit(how: tuple[int, int, str, int], count: int) -> None:
    error = use(whole_file_sections(*how, count))
    assert isinstance(error, LimitExceeded)
    assert error.metadata["limit"] == "nesting_depth"


def test_an_offload_binary_that_contains_itself_ends_at_the_depth_limit() -> None:
    data = bytearray(WRAPPERS["offload-binary"](HEALTHY))
    struct.pack_into("<QQ", data, 32 + 24, 0, len(data))
    error = use(bytes(data))
    assert isinstance(error, LimitExceeded)


def test_sections_that_share_their_bytes_do_not_multiply() -> None:
    """Seven sections over one image, which has seven over the next, and so on: 7 to the power of 7 images in 10 kB."""
    data = HEALTHY
    for _ in range(7):
        sections = [Section(".llvm.offloading", data=data)]
        first = build_elf(machine=62, sections=sections)
        at = first.index(data)
        again = [Section(".llvm.offloading", offset=at, size=len(data)) for _ in range(6)]
        data = build_elf(machine=62, sections=[*sections, *again])
    error = use(data, Limits(object_count=100))
    assert isinstance(error, LimitExceeded)
    assert error.metadata["limit"] == "object_count"


@pytest.mark.parametrize("name", [name for name in WRAPPERS if name not in {"neo-elf", "zebin"}])
@pytest.mark.parametrize("malformed", [NOISE, HEALTHY[:700], b"\x7fELF"], ids=["noise", "cut", "four bytes"])
def test_the_healthy_rest_is_answered_and_the_malformed_element_named(name: str, malformed: bytes) -> None:
    index = use(WRAPPERS[name](malformed, HEALTHY))
    assert isinstance(index, Index)
    assert {"shade", "clear"} <= set(index.kernels)
    [note] = index.summary.notes
    assert note.startswith("left out: ")
    [healthy] = [one.path for one in index.summary.objects]
    assert any(part in note for part in siblings(name, healthy))


def siblings(name: str, healthy: str) -> list[str]:
    """What the first part of a container is called, when the second is ``healthy``."""
    return [
        healthy.removesuffix("#2"),
        healthy.replace(":1", ":0"),
        healthy.replace("m1", "m0"),
        healthy.replace("k1", "k0"),
        healthy.replace("gfx1", "gfx0"),
    ]


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_container_of_nothing_but_malformed_elements_says_what_the_first_is(name: str) -> None:
    error = use(WRAPPERS[name](NOISE))
    if name == "zebin":
        assert isinstance(error, Index)  # the zebin itself is healthy; its SPIR-V is not
        assert "left out: spirv" in error.summary.notes[0]
        return
    assert isinstance(error, SymdError)
    assert "first bytes" in str(error)


REFUSED = {"honest": "LimitExceeded", "lying": "Malformed", "boasting": "LimitExceeded", "many": "LimitExceeded"}


def bombs(kind: str) -> dict[str, bytes]:
    """By name: 64 MiB that say so, that say 4096 bytes, little that says more than any memory; and too many of something."""
    if kind == "many":
        return {
            "expansions": in_host(*[WRAPPERS["ccob"](bytes(600_000))] * 40),
            "members": WRAPPERS["archive"](*[b""] * 50_000),
            "kernels": debug_container([DebugRecord("k", b"")] * 50_000, count=1 << 31),
            "fat binaries": b"\x50\xed\x55\xba\1\0\x10\0\0\0\0\0\0\0\0\0" * 50_000,
        }
    size = 64 if kind == "boasting" else 64 * MIB
    in_elf, in_container = {"honest": (size, size), "lying": (4096, 4096), "boasting": (1 << 46, (1 << 31) - 1)}[kind]
    return elf_bombs(size, in_elf) | container_bombs(size, in_container)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_bomb_costs_an_error_and_bounded_memory(kind: str, tmp_path: Path) -> None:
    """In a process that has 96 MiB to spare, where expansion is limited to 16 MiB."""
    assert LIMITS.expansion == 16 * MIB
    files = bombs(kind)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-m", "tests.hostile.child", "96", *(str(tmp_path / name) for name in files)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    outcomes = dict(line.split("\t") for line in done.stdout.splitlines())
    assert outcomes.keys() == files.keys()
    assert {name: outcome for name, outcome in outcomes.items() if outcome.split()[0] != REFUSED[kind]} == {}


def test_a_spirv_module_with_ids_without_end_is_read_by_what_is_there() -> None:
    """The header's bound says 4294967295 IDs."""
    data = struct.pack("<7I", 0x07230203, 0x10200, 0, 0xFFFFFFFF, 0, 0x20011, 4)
    tracemalloc.start()
    use(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * MIB

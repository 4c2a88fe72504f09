"""Host programs, objects and shared libraries, told by their headers, and whether they carry device code, told by the
names of their sections; ``host_program`` reads them.

Source: Clang's HIP support documentation (``.hip_fatbin``), LLVM's offloading documentation (``.llvm.offloading``), and
the sections that CUDA's and Clang's bundling tools write."""

from __future__ import annotations

from collections.abc import Iterable

from symd.formats import elf
from symd.formats.containers.amd import amdgpu_core
from symd.formats.containers.format import read_by
from symd.formats.containers.intel import igc_elf
from symd.formats.elf.constants import (
    EM_386,
    EM_AARCH64,
    EM_ARM,
    EM_LOONGARCH,
    EM_PPC64,
    EM_RISCV,
    EM_S390,
    EM_X86_64,
    ET_CORE,
)

NAME = "host-elf"
MACHINES = {
    EM_386: "i386",
    EM_PPC64: "ppc64",
    EM_S390: "s390x",
    EM_ARM: "arm",
    EM_X86_64: "x86-64",
    EM_AARCH64: "aarch64",
    EM_RISCV: "riscv",
    EM_LOONGARCH: "loongarch",
}
RELOCATABLE = "__nv_relfatbin"
"""What nvcc's device linker was given, beside what it made of it."""
WHOLE = {".llvm.offloading", ".nv_fatbin", RELOCATABLE}
HIP_BUNDLES = {".hip_fatbin", ".hipFatBin"}
BUNDLED = "__CLANG_OFFLOAD_BUNDLE__"
ALL_TARGETS = "OFFLOAD_DEVICE_CODE"
"""Where DPC++ 2025.3 and later lay the images of every kind and target; before, each kind had a bundled section of its
own."""


def claims(data: bytes) -> bool:
    """An ELF image for a processor that hosts GPUs, unless it is one of Intel's dumps in that disguise, or the core
    file of a process with AMD's devices."""
    kind = elf.kind(data)
    if kind is None or kind.machine not in MACHINES:
        return False
    return not (amdgpu_core.claims(data) if kind.type == ET_CORE else igc_elf.claims(data))


read = read_by("host_program")  # 70 ms of NumPy, 8 ms with it: many ask for the claim alone


def carries_device_code(names: Iterable[str]) -> bool:
    """Whether a host's image with sections of these names has one of device code; kernel packs count too."""
    return any(map(is_device_section, names))


def is_device_section(name: str) -> bool:
    return name in WHOLE or name in HIP_BUNDLES or is_bundled(name)


def is_bundled(name: str) -> bool:
    return name == ALL_TARGETS or (name.startswith(BUNDLED) and not name.startswith(f"{BUNDLED}host-"))

"""The numbers of ELF, under the names of those who gave them out: the gABI, and for their own ranges the vendors.

Sources: System V ABI (gABI), chapters 4 and 5; LLVM's BinaryFormat/ELF.h for AMDGPU and CUDA; NEO's opencl_elf and the
ZEBinary layout document for Intel. Plain integers: they are compared in loops and cost no time to import.
"""

from __future__ import annotations

from symd.model.light_typing import Final

MAGIC: Final = b"\x7fELF"

ELFCLASS32: Final = 1
ELFCLASS64: Final = 2
ELFDATA2LSB: Final = 1
ELFDATA2MSB: Final = 2
EV_CURRENT: Final = 1

ELFOSABI_CUDA: Final = 0x33
ELFOSABI_AMDGPU_HSA: Final = 64
ELFOSABI_AMDGPU_PAL: Final = 65
ELFOSABI_AMDGPU_MESA3D: Final = 66
ELFABIVERSION_AMDGPU_HSA_V2: Final = 0
"""Code object version 2; every later version is one more."""
ELFABIVERSION_CUDA_V2: Final = 8
"""ptxas 12.8 and later for sm_100 and above, 13.0 and later for all (V1 is 7): other e_flags, other section flags."""

ET_REL: Final = 1
ET_EXEC: Final = 2
ET_DYN: Final = 3
ET_CORE: Final = 4
ET_CUDA_EWP: Final = 0xFF00
"""Extensible whole program (``nvcc -ewp``); NVIDIA's tools print it as ET_EWP."""
ET_OPENCL_SOURCE: Final = 0xFF01
"""The first of the types that NEO defines for its own files."""
ET_OPENCL_DEBUG: Final = 0xFF05
"""The last of the types that NEO defines for its own files."""
ET_ZEBIN_REL: Final = 0xFF11
ET_ZEBIN_DYN: Final = 0xFF13
"""The last of the zebin types; ET_ZEBIN_EXE is between."""

EM_NONE: Final = 0
EM_386: Final = 3
EM_PPC64: Final = 21
EM_S390: Final = 22
EM_ARM: Final = 40
EM_X86_64: Final = 62
EM_INTEL182: Final = 182
"""Reserved for Intel; IGC's images of single kernels bear it."""
EM_AARCH64: Final = 183
EM_CUDA: Final = 190
EM_INTELGT: Final = 205
EM_AMDGPU: Final = 224
EM_RISCV: Final = 243
EM_LOONGARCH: Final = 258

EF_AMDGPU_MACH: Final = 0xFF
EF_AMDGPU_FEATURE_XNACK_V3: Final = 0x100
EF_AMDGPU_FEATURE_SRAMECC_V3: Final = 0x200
EF_AMDGPU_FEATURE_XNACK_V4: Final = 0x300
EF_AMDGPU_FEATURE_SRAMECC_V4: Final = 0xC00
EF_AMDGPU_GENERIC_VERSION_OFFSET: Final = 24
EF_CUDA_SM: Final = 0xFF
EF_CUDA_SM_OFFSET: Final = 8
"""Where the SM is in e_flags from ELFABIVERSION_CUDA_V2 on."""
EF_CUDA_VIRTUAL_SM_OFFSET: Final = 16
EF_CUDA_ACCELERATORS_V1: Final = 0x800
EF_CUDA_ACCELERATORS: Final = 0x8

SHT_NULL: Final = 0
SHT_PROGBITS: Final = 1
SHT_SYMTAB: Final = 2
SHT_STRTAB: Final = 3
SHT_RELA: Final = 4
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_REL: Final = 9
SHT_DYNSYM: Final = 11
SHT_INIT_ARRAY: Final = 14
SHT_FINI_ARRAY: Final = 15
SHT_CUDA_INFO: Final = 0x70000000
SHT_CUDA_GLOBAL: Final = 0x70000007
""".nv.global of a relocatable cubin: like SHT_NOBITS it has a size and nothing in the file."""
SHT_CUDA_SHARED: Final = 0x7000000A
""".nv.shared.KERNEL and .nv_debug.shared: like SHT_NOBITS they have a size and nothing in the file."""
SHT_CUDA_COMPAT: Final = 0x70000086
SHT_OPENCL_DEV_BINARY: Final = 0xFF000005
SHT_OPENCL_OPTIONS: Final = 0xFF000006
SHT_OPENCL_DEV_DEBUG: Final = 0xFF000008
SHT_OPENCL_SPIRV: Final = 0xFF000009
SHT_ZEBIN_SPIRV: Final = 0xFF000009
SHT_ZEBIN_ZEINFO: Final = 0xFF000011
SHT_ZEBIN_GTPIN_INFO: Final = 0xFF000012
SHT_ZEBIN_VISAASM: Final = 0xFF000013

SHF_WRITE: Final = 0x1
SHF_ALLOC: Final = 0x2
SHF_EXECINSTR: Final = 0x4
SHF_COMPRESSED: Final = 0x800

SHN_UNDEF: Final = 0
SHN_LORESERVE: Final = 0xFF00
SHN_XINDEX: Final = 0xFFFF

R_X86_64_RELATIVE: Final = 8
R_AARCH64_RELATIVE: Final = 1027

ELFCOMPRESS_ZLIB: Final = 1
ELFCOMPRESS_ZSTD: Final = 2

STB_LOCAL: Final = 0
STT_OBJECT: Final = 1
STT_FUNC: Final = 2
STT_SECTION: Final = 3
STT_AMDGPU_HSA_KERNEL: Final = 10
STO_CUDA_ENTRY: Final = 0x10
"""The bit of st_other that makes a function a kernel."""

PN_XNUM: Final = 0xFFFF
PT_NULL: Final = 0
PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_NOTE: Final = 4
PF_X: Final = 0x1
PF_W: Final = 0x2
PF_R: Final = 0x4

DT_NULL: Final = 0
DT_HASH: Final = 4
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_STRSZ: Final = 10
DT_GNU_HASH: Final = 0x6FFFFEF5

NT_GNU_BUILD_ID: Final = 3
NT_AMD_HSA_CODE_OBJECT_VERSION: Final = 1
NT_AMD_HSA_ISA_VERSION: Final = 3
NT_AMD_HSA_METADATA: Final = 10
NT_AMD_HSA_ISA_NAME: Final = 11
NT_AMDGPU_METADATA: Final = 32
NT_AMDGPU_CORE_STATE: Final = 33
NT_INTELGT_PRODUCT_FAMILY: Final = 1
NT_INTELGT_GFXCORE_FAMILY: Final = 2
NT_INTELGT_TARGET_METADATA: Final = 3
NT_INTELGT_ZEBIN_VERSION: Final = 4
NT_INTELGT_VISA_ABI_VERSION: Final = 5
NT_INTELGT_PRODUCT_CONFIG: Final = 6
NT_NV_TKINFO: Final = 0x7D0
"""The type of the note in section .note.nv.tkinfo. NVIDIA has published no name for it."""
NT_NV_CUINFO: Final = 0x3E8
"""The type of the note in section .note.nv.cuinfo. NVIDIA has published no name for it."""

"""The ELF image with which IGC describes one kernel: as it stands in the debug container (machine 182, one .text), or as
the compiler dumps it when asked (machine 62, .text.KERNEL; relocatable, and no x86 code at all).

Source: IGC's dumps and containers, compiler versions 1.0.12504 and 2.40.
"""

from __future__ import annotations

from symd.budget import Budget
from symd.containers.debug_scheme import debug_scheme
from symd.containers.format import Contents, Part
from symd.containers.intel.targets import FUNCTIONS_ONLY
from symd.elf import reader
from symd.errors import Malformed
from symd.model.code import CodeObject, Kernel, RelocationScheme, Vendor

NAME = "igc-elf"
EM_X86_64, EM_INTEL182 = 62, 182
_SIMD_WIDTH = b"\x80\x48"
"""DW_AT_INTEL_simd_width (0x2400) in ULEB128: only Intel's GPU compiler writes it."""


def claims(data: bytes) -> bool:
    """Machine 182; or a relocatable "x86-64" ELF with a .text.KERNEL, no plain .text, and Intel's SIMD width attribute."""
    if data[:4] != reader.MAGIC or data[4:6] != b"\x02\x01":
        return False
    kind, machine = int.from_bytes(data[16:18], "little"), int.from_bytes(data[18:20], "little")
    if machine == EM_INTEL182:
        return True
    return (
        machine == EM_X86_64 and kind == 1 and b"\0.text." in data and b"\0.text\0" not in data and _SIMD_WIDTH in data
    )


def read(part: Part, budget: Budget) -> Contents:
    """One code object with one kernel. Its name comes from the container, or from the section; without either the
    kernel is named after its debug information when it is indexed."""
    image = reader.parse(part.data, budget, "IGC kernel ELF")
    text = next((section for section in image.sections if section.executable), None)
    if text is None:
        raise Malformed("has no executable section", where="IGC kernel ELF")
    name = part.kernel or text.name.removeprefix(".text.").removeprefix(".text")
    kernels = (Kernel(name, text.index, 0, text.size),) if name and name != FUNCTIONS_ONLY else ()
    code = CodeObject(
        path="",
        format=NAME,
        target=part.target,
        data=part.data,
        sections=image.sections,
        kernels=kernels,
        vendor=Vendor.INTEL,
        relocation=RelocationScheme.IGC if image.machine == EM_INTEL182 else RelocationScheme.X86_64,
        linked=image.machine == EM_INTEL182,
        debug=debug_scheme(image.sections),
        kernel_named_by_debug_data=not kernels,
    )
    return Contents(object=code)

"""The ELF image with which IGC describes one kernel: as it stands in the debug container (machine 182, one .text), or as
the compiler dumps it when asked (machine 62, .text.KERNEL; relocatable, and no x86 code at all).

Source: IGC's dumps and containers, compiler versions 1.0.12504 and 2.40.
"""

from __future__ import annotations

from symd import elf
from symd.budget import Budget
from symd.containers.debug_scheme import debug_scheme
from symd.containers.format import Contents, Element
from symd.containers.intel.targets import FUNCTIONS_ONLY
from symd.elf.constants import ELFCLASS64, ELFDATA2LSB, EM_INTEL182, EM_X86_64, ET_REL
from symd.errors import Malformed
from symd.model.code import CodeObject, Kernel, RelocationScheme, Vendor
from symd.model.identities import ObjectPath

NAME = "igc-elf"
_SIMD_WIDTH = b"\x80\x48"
"""DW_AT_INTEL_simd_width (0x2400) in ULEB128: only Intel's GPU compiler writes it."""


def claims(data: bytes) -> bool:
    """Machine 182; or a relocatable "x86-64" ELF with a .text.KERNEL, no plain .text, and Intel's SIMD width attribute."""
    kind = elf.kind(data)
    if kind is None or data[4:6] != bytes((ELFCLASS64, ELFDATA2LSB)):
        return False
    if kind.machine == EM_INTEL182:
        return True
    return kind == (ET_REL, EM_X86_64) and (b"\0.text." in data and b"\0.text\0" not in data and _SIMD_WIDTH in data)


def read(element: Element, budget: Budget) -> Contents:
    """One code object with one kernel. Its name comes from the container, or from the section; without either the
    kernel is named after its debug information when it is indexed."""
    image = elf.parse(element.data, budget, "IGC kernel ELF")
    text = next((section for section in image.sections if section.executable), None)
    if text is None:
        raise Malformed("has no executable section", where="IGC kernel ELF")
    name = element.kernel or text.name.removeprefix(".text.").removeprefix(".text")
    kernels = (Kernel(name, text.index, 0, text.size),) if name and name != FUNCTIONS_ONLY else ()
    code = CodeObject(
        path=ObjectPath(""),
        format=NAME,
        target=element.target,
        data=element.data,
        sections=image.sections,
        kernels=kernels,
        vendor=Vendor.INTEL,
        relocation=RelocationScheme.IGC if image.header.machine == EM_INTEL182 else RelocationScheme.IGC_DUMP,
        linked=image.header.machine == EM_INTEL182,
        debug=debug_scheme(image.sections),
        kernel_named_by_debug_data=not kernels,
    )
    return Contents(code_object=code)

"""The ELF in which Intel's OpenCL/Level Zero runtime (NEO) keeps a built program: no machine, and a section type for
each kind of content. Debug data, when there is any, is IGC's container.

Source: intel/compute-runtime, opencl_elf section types; confirmed on binaries of ocloc 22.43.
"""

from __future__ import annotations

from symd.errors import Malformed
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.elf.constants import (
    EM_NONE,
    ET_OPENCL_DEBUG,
    ET_OPENCL_SOURCE,
    SHT_OPENCL_DEV_BINARY,
    SHT_OPENCL_DEV_DEBUG,
    SHT_OPENCL_OPTIONS,
    SHT_OPENCL_SPIRV,
)

NAME = "neo-elf"
_ELEMENT_NAMES = {SHT_OPENCL_DEV_DEBUG: "debug", SHT_OPENCL_SPIRV: "spirv"}


def claims(data: bytes) -> bool:
    """An ELF of one of the runtime's own types (0xff01 to 0xff05) and without a machine."""
    kind = elf.kind(data)
    return kind is not None and ET_OPENCL_SOURCE <= kind.type <= ET_OPENCL_DEBUG and kind.machine == EM_NONE


def read(element: Element, budget: Budget) -> Contents:
    """The debug container and the SPIR-V as elements. A zebin in the device section is an element too; a patch-token
    program binary is named in the notes when there is no debug data beside it."""
    image = elf.parse(element.data, budget, "NEO ELF")
    elements = [
        Element(_ELEMENT_NAMES[section.type], section.data)
        for section in image.sections
        if section.type in _ELEMENT_NAMES and section.data
    ]
    device = next((section for section in image.sections if section.type == SHT_OPENCL_DEV_BINARY), None)
    if device and device.data[:4] == elf.MAGIC:
        elements.insert(0, Element("binary", device.data))
    if not elements and device is None:
        raise Malformed("holds no device binary, no debug data and no SPIR-V", where="NEO ELF")
    notes = (
        [] if any(found.name != "spirv" for found in elements) else ["the program was built without debug information"]
    )
    options = next((section.data for section in image.sections if section.type == SHT_OPENCL_OPTIONS), b"")
    facts = {"build_options": options.rstrip(b"\0").decode("utf-8", "replace")}
    return Contents(tuple(elements), notes=tuple(notes), facts=facts)

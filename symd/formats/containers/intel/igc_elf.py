"""The ELF image with which IGC describes one kernel: as it is in the debug container (machine 182, one .text), or
as the compiler dumps it when asked (machine 62, .text.KERNEL; relocatable, and no x86 code at all).

A dump is told from x86 code by the attributes that its abbreviation tables (DWARF 5, 7.5.3) declare.

Source: IGC's dumps and containers, compiler versions 1.0.12504 and 2.40.
"""

from __future__ import annotations

from collections.abc import Iterator

from symd.errors import Malformed, SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.intel import FUNCTIONS_ONLY
from symd.formats.elf.constants import ELFCLASS64, ELFDATA2LSB, EM_INTEL182, EM_X86_64, ET_REL
from symd.formats.elf.contents import debug_scheme
from symd.model.code import CodeObject, Kernel, RelocationScheme, Vendor

DW_FORM_IMPLICIT_CONST = 0x21
_MAX_NUMBERS = 1 << 14
"""Numbers read: the compiler's whole table has a few hundred."""


def declares(table: bytes, attribute: int) -> bool:
    """Whether one of the first abbreviations has the attribute. A table that contradicts itself has none."""
    numbers = _numbers(table)
    try:
        while next(numbers):  # 0 ends the table of one unit: the first says which compiler wrote it
            next(numbers), next(numbers)  # the tag, and whether there are children
            while pair := (next(numbers), next(numbers)):
                if pair == (0, 0):
                    break
                if pair[0] == attribute:
                    return True
                if pair[1] == DW_FORM_IMPLICIT_CONST:
                    next(numbers)
    except StopIteration:
        return False
    return False


def _numbers(table: bytes) -> Iterator[int]:
    """The ULEB128 numbers of the table: codes, tags, attributes and forms. The children byte is 0 or 1, a number
    too."""
    value = shift = count = 0
    for byte in table:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
            count += 1
        if count > _MAX_NUMBERS or shift > 63:
            return


NAME = "igc-elf"
DW_AT_INTEL_SIMD_WIDTH = 0x2400
"""An attribute of the unit that only Intel's GPU compiler writes."""


def claims(data: bytes) -> bool:
    """Machine 182; or a relocatable "x86-64" ELF with a section .text.KERNEL, none called .text, and abbreviations that
    declare Intel's SIMD width."""
    kind = elf.kind(data)
    if kind is None or data[4:6] != bytes((ELFCLASS64, ELFDATA2LSB)):
        return False
    return kind.machine == EM_INTEL182 or (kind == (ET_REL, EM_X86_64) and _is_dump(data))


def _is_dump(data: bytes) -> bool:
    """A host's objects have sections .text.FUNCTION too, and any two bytes somewhere."""
    try:
        header = elf.parse_header(data)
        headers = elf.section_headers(data, header)
        by_name = dict(zip(elf.section_names(data, header, headers), headers, strict=True))
    except SymdError:
        return False
    abbreviations = by_name.get(".debug_abbrev")
    if abbreviations is None or ".text" in by_name or not any(name.startswith(".text.") for name in by_name):
        return False
    table = data[abbreviations.offset : abbreviations.offset + abbreviations.size]
    return declares(table, DW_AT_INTEL_SIMD_WIDTH)


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
        path=element.path,
        bias=element.bias,
        stored=element.stored,
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

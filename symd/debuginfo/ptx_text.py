"""The PTX that an image carries, and what it tells of the compiler that wrote it."""

from __future__ import annotations

from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.layout import LinearLayout
from symd.debuginfo.relocation import PTX_LINES, cuda
from symd.model.code import CodeObject, Section

TEXT = ".nv_debug_ptx_txt"
_BEGIN_OF_LLVM, _UNITS = b"func_begin0:\0", b"\0.section\t.debug_info"


def is_of_llvm(code: CodeObject) -> bool:
    """Whether the PTX of an image without units, or some of it, was written by LLVM's own back end, as clang's and
    Triton's is: where NVIDIA's compilers write lines alone no label is where a function begins."""
    return any(_BEGIN_OF_LLVM in each.data for each in sections(code))


def has_units(code: CodeObject) -> bool:
    """Whether all PTX of an image had ``.debug_info``, as LLVM writes it with inlined calls (Triton); it writes none of
    these where it is to write lines alone (clang's ``-gline-tables-only``)."""
    return all(_UNITS in each.data for each in sections(code))


def sections(code: CodeObject) -> list[Section]:
    """The sections of an image that hold its PTX."""
    return [each for each in code.sections if each.name == TEXT or each.name.startswith(f"{TEXT}.")]


def line_sections(code: CodeObject, layout: LinearLayout) -> DebugSections | None:
    """What the line tables are read from that lead from machine code to lines of PTX; None where an image has none.
    Raises Malformed, Unsupported."""
    if code.section(PTX_LINES) is None:
        return None
    found = cuda(code, layout)
    return DebugSections.of({".debug_line": found[PTX_LINES], ".debug_str": found.get(".debug_str", b"")})

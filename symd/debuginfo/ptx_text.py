"""The PTX that an image carries, and what it tells of the compiler that wrote it."""

from __future__ import annotations

from collections.abc import Sequence

from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.relocation import PTX_LINES, LinearLayout, cuda
from symd.model.code import CodeObject, Section
from symd.model.frame_text import CUTE_SYMBOL, PYTHON_SUFFIX

TEXT = ".nv_debug_ptx_txt"
_BEGIN_OF_FUNCTION, _UNITS = b"func_begin0:\0", b"\0.section\t.debug_info"
_HEAD_OF_NVIDIA = b"\0" * 8 + b".version "
"""The assembler keeps no comments, only the ends of their lines: NVIDIA's compilers begin with seven and an empty line,
LLVM with three and one."""
_VERSION = b".version "
_FIRST_WITH_CALLS = 7, 2
"""The version of PTX that has ``function_name`` and ``inlined_at`` of ``.loc`` (PTX ISA, 11.5.2)."""


def is_of_llvm(code: CodeObject) -> bool:
    """Whether the PTX of an image without units, or some of it, was written by LLVM's own back end, as clang's and
    Triton's is: it puts a label where a function begins. Of NVIDIA's compilers that of toolkit 11.2 does so too."""
    return any(_BEGIN_OF_FUNCTION in each.data and not each.data.startswith(_HEAD_OF_NVIDIA) for each in sections(code))


def leaves_out_calls(code: CodeObject, files: Sequence[str]) -> bool:
    """Whether an image without units, whose lines are in these files, may say nothing of calls that were inlined: some
    of its PTX is of a version that cannot, or of LLVM without ``.debug_info``, or it is of CuTe DSL, which never does.
    LLVM writes units with inlined calls (Triton), and neither where it is to write lines alone (clang's
    ``-gline-tables-only``)."""
    texts = sections(code)
    if _is_of_cute(code, files):
        return True
    if any(_is_without_calls(each.data) for each in texts):
        return True
    return is_of_llvm(code) and not all(_UNITS in each.data for each in texts)


def _is_of_cute(code: CodeObject, files: Sequence[str]) -> bool:
    """Whether an image was compiled from Python by CuTe DSL, by the names that it gives to kernels unless told
    otherwise."""
    of_python = any(file.endswith(PYTHON_SUFFIX) for file in files)
    return of_python and any(CUTE_SYMBOL in each.name for each in code.functions)


def _is_without_calls(text: bytes) -> bool:
    """Whether a text is of a version of PTX in which nothing can be said of inlined calls; not where it has none."""
    at = text.find(_VERSION, 0, 256)
    number = text[at + len(_VERSION) : at + 32].split(b"\0", 1)[0].strip().split(b".")
    is_number = at >= 0 and len(number) == 2 and number[0].isdigit() and number[1].isdigit()
    return is_number and (int(number[0]), int(number[1])) < _FIRST_WITH_CALLS


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

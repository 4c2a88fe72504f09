"""What a file is that no reader reads: the kinds of code that people take for modules, by their first bytes."""

from __future__ import annotations

import re

_MAGICS: tuple[tuple[bytes, str, str], ...] = (
    (b"BC\xc0\xde", "LLVM bitcode", "it has no machine code yet: compile it for its device"),
    (b"\xde\xc0\x17\x0b", "LLVM bitcode in a wrapper", "it has no machine code yet: compile it for its device"),
    (b"\xed\x43\x4e\x7f", "NVIDIA's LTO-IR", "it has no machine code yet: nvlink makes a cubin of it"),
    (b"MTLB", "a Metal library", "Apple's devices are not read"),
    (b"DXBC", "a DirectX shader (DXBC or DXIL)", "Direct3D shaders are not read; dxc -spirv makes SPIR-V"),
    (b"\x1f\x8b", "a gzip file", "unpack it first"),
    (b"PK\x03\x04", "a zip file, such as a Python wheel", "unpack it first: the libraries inside are read"),
    (
        b"MZ",
        "a Windows program",
        "Windows programs are not read; their fat binaries are, once they are files of their own",
    ),
    (b"\xcf\xfa\xed\xfe", "a Mach-O file", "Apple's programs are not read"),
)
_LOOKED_AT = 1 << 16
"""Bytes of a text that are looked at."""
_PTX = re.compile(rb"\.version[ \t]+[0-9]+\.[0-9]+\s(?:.*\n)*?[ \t]*\.target[ \t]+sm_")
_COMMENT = re.compile(rb"\s*//[^\n]*\n|\s*/\*.*?\*/|\s+", re.DOTALL)


def recognised(data: bytes) -> tuple[str, str] | None:
    """(what it is, what to do about it); None for what nobody recognises."""
    for magic, name, advice in _MAGICS:
        if data[: len(magic)] == magic:
            return name, advice
    if is_ptx(data):
        return "PTX text", "it has no machine code yet: ptxas makes a cubin of it"
    return None


def is_ptx(data: bytes) -> bool:
    """Whether directives for a version and a target of PTX come first, after comments."""
    text, at = data[:_LOOKED_AT], 0
    while found := _COMMENT.match(text, at):
        at = found.end()
    return _PTX.match(text, at) is not None

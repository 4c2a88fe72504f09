"""Files that symd knows and does not read: the kinds of code that people take for modules, told by their first
bytes.
"""

from __future__ import annotations

import codecs
import re

from symd.formats.containers.archive import DEBIAN

_ZIP = b"PK\x03\x04"
_MAGICS: tuple[tuple[bytes, str, str], ...] = (
    (b"BC\xc0\xde", "LLVM bitcode", "it has no machine code yet: compile it for its device"),
    (b"\xde\xc0\x17\x0b", "LLVM bitcode in a wrapper", "it has no machine code yet: compile it for its device"),
    (b"\xed\x43\x4e\x7f", "NVIDIA's LTO-IR", "it has no machine code yet: nvlink makes a cubin of it"),
    (b"\x7fTileIR\0", "CUDA Tile IR", "it has no machine code yet: tileiras makes a cubin of it"),
    (DEBIAN, "a Debian package", "unpack it first: dpkg -x PACKAGE.deb FOLDER"),
    (b"\xed\xab\xee\xdb", "an RPM package", "unpack it first: rpm2cpio PACKAGE.rpm | cpio -idm"),
    (b"MTLB", "a Metal library", "Apple's devices are not read"),
    (b"DXBC", "a DirectX shader (DXBC or DXIL)", "Direct3D shaders are not read; dxc -spirv makes SPIR-V"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first"),
    (_ZIP, "a zip file, such as a Python wheel", "unpack it first: the libraries inside are read"),
    (
        b"MZ",
        "a Windows program",
        "Windows programs are not read; their fat binaries are, once they are files of their own",
    ),
    (b"\xcf\xfa\xed\xfe", "a Mach-O file", "Apple's programs are not read"),
    (
        b"Microsoft C/C++ MSF 7.00",
        "a program database (PDB)",
        "it is about a Windows program; GPU code carries its debug data itself",
    ),
)
_TAR, _TAR_AT = b"ustar", 257
_IREE, _IREE_AT = b"module.fb", 30
"""The first member of the zip file that IREE's compiler makes."""
_LOOKED_AT = 1 << 16
"""Bytes of a text that are looked at."""
_LONG_LINE = 64
"""Bytes from which a text may be one line: what writes arrays of bytes breaks none."""
_PTX = re.compile(rb"\.version[ \t]+[0-9]+\.[0-9]+\s(?:.*\n)*?[ \t]*\.target[ \t]+sm_")
_LLVM_IR = re.compile(rb"^(?:target triple = \"|source_filename = \"|define [^\n]*\{$)", re.MULTILINE)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_COMMENT = re.compile(rb"\s*//[^\n]*\n|\s*/\*.*?\*/|\s+", re.DOTALL)


def recognized(data: bytes) -> tuple[str, str] | None:
    """(what it is, what to do about it); None for what nobody recognizes."""
    if data[:4] == _ZIP and data[_IREE_AT : _IREE_AT + len(_IREE)] == _IREE:
        return (
            "an IREE module (.vmfb)",
            "its code is read where iree-compile writes it: --iree-hal-dump-executable-binaries-to=FOLDER",
        )
    known = next(((name, advice) for magic, name, advice in _MAGICS if data[: len(magic)] == magic), None)
    if known is not None:
        return known
    if data[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return "a tar archive", "unpack it first"
    if is_ptx(data):
        return "PTX text", "it has no machine code yet: ptxas makes a cubin of it"
    return _kind_of_text(data) if is_text(data) else None


def _kind_of_text(data: bytes) -> tuple[str, str]:
    if _LLVM_IR.search(data[:_LOOKED_AT]):
        return "LLVM IR", "it has no machine code yet: compile it for its device"
    return "a text file", "source is compiled first, with -g; a profile or a log is not a module"


def is_text(data: bytes) -> bool:
    """Whether these are lines of UTF-8, or a long one, as far as they are looked at: no control characters but those
    that lay out text."""
    beginning = data[:_LOOKED_AT]
    if (b"\n" not in beginning and len(beginning) < _LONG_LINE) or _CONTROL.search(beginning):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning, final=len(data) <= _LOOKED_AT)
    except UnicodeDecodeError:
        return False
    return True


def is_ptx(data: bytes) -> bool:
    """Whether directives for a version and a target of PTX come first, after comments."""
    text, at = data[:_LOOKED_AT], 0
    while found := _COMMENT.match(text, at):
        at = found.end()
    return _PTX.match(text, at) is not None

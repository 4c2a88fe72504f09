"""Slang's compiler through the C interface of its library: compute shaders as SPIR-V, with three amounts of debug data."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

PACKAGES, OUT = Path(sys.argv[1]), Path(sys.argv[2])
SOURCE = Path(__file__).with_name("waves.slang")
KINDS = {"g1": ["-g1"], "g2": ["-g2", "-O0"], "g3": ["-g3", "-O2"]}
ENTRIES = ("rise", "fall")


def main() -> None:
    library = ctypes.CDLL(str(library_path()))
    for name, arguments in (
        ("spCreateSession", [ctypes.c_char_p]),
        ("spCreateCompileRequest", [ctypes.c_void_p]),
        ("spGetDiagnosticOutput", [ctypes.c_void_p]),
        ("spGetCompileRequestCode", [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_void_p
    for kind, options in KINDS.items():
        for entry in ENTRIES:
            code = compiled(library, ["-entry", entry, "-stage", "compute", *options])
            (OUT / f"waves.{entry}.{kind}.spv").write_bytes(code)


def library_path() -> Path:
    for pattern in ("libslang-compiler.so*", "libslang.so*"):
        found = sorted(PACKAGES.rglob(pattern))
        if found:
            return found[0]
    raise SystemExit("no library of Slang in the packages")


def compiled(library: ctypes.CDLL, options: list[str]) -> bytes:
    request = ctypes.c_void_p(library.spCreateCompileRequest(library.spCreateSession(None)))
    words = [str(SOURCE), "-target", "spirv", "-emit-spirv-directly", "-fvk-use-entrypoint-name", *options]
    argv = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    code = library.spProcessCommandLineArguments(request, argv, len(words)) or library.spCompile(request)
    if code:
        raise SystemExit(ctypes.string_at(library.spGetDiagnosticOutput(request)).decode())
    size = ctypes.c_size_t()
    data = library.spGetCompileRequestCode(request, ctypes.byref(size))
    return ctypes.string_at(data, size.value)


main()

"""NVRTC through ctypes: CUDA C++ compiled to cubins with `-lineinfo` and with `-G`, for three architectures."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

PACKAGES, OUT = Path(sys.argv[1]), Path(sys.argv[2])
SOURCE = Path(__file__).with_name("filters.cu")
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
KINDS = {"lineinfo": b"-lineinfo", "debug": b"-G"}


def main() -> None:
    library = ctypes.CDLL(str(next(PACKAGES.rglob("libnvrtc.so.1[0-9]"))))
    for architecture in ARCHITECTURES:
        for kind, option in KINDS.items():
            cubin = compiled(library, [f"-arch={architecture}".encode(), option])
            (OUT / f"filters.{architecture}.{kind}.cubin").write_bytes(cubin)


def compiled(library: ctypes.CDLL, options: list[bytes]) -> bytes:
    program = ctypes.c_void_p()
    name = SOURCE.name.encode()
    check(library.nvrtcCreateProgram(ctypes.byref(program), SOURCE.read_bytes(), name, 0, None, None))
    words = (ctypes.c_char_p * len(options))(*options)
    code = library.nvrtcCompileProgram(program, len(options), words)
    if code:
        raise SystemExit(f"{options}: {said(library, program)}")
    size = ctypes.c_size_t()
    check(library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    cubin = ctypes.create_string_buffer(size.value)
    check(library.nvrtcGetCUBIN(program, cubin))
    return cubin.raw


def said(library: ctypes.CDLL, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    check(library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
    log = ctypes.create_string_buffer(size.value)
    check(library.nvrtcGetProgramLog(program, log))
    return log.value.decode()


def check(code: int) -> None:
    if code:
        raise SystemExit(f"NVRTC: error {code}")


main()

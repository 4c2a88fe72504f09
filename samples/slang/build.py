"""Build the sample of Slang: ``python samples/slang/build.py LIBRARY``, where LIBRARY is libslang-compiler.so of slangpy 0.43.1 (PyPI). The work is done below /src, because
the module names its source. ``manifest.json`` records how it was made."""

from __future__ import annotations

import ctypes
import hashlib
import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
WORK = Path("/src/slang-samples")
OPTIONS = "-target spirv -emit-spirv-directly -fvk-use-entrypoint-name -entry fall -stage compute -g1"


def main(library: str) -> None:
    WORK.mkdir(parents=True)
    try:
        source = Path(shutil.copy(HERE / "eased.slang", WORK))
        data = compiled(ctypes.CDLL(library), [str(source), *OPTIONS.split()])
    finally:
        shutil.rmtree(WORK)
    (HERE / "bin" / "eased.g1.spv").write_bytes(data)
    entry = {"command": f"slangc {source} {OPTIONS}", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (HERE / "manifest.json").write_text(json.dumps({"eased.g1.spv": entry}, indent=1) + "\n")


def compiled(slang: ctypes.CDLL, words: list[str]) -> bytes:
    """What Slang makes of a command line. Raises SystemExit with what it says where it makes nothing."""
    for name in ("spCreateSession", "spCreateCompileRequest", "spGetDiagnosticOutput", "spGetCompileRequestCode"):
        getattr(slang, name).restype = ctypes.c_void_p
    request = ctypes.c_void_p(slang.spCreateCompileRequest(ctypes.c_void_p(slang.spCreateSession(None))))
    given = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    if slang.spProcessCommandLineArguments(request, given, len(words)) or slang.spCompile(request):
        raise SystemExit(ctypes.string_at(slang.spGetDiagnosticOutput(request)).decode())
    size = ctypes.c_size_t()
    return ctypes.string_at(slang.spGetCompileRequestCode(request, ctypes.byref(size)), size.value)


if __name__ == "__main__":
    main(sys.argv[1])

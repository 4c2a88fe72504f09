"""Build the CUDA samples: every cubin, fat binary, host object and host program of MANIFEST, from the sources here.

Run from anywhere: ``python samples/cuda/build.py``. Needs nvcc 13.0 on PATH. The other assemblers are found through
environment variables SYMD_PTXAS_12_0, SYMD_PTXAS_12_4, ... (programs called ptxas, for instance those that the PyPI wheels of
triton carry); samples whose assembler is not here are left as they are. The work is done in a neutral folder, because
compilers write the current directory into line tables. ``manifest.json`` records how each file was made.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BINARIES = HERE / "bin"
WORK = Path("/tmp/symd-cuda")  # noqa: S108 - fixed, because line tables name it

LINES = "-lineinfo"
CUBINS: dict[str, tuple[str, ...]] = {
    # name: nvcc arguments
    "saxpy.sm_90.none": ("saxpy.cu", "-arch=sm_90"),
    "saxpy.sm_75.lines": ("saxpy.cu", "-arch=sm_75", LINES),
    "saxpy.sm_100.debug": ("saxpy.cu", "-arch=sm_100", "-G"),
    "tonemap.sm_75.lines": ("tonemap.cu", "-arch=sm_75", LINES),
    "tonemap.sm_80.lines": ("tonemap.cu", "-arch=sm_80", LINES),
    "tonemap.sm_90a.lines": ("tonemap.cu", "-arch=sm_90a", LINES),
    "tonemap.sm_100.lines": ("tonemap.cu", "-arch=sm_100", LINES),
    "tonemap.sm_100a.lines": ("tonemap.cu", "-arch=sm_100a", LINES),
    "tonemap.sm_80.debug": ("tonemap.cu", "-arch=sm_80", "-G"),
    "raycast.sm_75.lines": ("raycast.cu", "-arch=sm_75", LINES),
    "raycast.sm_90.lines": ("raycast.cu", "-arch=sm_90", LINES),
    "raycast.sm_100.lines": ("raycast.cu", "-arch=sm_100", LINES),
    "raycast.sm_90.debug": ("raycast.cu", "-arch=sm_90", "-G"),
    "reduce.sm_80.lines": ("reduce.cu", "-arch=sm_80", LINES),
    "reduce.sm_100.lines": ("reduce.cu", "-arch=sm_100", LINES),
    "reduce.sm_90.debug": ("reduce.cu", "-arch=sm_90", "-G"),
    "linked_kernel.sm_80.dc": ("linked_kernel.cu", "-arch=sm_80", "-dc", LINES),
    "linked_callee.sm_80.dc": ("linked_callee.cu", "-arch=sm_80", "-dc", LINES),
    "linked_kernel.sm_100.dc": ("linked_kernel.cu", "-arch=sm_100", "-dc", LINES),
    "linked_callee.sm_100.dc": ("linked_callee.cu", "-arch=sm_100", "-dc", LINES),
    "linked_kernel.sm_90.debug-dc": ("linked_kernel.cu", "-arch=sm_90", "-dc", "-G"),
    "linked_callee.sm_90.debug-dc": ("linked_callee.cu", "-arch=sm_90", "-dc", "-G"),
    "tables.sm_90.dc": ("tables.cu", "-arch=sm_90", "-dc", LINES),
    "tables.sm_80.debug-dc": ("tables.cu", "-arch=sm_80", "-dc", "-G"),
}
LINKED: dict[str, tuple[str, ...]] = {
    # name: nvlink arguments
    "linked.sm_80.lines": ("-arch=sm_80", "linked_kernel.sm_80.dc.cubin", "linked_callee.sm_80.dc.cubin"),
    "linked.sm_100.lines": ("-arch=sm_100", "linked_kernel.sm_100.dc.cubin", "linked_callee.sm_100.dc.cubin"),
    "linked.sm_90.debug": ("-arch=sm_90", "linked_kernel.sm_90.debug-dc.cubin", "linked_callee.sm_90.debug-dc.cubin"),
}
ASSEMBLED: dict[str, tuple[str, str, str]] = {
    # name: assembler version, PTX source, architecture (the PTX is nvcc 13.0's with its version line set back)
    "tonemap.sm_75.ptxas-12.0": ("12.0", "tonemap.cu", "sm_75"),
    "tonemap.sm_80.ptxas-12.0": ("12.0", "tonemap.cu", "sm_80"),
    "raycast.sm_80.ptxas-12.4": ("12.4", "raycast.cu", "sm_80"),
    "raycast.sm_90.ptxas-12.4": ("12.4", "raycast.cu", "sm_90"),
    "raycast.sm_100.ptxas-12.8": ("12.8", "raycast.cu", "sm_100"),
    "raycast.sm_90.ptxas-12.9": ("12.9", "raycast.cu", "sm_90"),
    "tonemap.sm_100.ptxas-13.4": ("13.4", "tonemap.cu", "sm_100"),
    "reduce.sm_90.ptxas-13.4": ("13.4", "reduce.cu", "sm_90"),
}
PTX_VERSION = {"12.0": "8.0", "12.4": "8.4", "12.8": "8.7", "12.9": "8.8", "13.4": "9.0"}
PTX_BASE = {"sm_75": "compute_75", "sm_80": "compute_80", "sm_90": "compute_90", "sm_100": "compute_100"}

TWO = ("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90a,code=sm_90a")
PTX = ("-gencode", "arch=compute_90,code=compute_90")
LTO = ("-gencode", "arch=compute_90,code=lto_90")
FATBINS: dict[str, tuple[str, ...]] = {
    "tonemap.none.fatbin": ("tonemap.cu", "-fatbin", LINES, *TWO, *PTX, "-Xfatbin", "--compress-mode=none"),
    "tonemap.lz4.fatbin": (
        "tonemap.cu",
        "-fatbin",
        LINES,
        *TWO,
        *PTX,
        "-Xfatbin",
        "--compress-mode=speed",
        "-Xfatbin",
        "--compress-all",
    ),
    "tonemap.zstd.fatbin": (
        "tonemap.cu",
        "-fatbin",
        LINES,
        *TWO,
        *PTX,
        "-Xfatbin",
        "--compress-mode=size",
        "-Xfatbin",
        "--compress-all",
    ),
    "tonemap.default.fatbin": ("tonemap.cu", "-fatbin", LINES, *TWO, *PTX),
    "saxpy.debug.fatbin": ("saxpy.cu", "-fatbin", "-G", "-gencode", "arch=compute_100,code=sm_100"),
    "saxpy.lto.fatbin": ("saxpy.cu", "-fatbin", *LTO),
    "saxpy.ptx.fatbin": ("saxpy.cu", "-fatbin", *PTX),
}
HOST: dict[str, tuple[str, ...]] = {
    "program.o": ("program.cu", "-c", LINES, *TWO, *PTX),
    "program.rdc.o": ("linked_kernel.cu", "-dc", LINES, "-gencode", "arch=compute_80,code=sm_80"),
    "program": ("program.cu", "-cudart", "shared", LINES, "-gencode", "arch=compute_80,code=sm_80", "-Xlinker", "-s"),
    "program.rdc": (
        "program.cu", "linked_kernel.cu", "linked_callee.cu", "-rdc=true", "-DLINKED", "-cudart", "shared", LINES,
        "-gencode", "arch=compute_80,code=sm_80", "-Xlinker", "-s",
    ),
}  # fmt: skip


def main() -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(HERE, WORK, ignore=shutil.ignore_patterns("bin", "manifest.json"))
    BINARIES.mkdir(exist_ok=True)
    manifest: dict[str, dict[str, object]] = _old_manifest()
    for name, command in _commands():
        if command is None:
            print(f"{name}: left as it is, its assembler is not here")
            continue
        for line in command:
            _run(line)
        produced = (WORK / name).read_bytes()
        (BINARIES / name).write_bytes(produced)
        manifest[name] = {
            "commands": [_named(line) for line in command],
            "size": len(produced),
            "sha256": hashlib.sha256(produced).hexdigest(),
        }
    (HERE / "manifest.json").write_text(json.dumps(dict(sorted(manifest.items())), indent=1) + "\n")
    return 0


def _old_manifest() -> dict[str, dict[str, object]]:
    path = HERE / "manifest.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _commands() -> list[tuple[str, list[list[str]] | None]]:
    result: list[tuple[str, list[list[str]] | None]] = []
    for name, arguments in CUBINS.items():
        result.append((f"{name}.cubin", [["nvcc", "-Iinclude", "-cubin", *arguments, "-o", f"{name}.cubin"]]))
    for name, arguments in LINKED.items():
        result.append((f"{name}.cubin", [["nvlink", *arguments, "-o", f"{name}.cubin"]]))
    for name, (version, source, target) in ASSEMBLED.items():
        result.append((f"{name}.cubin", _assembled(name, version, source, target)))
    for name, arguments in {**FATBINS, **HOST}.items():
        result.append((name, [["nvcc", "-Iinclude", *arguments, "-o", name]]))
    return result


def _assembled(name: str, version: str, source: str, target: str) -> list[list[str]] | None:
    ptxas = os.environ.get(f"SYMD_PTXAS_{version.replace('.', '_')}")
    if not ptxas:
        return None
    text = f"{name}.ptx"
    back = f"s/^.version .*/.version {PTX_VERSION[version]}/"
    return [
        ["nvcc", "-Iinclude", "-ptx", LINES, f"-arch={PTX_BASE[target]}", source, "-o", text],
        ["sed", "-i", back, text],
        [ptxas, "-lineinfo", f"-arch={target}", text, "-o", f"{name}.cubin"],
    ]


def _named(line: list[str]) -> str:
    """The command as it is recorded: an assembler by its version, not by the place it lies in."""
    versions = {path: key for key in PTX_VERSION if (path := os.environ.get(f"SYMD_PTXAS_{key.replace('.', '_')}"))}
    first = f"ptxas-{versions[line[0]]}" if line[0] in versions else line[0]
    return " ".join([first, *line[1:]])


def _run(line: list[str]) -> None:
    done = subprocess.run(line, cwd=WORK, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(line)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())

"""Build the CUDA samples: every cubin, fat binary, host object and host program of MANIFEST, and the PTX that cubins are made of, from the sources here.

Run from anywhere: ``python samples/cuda/build.py [NAME...]``. Needs nvcc 13.0 on PATH. The other assemblers are found through
environment variables SYMD_PTXAS_12_0, SYMD_PTXAS_12_4, ... (programs called ptxas, for instance those that the PyPI wheels of
triton carry), the nvcc of toolkit 13.5 through SYMD_NVCC_13_5, and the device compiler of toolkit 11.8 through SYMD_CICC_11_8 (Debian's nvidia-cuda-toolkit has it and its ptxas),
the folder of a toolkit 12.4 for clang through SYMD_CUDA_12_4 (its bin also on PATH). Samples whose compiler or assembler is not
here are left as they are. The work is done in a neutral folder, because
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
    "tonemap.sm_90.ewp": ("tonemap.cu", "-arch=sm_90", "-ewp", LINES),
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
NARROW: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    # name: architecture, arguments of cicc and of ptxas (toolkit 11.8, 32-bit addresses)
    "norms.sm_60.lines": ("60", ("-generate-line-info",), (LINES,)),
    "norms.sm_75.lines": ("75", ("-generate-line-info",), (LINES,)),
    "norms.sm_75.dc": ("75", ("-generate-line-info",), ("-c", LINES)),
    "norms.sm_75.debug": ("75", ("-g", "-O0"), ("-g",)),
    "norms.sm_75.debug-dc": ("75", ("-g", "-O0"), ("-c", "-g")),
}
CICC = ("--c++14", "--gnu_version=100000", "-m32", "--orig_src_file_name", "norms.cu", "--include_file_name", "norms.h",
        "--gen_c_file_name", "norms.c", "--stub_file_name", "norms.stub.c", "--gen_device_file_name", "norms.gpu")  # fmt: skip
CLANG = (
    "-x", "cuda", "-nocudainc", "-nocudalib", "-Iinclude", "-O2", "-gline-tables-only", "-fPIC",
    "--offload-arch=sm_75", "--offload-arch=sm_80", "-c", "wrapped.cu",
)  # fmt: skip
WRAPPED: dict[str, tuple[str, tuple[str, ...]]] = {
    # name: clang's version and arguments (with ptxas and fatbinary of toolkit 12.4)
    "clang/fatbin-14.o": ("14", CLANG),
    "clang/fatbin-22.o": ("22", ("--no-offload-new-driver", *CLANG)),
    "clang/module-22.o": ("22", ("--no-offload-new-driver", "-fgpu-rdc", *CLANG)),
    "clang/offloading-22.o": ("22", ("--offload-new-driver", "-fgpu-rdc", *CLANG)),
    "clang/linked-22.so": ("22", ("--offload-link", "-shared", "-nostdlib", "-s", "clang/offloading-22.o")),
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
FIVE = tuple(
    word for sm in ("75", "80", "90a", "100", "103") for word in ("-gencode", f"arch=compute_{sm},code=sm_{sm}")
)
CONCATENATED: dict[str, tuple[str, ...]] = {
    # name: arguments of nvcc 13.5
    "tonemap.concat-zstd.fatbin": ("tonemap.cu", "-fatbin", LINES, *FIVE, *PTX, "-concat"),
    "tonemap.concat-lz4.fatbin": ("tonemap.cu", "-fatbin", LINES, *FIVE, *PTX, "-concat", "-compress-mode", "speed"),
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
PTX_TEXTS = ("linked_callee", "linked_kernel", "program", "raycast", "reduce", "saxpy", "tables", "tonemap")


def main() -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(HERE, WORK, ignore=shutil.ignore_patterns("bin", "manifest.json"))
    for folder in (BINARIES, WORK):
        for name in ("32-bit", "clang"):
            (folder / name).mkdir(parents=True, exist_ok=True)
    (WORK / "ptx").mkdir(exist_ok=True)
    manifest: dict[str, dict[str, object]] = _old_manifest()
    for name, command in _commands():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        if command is None:
            print(f"{name}: left as it is, its assembler is not here")
            continue
        for line in command:
            _run(line)
        produced = (WORK / name).read_bytes()
        ((HERE if name.endswith(".ptx") else BINARIES) / name).write_bytes(produced)
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
    for source in PTX_TEXTS:
        separate = ("-rdc=true",) if source.startswith(("linked", "tables")) else ()
        arguments = ("-ptx", *separate, LINES, "-arch=compute_80", f"{source}.cu")
        result.append((f"ptx/{source}.ptx", [["nvcc", "-Iinclude", *arguments, "-o", f"ptx/{source}.ptx"]]))
    for name, arguments in LINKED.items():
        result.append((f"{name}.cubin", [["nvlink", *arguments, "-o", f"{name}.cubin"]]))
    for name, (version, source, target) in ASSEMBLED.items():
        result.append((f"{name}.cubin", _assembled(name, version, source, target)))
    for name, (number, compiling, assembling) in NARROW.items():
        result.append((f"32-bit/{name}.cubin", _narrow(name, number, compiling, assembling)))
    toolkit = os.environ.get("SYMD_CUDA_12_4")
    for name, (version, options) in WRAPPED.items():
        command = [f"clang++-{version}", f"--cuda-path={toolkit}", *options, "-o", name]
        result.append((name, [command] if toolkit else None))
    newer = os.environ.get("SYMD_NVCC_13_5")
    for name, arguments in CONCATENATED.items():
        result.append((name, [[newer, "-Iinclude", *arguments, "-o", name]] if newer else None))
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


def _narrow(name: str, number: str, compiling: tuple[str, ...], assembling: tuple[str, ...]) -> list[list[str]] | None:
    cicc, ptxas = os.environ.get("SYMD_CICC_11_8"), os.environ.get("SYMD_PTXAS_11_8")
    if not cicc or not ptxas:
        return None
    text = f"{name}.ptx"
    return [
        ["gcc", "-E", "-x", "c++", "norms.cu", "-o", "norms.i"],
        [cicc, *CICC, "-arch", f"compute_{number}", *compiling, "norms.i", "-o", text],
        [ptxas, "-m32", "-arch", f"sm_{number}", *assembling, text, "-o", f"32-bit/{name}.cubin"],
    ]


def _named(line: list[str]) -> str:
    """The command as it is recorded: a tool by its version, not by the place it lies in."""
    known = {f"ptxas-{key}": f"SYMD_PTXAS_{key.replace('.', '_')}" for key in (*PTX_VERSION, "11.8")}
    others = {"cicc-11.8": "SYMD_CICC_11_8", "nvcc-13.5": "SYMD_NVCC_13_5"}
    places = {os.environ.get(variable): name for name, variable in (known | others).items()}
    here = f"--cuda-path={os.environ.get('SYMD_CUDA_12_4')}"
    return " ".join(
        [places.get(line[0], line[0]), *("--cuda-path=cuda-12.4" if word == here else word for word in line[1:])]
    )


def _run(line: list[str]) -> None:
    done = subprocess.run(line, cwd=WORK, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(line)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())

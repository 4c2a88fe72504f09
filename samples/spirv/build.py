#!/usr/bin/env python3
"""Makes every module under ``bin/`` from the sources beside this file, and ``manifest.json`` that says how each was made.

``build.py`` writes them; ``build.py --check`` makes them again and reports what differs from what is here. Needs clang-14,
llvm-spirv-14, glslangValidator and spirv-as. The compilers run in one fixed folder, because they write it into the modules.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = HERE / "bin"
WORK = Path("/tmp/symd-kernels/spirv")  # noqa: S108 - the name is written into every module, so it may not be random

CLANG = "clang-14 -cl-std={std} -target spir64-unknown-unknown -include opencl-c.h -Dcl_intel_subgroups=1"
OPENCL = {
    # name: (source, clang options, translator options)
    "inline.O0.ocl-100": ("inline.cl", "-g -O0", "--spirv-debug-info-version=ocl-100"),
    "inline.O2.ocl-100": ("inline.cl", "-g -O2", "--spirv-debug-info-version=ocl-100"),
    "inline.O2.legacy": ("inline.cl", "-g -O2", "--spirv-debug-info-version=legacy"),
    "inline.O2.none": ("inline.cl", "-O2", ""),
    "inline.O2.line-tables": ("inline.cl", "-gline-tables-only -O2", "--spirv-debug-info-version=ocl-100"),
    "arguments.O0.legacy": ("arguments.cl", "-g -O0", "--spirv-debug-info-version=legacy"),
    "arguments.O2.ocl-100": ("arguments.cl", "-g -O2", "--spirv-debug-info-version=ocl-100"),
    "atomics.O0.ocl-100": ("atomics.cl", "-g -O0", "--spirv-debug-info-version=ocl-100"),
    "atomics.O2.legacy": ("atomics.cl", "-g -O2", "--spirv-debug-info-version=legacy"),
    "methods.O0.ocl-100": ("methods.clcpp", "-g -O0", "--spirv-debug-info-version=ocl-100"),
    "methods.O2.ocl-100": ("methods.clcpp", "-g -O2", "--spirv-debug-info-version=ocl-100"),
    "subgroups.O2.ocl-100": (
        "subgroups.cl",
        "-g -O2",
        "--spirv-debug-info-version=ocl-100 --spirv-ext=+SPV_INTEL_subgroups",
    ),
}
OTHERS = {
    "waves.g": ("waves.comp", "glslangValidator -g --target-env vulkan1.2 {source} -o {output}"),
    "waves.gV": ("waves.comp", "glslangValidator -gV --target-env vulkan1.2 {source} -o {output}"),
    "waves.gVS": ("waves.comp", "glslangValidator -gVS --target-env vulkan1.2 {source} -o {output}"),
    "outranked": ("outranked.spvasm", "spirv-as --target-env spv1.5 {source} -o {output}"),
}
KEPT = {
    "blend.dpcpp": (
        "blend.sycl.cpp",
        [
            "pip download intel-sycl-rt==2026.2.0, unpacked with what it depends on and Debian's libhwloc15 below dpcpp/",
            "g++ -std=c++17 -I dpcpp/include kernel_compiler.cpp -o kernel_compiler -L dpcpp/lib -lsycl",
            "SYCL_DUMP_IMAGES=1 ./kernel_compiler blend.sycl.cpp -g  # on Level Zero 26.27 without hardware: dg2",
            "mv sycl_spir64.spv blend.dpcpp.spv",
        ],
    )
}
"""Modules whose compiler is not in Debian: they stay as they are, with the commands that made them."""
SWAPPED = {"waves.gVS.big-endian": "waves.gVS", "inline.O2.ocl-100.big-endian": "inline.O2.ocl-100"}
"""The same modules with the bytes of every word turned round: no compiler here writes them."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 where a module comes out differently"
    )
    check = parser.parse_args().check
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(HERE, WORK, ignore=shutil.ignore_patterns("bin", "*.json", "*.py"))
    manifest = {}
    for name, source, commands in _rules():
        for command in commands:
            subprocess.run(command.split(), cwd=WORK, check=True, stdout=subprocess.DEVNULL)
        manifest[f"{name}.spv"] = _entry(name, source, commands)
    for name, (source, commands) in KEPT.items():
        shutil.copyfile(BIN / f"{name}.spv", WORK / f"{name}.spv")
        manifest[f"{name}.spv"] = _entry(name, source, commands)
    for name, original in SWAPPED.items():
        _turn(WORK / f"{original}.spv", WORK / f"{name}.spv")
        manifest[f"{name}.spv"] = _entry(name, manifest[f"{original}.spv"]["source"], [f"byte-swapped {original}.spv"])
    return _compare(manifest) if check else _keep(manifest)


def _rules() -> list[tuple[str, str, list[str]]]:
    rules = []
    for name, (source, options, translate) in OPENCL.items():
        language = "clcpp" if source.endswith(".clcpp") else "cl"
        clang = CLANG.format(std="clc++" if language == "clcpp" else "CL2.0")
        compile_ = f"{clang} -x {language} {options} -emit-llvm -c {source} -o {name}.bc"
        rules.append((name, source, [compile_, f"llvm-spirv-14 {translate} {name}.bc -o {name}.spv"]))
    for name, (source, command) in OTHERS.items():
        rules.append((name, source, [command.format(source=source, output=f"{name}.spv")]))
    return rules


def _turn(original: Path, swapped: Path) -> None:
    data = original.read_bytes()
    swapped.write_bytes(b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4)))


def _entry(name: str, source: str, commands: list[str]) -> dict[str, object]:
    data = (WORK / f"{name}.spv").read_bytes()
    return {
        "source": source,
        "commands": commands,
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _keep(manifest: dict[str, dict[str, object]]) -> int:
    BIN.mkdir(exist_ok=True)
    for name in manifest:
        shutil.copyfile(WORK / name, BIN / name)
    (HERE / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{len(manifest)} modules, {sum((BIN / name).stat().st_size for name in manifest)} bytes")
    return 0


def _compare(manifest: dict[str, dict[str, object]]) -> int:
    kept = json.loads((HERE / "manifest.json").read_text())
    different = [name for name in sorted(manifest.keys() | kept) if manifest.get(name) != kept.get(name)]
    stored = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in BIN.glob("*.spv")}
    different += [name for name, _ in stored.items() ^ {(name, str(entry["sha256"])) for name, entry in kept.items()}]
    for name in sorted(set(different)):
        print(f"{name}: comes out differently")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

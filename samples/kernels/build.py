#!/usr/bin/env python3
"""Makes every binary under ``bin/`` from the sources beside this file, and ``manifest.json`` that says what each one is.

``build.py`` writes them; ``build.py --check`` makes them again elsewhere and reports what differs from what is here.
Compilers run in one fixed folder, so that the paths they write into debug information are the same on every machine.
Binaries that no rule here makes (``driver-*``) are left alone and keep their manifest entries.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WORK = Path("/tmp/symd-opencl")  # noqa: S108 - the name is written into every binary, so it may not be a random one
NEWER = HERE.parents[1] / ".cache" / "live-new"

DEVICES = ("skl", "tgllp", "dg2", "pvc")
NEWER_DEVICES = ("tgllp", "dg2", "pvc", "bmg")
PACKAGES = ("intel-opencl-icd", "libigc1", "clang-14", "llvm-spirv-14")

Manifest = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Source:
    """One source file and the binaries that are kept of it: an IGC debug container for each device, and the rest named here."""

    file: str
    debug: bool = True
    neo_elf: tuple[str, ...] = ()
    zebin: tuple[str, ...] = ()
    igc_elf: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    devices: tuple[str, ...] = DEVICES

    @property
    def name(self) -> str:
        return Path(self.file).stem

    @property
    def through_clang(self) -> bool:
        return self.file.endswith(".clcpp")

    def kernels(self) -> list[str]:
        return re.findall(r"^kernel void (\w+)", (HERE / self.file).read_text(), re.MULTILINE)


SOURCES = (
    Source("bodies.cl", zebin=("dg2",), newer=("dg2",)),
    Source("blur.cl", zebin=DEVICES, igc_elf=("dg2",), newer=("dg2",)),
    Source("filters.clcpp", neo_elf=("dg2",), newer=("tgllp", "dg2", "bmg")),
    Source("histogram.cl", zebin=("dg2",)),
    Source("interpret.cl", newer=("tgllp",)),
    Source("mandelbrot.cl", zebin=("skl", "dg2"), igc_elf=("dg2",), newer=("dg2", "pvc")),
    Source("matmul.cl", zebin=("pvc",), newer=("bmg",)),
    Source("nested.clcpp", devices=("dg2",)),
    Source("particles.cl", neo_elf=("skl", "dg2"), zebin=("dg2",), igc_elf=("dg2",), newer=NEWER_DEVICES),
    Source("raycast.cl", zebin=("tgllp", "dg2"), igc_elf=("dg2",), newer=("dg2", "pvc")),
    Source("reduce.cl", neo_elf=("pvc",), newer=("dg2", "bmg")),
    Source("saxpy.cl", debug=False, neo_elf=("skl", "dg2"), zebin=("skl", "dg2"), newer=("dg2",)),
    Source("series.cl", zebin=("dg2",)),
    Source("tonemap.cl", neo_elf=("tgllp",), zebin=("dg2", "pvc"), igc_elf=("dg2",), newer=("dg2",)),
    Source("vadd.cl", neo_elf=DEVICES, zebin=DEVICES, igc_elf=("dg2",), newer=NEWER_DEVICES),
    Source("walk.cl", newer=("tgllp",)),
)


@dataclass(frozen=True)
class Compiler:
    """How one generation of ocloc is started, what it calls itself and what its files are called after."""

    command: tuple[str, ...]
    version: str
    prefix: str = ""


@dataclass(frozen=True)
class Run:
    """One call of ocloc. ``keep`` says which of its outputs are wanted, in the words of the manifest."""

    source: Source
    device: str
    optimised: bool
    zebin: bool
    keep: tuple[str, ...]

    @property
    def level(self) -> str:
        """What a file name says of the build: optimised or not, and whether debug information was left out."""
        return ("opt" if self.optimised else "O0") + ("" if self.source.debug else "-nodebug")

    @property
    def options(self) -> str:
        words = ["-g"] if self.source.debug else []
        if not self.optimised:
            words.append("-cl-opt-disable")
        if not self.source.through_clang:
            words.append("-I include")
        return " ".join(words)


def older_runs(source: Source) -> Iterator[Run]:
    """The calls of the older generation, whose outputs are patch tokens unless a zebin is asked for."""
    for device in source.devices:
        for optimised in (True, False) if source.debug else (True,):
            keep = ["igc-debug"] if source.debug else []
            keep += ["neo-elf"] if device in source.neo_elf and optimised else []
            keep += ["spirv"] if device == source.devices[0] else []
            if keep:
                yield Run(source, device, optimised, zebin=False, keep=tuple(keep))
    for device in source.zebin:
        yield Run(source, device, optimised=True, zebin=True, keep=("zebin",))
    for device in source.igc_elf:
        yield Run(source, device, optimised=True, zebin=False, keep=("igc-elf",))
        yield Run(source, device, optimised=True, zebin=True, keep=("igc-elf",))
    if "dg2" in source.zebin and source.debug:
        yield Run(source, "dg2", optimised=False, zebin=True, keep=("zebin",))


def newer_runs(source: Source) -> Iterator[Run]:
    """The calls of the newer generation, whose output is always a zebin."""
    for device in source.newer:
        keep = ("zebin", "igc-elf") if device == "dg2" and source.debug else ("zebin",)
        yield Run(source, device, optimised=True, zebin=True, keep=keep)
    if "dg2" in source.newer and source.debug:
        yield Run(source, "dg2", optimised=False, zebin=True, keep=("zebin", "igc-elf"))


def execute(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Runs a compiler in WORK. ocloc repeats its command line on stdout even when asked to be quiet."""
    done = subprocess.run(
        command, cwd=WORK, env=os.environ | (environment or {}), check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def through_clang(source: Source, optimised: bool) -> str:
    """Compiles to SPIR-V with clang and the translator; the name of the file in WORK."""
    level = "-O1" if optimised else "-O0"
    clang = "clang-14 -x cl -cl-std=clc++2021 -target spir64-unknown-unknown -g -Xclang -finclude-default-header"
    execute([*clang.split(), level, "-emit-llvm", "-c", source.file, "-o", "module.bc"])
    translator = "llvm-spirv-14 --spirv-max-version=1.1 --spirv-debug-info-version=ocl-100"
    execute([*translator.split(), "module.bc", "-o", "module.spv"])
    return "module.spv"


def ocloc(compiler: Compiler, run: Run) -> Iterator[tuple[str, str, bytes]]:
    """One call of ocloc: (file name, format, bytes) for each output that is kept."""
    for folder in ("out", "dump"):
        shutil.rmtree(WORK / folder, ignore_errors=True)
    file = through_clang(run.source, run.optimised) if run.source.through_clang else run.source.file
    command = [*compiler.command, "compile", "-q", "-file", file, "-device", run.device, "-options", run.options]
    command += ["-out_dir", "out", "-output", "module", "-output_no_suffix"]
    command += ["-spirv_input"] if run.source.through_clang else []
    command += ["--format", "zebin"] if run.zebin and not compiler.prefix else []
    dumping = {"IGC_ElfDumpEnable": "1", "IGC_DumpToCustomDir": str(WORK / "dump"), "IGC_DumpUseShorterName": "0"}
    execute(command, dumping if "igc-elf" in run.keep else None)
    yield from outputs(compiler, run)


def outputs(compiler: Compiler, run: Run) -> Iterator[tuple[str, str, bytes]]:
    """What a call of ocloc left in WORK, under the names that it gets here."""
    stem = f"{compiler.prefix}{run.device}-{run.level}"
    out = WORK / "out"
    binary = out / "module" if (out / "module").exists() else out / "module.bin"
    if "igc-debug" in run.keep:
        yield f"{stem}.dbg", "igc-debug", (out / "module.dbg").read_bytes()
    if "neo-elf" in run.keep:
        yield f"{stem}.bin", "neo-elf", binary.read_bytes()
    if "zebin" in run.keep:
        yield f"{stem}.zebin", "zebin", binary.read_bytes()
    if "spirv" in run.keep:
        intermediate = WORK / "module.spv" if run.source.through_clang else out / "module.spv"
        yield f"{compiler.prefix}{run.level}.spv", "spirv", intermediate.read_bytes()
    if "igc-elf" in run.keep:
        how = "zebin" if run.zebin else "patch"
        for dumped in sorted((WORK / "dump").glob("*.elf")):
            kernel = dumped.stem.split("_simd", 1)[1].split("_", 1)[1]
            yield f"{stem}-{how}.{kernel}.elf", "igc-elf", dumped.read_bytes()


def debug_of(form: str, data: bytes, source: Source) -> str:
    """What debug information a binary carries, as ``symd info`` would say it."""
    if form == "spirv":
        return "spirv" if source.debug else "none"
    elf = data.find(b".debug_line\0") >= 0
    if not source.debug or not elf:
        return "none"
    return "dwarf-5" if data.find(b".debug_addr\0") >= 0 else "dwarf-4"


def entry(run: Run, compiler: Compiler, name: str, form: str, data: bytes) -> dict[str, Any]:
    """One line of the manifest."""
    kernels = run.source.kernels()
    if form == "igc-elf":
        kernels = [kernel for kernel in kernels if kernel == name.removesuffix(".elf").rsplit(".", 1)[1]]
    return {
        "source": run.source.file,
        "device": None if form == "spirv" else run.device,
        "options": run.options,
        "optimised": run.optimised,
        "compiler": compiler.version,
        "format": form,
        "debug": debug_of(form, data, run.source),
        "kernels": kernels,
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def package_versions() -> str:
    """The older generation's compilers, as Debian names them."""
    found = subprocess.run(["dpkg-query", "-W", *PACKAGES], check=False, capture_output=True, text=True).stdout
    words = (line.split("\t") for line in found.splitlines())
    return ", ".join(f"{name.partition(':')[0]} {version}" for name, version in words)


def newer_compiler(root: Path) -> Compiler | None:
    """ocloc of the newer generation, started through its own dynamic loader, where ``make live-new`` has unpacked it."""
    program = next(iter(sorted(root.rglob("usr/bin/ocloc-*"))), None)
    if program is None:
        return None
    unpacked = program.parents[2]
    libraries = unpacked / "usr/lib/x86_64-linux-gnu"
    loader = unpacked / "usr/lib64/ld-linux-x86-64.so.2"
    igc = next(iter(sorted(libraries.glob("libigc.so.2.*"))), Path("libigc.so.2"))
    version = f"intel-ocloc {program.name.removeprefix('ocloc-')}, libigc2 {igc.name.removeprefix('libigc.so.')}"
    return Compiler((str(loader), "--library-path", str(libraries), str(program)), version, prefix="igc2-")


@contextmanager
def work_folder() -> Iterator[None]:
    """WORK with copies of the sources in it, removed afterwards."""
    try:
        WORK.mkdir()
    except FileExistsError:
        sys.exit(f"{WORK} exists: another build is running, or one was interrupted (then remove the folder)")
    try:
        for source in SOURCES:
            shutil.copy(HERE / source.file, WORK)
        shutil.copytree(HERE / "include", WORK / "include")
        yield
    finally:
        shutil.rmtree(WORK)


def build(target: Path, older: Compiler, newer: Compiler | None, wanted: str) -> Manifest:
    """Makes the binaries of every source whose name matches ``wanted`` below ``target``; their manifest entries."""
    manifest: Manifest = {}
    with work_folder():
        for source in SOURCES:
            if not re.fullmatch(wanted, source.name):
                continue
            runs = [(older, run) for run in older_runs(source)]
            runs += [(newer, run) for run in newer_runs(source)] if newer else []
            for compiler, run in runs:
                for name, form, data in ocloc(compiler, run):
                    path = target / source.name / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                    manifest[f"{source.name}/{name}"] = entry(run, compiler, name, form, data)
    return manifest


def differences(old: Path, new: Path, manifest: Manifest) -> Iterator[str]:
    """One sentence for each binary that was made again and is not the one that is here."""
    for name in sorted(manifest):
        if not (old / name).exists():
            yield f"{name}: missing"
            continue
        before, after = (old / name).read_bytes(), (new / name).read_bytes()
        if len(before) != len(after):
            yield f"{name}: {len(before)} bytes here, {len(after)} made now"
        elif before != after:
            places = [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
            yield f"{name}: {len(places)} bytes differ, from {places[0]:#x} to {places[-1]:#x}"


def kept_entries(path: Path, made: Manifest) -> Manifest:
    """The entries of an existing manifest that this call did not make again and whose binaries are still there."""
    old: Manifest = json.loads(path.read_text()) if path.exists() else {}
    return {name: value for name, value in old.items() if name not in made and (HERE / "bin" / name).exists()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="make them elsewhere and report what differs")
    parser.add_argument("--only", default=".*", metavar="REGEX", help="sources by name (default: all)")
    parser.add_argument("--newer", type=Path, default=NEWER, help="folder that holds the newer generation's packages")
    arguments = parser.parse_args()
    older = Compiler(("ocloc",), package_versions())
    newer = newer_compiler(arguments.newer)
    if newer is None:
        print(f"no newer compiler below {arguments.newer}: its binaries are left as they are", file=sys.stderr)
    if arguments.check:
        with tempfile.TemporaryDirectory() as folder:
            made = build(Path(folder), older, newer, arguments.only)
            found = list(differences(HERE / "bin", Path(folder), made))
        print("\n".join([*found, f"{len(made)} made, {len(found)} differ"]))
        return 1 if found else 0
    made = build(HERE / "bin", older, newer, arguments.only)
    manifest = kept_entries(HERE / "manifest.json", made) | made
    (HERE / "manifest.json").write_text(json.dumps(dict(sorted(manifest.items())), indent=1) + "\n")
    print(f"{len(made)} binaries, {sum(value['size'] for value in made.values())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""DPC++'s device code with debug data: its kernel compiler (`libsycl-jit`) behind the SYCL runtime, which wants a device: one that
the newer Level Zero driver simulates (tools/live_new.py). The runtime dumps each module before the driver reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PACKAGES, OUT = Path(sys.argv[1]), Path(sys.argv[2])
ROOT = Path(__file__).parents[3]
DRIVERS = Path(os.environ.get("SYMD_LIVE_NEW_ROOT", ROOT / ".cache" / "live-new"))
HOST = ROOT / "samples" / "spirv" / "kernel_compiler.cpp"
SOURCES = (ROOT / "samples" / "spirv" / "blend.sycl.cpp", Path(__file__).with_name("reduce.sycl.cpp"))
OPTIONS = {"optimised": ["-g"], "plain": ["-g", "-O0"]}
SIMULATED = {
    "NEOReadDebugKeys": "1",
    "SetCommandStreamReceiver": "1",
    "AUBDumpCaptureFileName": "/dev/null",
    "UseAubStream": "0",
    "UseBindlessMode": "0",
    "ProductFamilyOverride": "dg2",
    "HardwareInfoOverride": "2x4x5",
}


def main() -> None:
    setup = [sys.executable, str(ROOT / "tools" / "live_new.py"), "--root", str(DRIVERS), "setup"]
    subprocess.run(setup, check=True, stdout=subprocess.DEVNULL)
    library = OUT / ".runtime"
    gather(library)
    program = OUT / ".kernel_compiler"
    header = next(PACKAGES.rglob("include/sycl/sycl.hpp")).parents[1]
    link = ["-L", str(library), "-lsycl", f"-Wl,-rpath-link,{library}"]
    subprocess.run(["g++", "-std=c++17", "-w", "-I", str(header), str(HOST), "-o", str(program), *link], check=True)
    for source in SOURCES:
        for kind, options in OPTIONS.items():
            dump(program, library, source, options, OUT / f"{source.name.partition('.')[0]}.{kind}.spv")


def gather(library: Path) -> None:
    """Every library of the packages in one folder, with what they expect beside them."""
    library.mkdir()
    for folder in sorted({path.parent for path in PACKAGES.rglob("lib*.so*")}):
        for path in folder.iterdir():
            if not (library / path.name).exists():
                (library / path.name).symlink_to(path)


def dump(program: Path, library: Path, source: Path, options: list[str], target: Path) -> None:
    usr = DRIVERS / "usr" / "lib" / "x86_64-linux-gnu"
    loader = DRIVERS / "usr" / "lib64" / "ld-linux-x86-64.so.2"
    system = "/usr/lib/x86_64-linux-gnu"
    environment = {
        **os.environ,
        **SIMULATED,
        "SYCL_DUMP_IMAGES": "1",
        "ZE_ENABLE_ALT_DRIVERS": str(usr / "libze_intel_gpu.so.1"),
    }
    with_libraries = [str(loader), "--library-path", f"{usr}:{library}:{system}", str(program)]
    done = subprocess.run(
        [*with_libraries, str(source), *options],
        cwd=OUT, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    dumped = sorted(OUT.glob("sycl_spir64*.spv"))
    if not dumped:
        raise SystemExit(f"{source.name} {options}: no image; {(done.stdout + done.stderr)[-400:]}")
    dumped[0].rename(target)
    for path in dumped[1:]:
        path.unlink()


main()

"""Grab the debug data that the newer drivers return for the sample kernels, several kernels a module included, and keep it
as samples with their manifest entries.

    python tools/live_new.py setup
    python samples/kernels/grab.py .cache/live-new

Names say what was done: ``driver-l0-igc2-pvc-opt.debug-zebin`` is what the newer Level Zero driver gave for the optimised
SPIR-V on a simulated pvc; ``driver-ocl-...`` the OpenCL driver's for the source.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

from symd.capture.drivers import grab
from symd.config import Limits
from symd.model.grabs import Grabbed, GrabRequest

HERE = Path(__file__).resolve().parent
PRODUCTS = ("tgllp", "dg2", "pvc", "bmg")
SOURCES = {
    "vadd": PRODUCTS,
    "particles": PRODUCTS,
    "filters": PRODUCTS,
    "raycast": ("dg2", "pvc"),
    "mandelbrot": ("dg2",),
}
"""Source to the products it is grabbed for."""
NEUTRAL = "/tmp/symd-opencl"  # noqa: S108 - a name in debug data, not a file
"""The folder that the committed SPIR-V names; OpenCL sources are given file names in it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, help="the folder with the newer drivers")
    root = str(parser.parse_args().root.resolve())
    manifest = json.loads((HERE / "manifest.json").read_text())
    for source, products in SOURCES.items():
        for product in products:
            for level in ("opt", "O0"):
                keep(manifest, source, product, level, "l0", level_zero(root, source, product, level))
                path = HERE / f"{source}.cl"
                if path.exists() and b"#include" not in path.read_bytes():
                    keep(manifest, source, product, level, "ocl", opencl(root, path, product, level))
    (HERE / "manifest.json").write_text(json.dumps(dict(sorted(manifest.items())), indent=1) + "\n")


def level_zero(root: str, source: str, product: str, level: str) -> Grabbed:
    data = (HERE / "bin" / source / f"{level}.spv").read_bytes()
    flags = "-g -ze-opt-disable" if level == "O0" else "-g"
    request = GrabRequest("level-zero", "spirv", data, flags, simulate=product, driver="newer")
    return grab(request, Limits(), {"newer": root})


def opencl(root: str, source: Path, product: str, level: str) -> Grabbed:
    flags = f"-g -s {NEUTRAL}/{source.name}" + (" -cl-opt-disable" if level == "O0" else "")
    request = GrabRequest("opencl", "source", source.read_bytes(), flags, simulate=product, driver="newer")
    return grab(request, Limits(), {"newer": root})


def keep(manifest: dict[str, object], source: str, product: str, level: str, api: str, grabbed: Grabbed) -> None:
    name = f"{source}/driver-{api}-igc2-{product}-{level}.debug-zebin"
    (HERE / "bin" / name).write_bytes(grabbed.debug_data)
    text = (HERE / f"{source}.cl").name if (HERE / f"{source}.cl").exists() else f"{source}.clcpp"
    manifest[name] = {
        "source": text,
        "device": product,
        "options": "-g -cl-opt-disable" if level == "O0" else "-g",
        "optimised": level == "opt",
        "compiler": grabbed.driver,
        "format": "debug-zebin",
        "debug": "dwarf-5" if source == "filters" else "dwarf-4",
        "kernels": sorted(name for name in grabbed.kernels if name != "Intel_Symbol_Table_Void_Program"),
        "size": len(grabbed.debug_data),
        "sha256": hashlib.sha256(grabbed.debug_data).hexdigest(),
    }
    print(name, len(grabbed.debug_data))


if __name__ == "__main__":
    sys.exit(main())

"""Build the samples of Triton: cubins and hsacos of the kernels in helpers.py, compiled ahead of time.

Run from anywhere: ``PYTHON samples/triton/build.py``, where PYTHON has triton 3.9.0 (PyPI) and needs no device. The work is done below /src, because the line
tables name the sources, those of Triton's own library too: the folder is made, and removed again. ``manifest.json`` records how each file was made.
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
WORK = Path("/src/triton-samples")
TARGETS = {
    "sm_80": "'cuda', 80, 32",
    "sm_90": "'cuda', 90, 32",
    "gfx942": "'hip', 'gfx942', 64",
    "gfx1201": "'hip', 'gfx1201', 32",
}
KERNELS = {
    "add": "{'x': '*fp32', 'y': '*fp32', 'out': '*fp32', 'n': 'i32', 'block': 'constexpr'}",
    "total": "{'x': '*fp32', 'out': '*fp32', 'block': 'constexpr'}",
    "wide": "{'x': '*fp32', 'y': '*fp32', 'out': '*fp32', 'n': 'i32', 'block': 'constexpr'}",
}
BLOCKS = {"wide": 512}
ALIGNED = {"wide": "{(0,): A, (1,): A, (2,): A, (3,): A}"}
"""What is a multiple of 16, so that four words are read at a time."""
COMPILE = """
import helpers, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
A = [["tt.divisibility", 16]]
made = triton.compile({source}, target=GPUTarget({target}))
open({path!r}, 'wb').write(made.asm[{kind!r}])
"""


def main() -> None:
    import triton  # noqa: PLC0415 - only here

    WORK.mkdir(parents=True)
    try:
        shutil.copy(HERE / "helpers.py", WORK)
        (WORK / "triton").symlink_to(Path(triton.__file__).parent)
        manifest = {}
        for target, arguments in TARGETS.items():
            kind = "cubin" if target.startswith("sm") else "hsaco"
            for kernel, signature in KERNELS.items():
                if kernel == "wide" and kind != "cubin":  # it has PTX
                    continue
                name = f"{kernel}-{target}.{kind}"
                path = HERE / "bin" / name
                aligned = f", {ALIGNED[kernel]}" if kernel in ALIGNED else ""
                source = f"ASTSource(helpers.{kernel}, {signature}, {{'block': {BLOCKS.get(kernel, 128)}}}{aligned})"
                call = COMPILE.format(source=source, target=arguments, path=str(path), kind=kind)
                environment = {**os.environ, "PYTHONPATH": str(WORK), "TRITON_CACHE_DIR": str(WORK / "cache")}
                subprocess.run([sys.executable, "-P", "-c", call], check=True, cwd=WORK, env=environment)
                data = path.read_bytes()
                manifest[name] = {
                    "command": f"triton.compile({source}, target=GPUTarget({arguments}))",
                    "tool": f"triton {triton.__version__}",
                    "size": len(data),
                    "sha256": hashlib.sha256(data).hexdigest(),
                }
        (HERE / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    finally:
        shutil.rmtree(WORK)


if __name__ == "__main__":
    main()

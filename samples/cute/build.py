"""Build the samples of CuTe DSL: cubins of the kernels in blend.py and gain.py, compiled ahead of time.

Run from anywhere: ``PYTHON samples/cute/build.py``, where PYTHON has nvidia-cutlass-dsl 4.8.1 (PyPI) and needs no device. The work is done below /src, because the
line tables name the sources: the folder is made, and removed again. ``manifest.json`` records how each file was made.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
WORK = Path("/src/cute-samples")
TARGETS = {"blend": ("sm_80", "sm_90a", "sm_100a"), "gain": ("sm_90a",)}
COMPILE = "import {0}; from cutlass import cute; cute.compile({0}.launch, *{0}.tensors(), options='--generate-line-info --keep-cubin')"


def main() -> None:
    WORK.mkdir(parents=True)
    try:
        for each in ("blend.py", "squash.py", "gain.py"):
            shutil.copy(HERE / each, WORK)
        manifest = {}
        for source, target in ((source, target) for source, targets in TARGETS.items() for target in targets):
            kept, call = WORK / f"{source}-{target}", COMPILE.format(source)
            kept.mkdir()
            environment = {
                **os.environ,
                "PYTHONPATH": str(WORK),
                "CUTE_DSL_ARCH": target,
                "CUTE_DSL_DUMP_DIR": str(kept),
            }
            subprocess.run([sys.executable, "-P", "-c", call], check=True, cwd=kept, env=environment)
            (made,) = kept.glob("*.cubin")
            data = made.read_bytes()
            name = f"{source}-{target}.cubin"
            (HERE / "bin" / name).write_bytes(data)
            manifest[name] = {
                "command": f"CUTE_DSL_ARCH={target} python -c {call!r}",
                "tool": f"nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}",
                "size": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        (HERE / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    finally:
        shutil.rmtree(WORK)


if __name__ == "__main__":
    main()

"""The core built with AddressSanitizer and UndefinedBehaviorSanitizer, and its tests and mutated files under them and under Python's debug allocator.

`python tools/sanitized_core.py [SECONDS]`: each reader's fuzz target takes SECONDS. The build lies in build/sanitized; what is used every day stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INTO = ROOT / "build" / "sanitized"
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1 -g"
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={ROOT}")
TESTS = tuple(str(ROOT / "tests" / name) for name in ("core", "debuginfo/dwarf", "index/test_index_lookup.py"))
TARGETS = (
    "dwarf.lines",
    "dwarf.units",
    "dwarf.scopes",
    "dwarf.range_lists",
    "nv_info",
    "ways",
    "index",
    "index.flipped",
)
SECONDS = "60"


def main(arguments: list[str]) -> int:
    seconds = arguments[0] if arguments else SECONDS
    print("the tests of the core with Python's debug allocator", flush=True)
    codes = [_run((*PYTEST, *TESTS), ROOT, PYTHONMALLOC="debug")]
    _build()
    runtime = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    sanitized = {
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONPATH": f"{INTO}:{ROOT}",
        "PYTHONMALLOC": "malloc",
    }
    print("with AddressSanitizer: the same, and mutated files", flush=True)
    shown = f"import symd.core.dies as core; assert core.__file__.startswith({str(INTO)!r}), core.__file__"
    codes.append(_run(("-c", shown), INTO, **sanitized))
    codes.append(_run((*PYTEST, *TESTS), INTO, **sanitized))
    found = f"--out={ROOT / 'build' / 'fuzz'}"
    fuzz = ("-m", "tests.fuzz", "--plain", "--seconds", seconds, "--children", "1", found, "--only", *TARGETS)
    codes.append(_run(fuzz, INTO, **sanitized))
    return max(codes)


def _run(words: tuple[str, ...], folder: Path, **environment: str) -> int:
    """Modules are looked for in ``folder`` first."""
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env={**os.environ, **environment}, check=False
    ).returncode


def _build() -> None:
    shutil.rmtree(INTO, ignore_errors=True)
    shutil.copytree(ROOT / "symd", INTO / "symd", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    words = ("-q", "build_ext", "--force", "--build-temp", str(INTO / "objects"), "--build-lib", str(INTO))
    subprocess.run(
        [sys.executable, "setup.py", *words],
        cwd=ROOT,
        env={**os.environ, "CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address,undefined"},
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The programs that symd is measured beside: where they are, which version they have, and what they answer."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

CACHE = Path(__file__).parents[1] / ".cache" / "bench"
LLVM = "llvm-symbolizer-14"
SYMBOLIC = "symbolic==13.9.0"
Frames = list[tuple[str, str, int]]
"""(function, base name of the file, line), innermost first."""


def symbolic_python() -> Path | None:
    """The interpreter of an environment of its own that has symbolic, made on the first use; None where that fails."""
    python = CACHE / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(CACHE / "venv", with_pip=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", SYMBOLIC]
    has = [python, "-c", "import symbolic"]
    if subprocess.run(has, capture_output=True, check=False).returncode:
        subprocess.run(install, check=False)
    return None if subprocess.run(has, capture_output=True, check=False).returncode else python


def versions() -> dict[str, str]:
    """Name to version of what is here."""
    found = {"Python": sys.version.split()[0]}
    for name in (LLVM, "addr2line", "clang-14", "nvcc"):
        if shutil.which(name):
            text = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
            number = re.search(r"(?:version|release|Binutils[^)]*\)) ?(\d+[\d.]*)", text)
            found[name] = number[1] if number else text.splitlines()[0]
    for name in ("numpy", "grpcio", "pyelftools"):
        found[name] = version(name)
    found["symbolic"] = SYMBOLIC.partition("==")[2] if symbolic_python() else "not installed"
    return found


def llvm(path: Path, addresses: Sequence[int]) -> list[Frames]:
    text = _asked([LLVM, f"--obj={path}", "--inlines"], addresses)
    blocks = text.strip().split("\n\n")
    return [_frames(block.splitlines()) for block in blocks]


def addr2line(path: Path, addresses: Sequence[int]) -> list[Frames]:
    """Its lines; its names mix outer and inner functions, so that only the innermost position counts."""
    text = _asked(["addr2line", "-e", str(path), "-f"], addresses).splitlines()
    return [_frames(text[at : at + 2]) for at in range(0, len(text), 2)]


def symbolic(path: Path, addresses: Sequence[int]) -> list[Frames]:
    python = symbolic_python()
    program = (
        "import symbolic, sys\n"
        "cache = next(iter(symbolic.Archive.open(sys.argv[1]).iter_objects())).make_symcache()\n"
        "for line in sys.stdin:\n"
        "    for f in cache.lookup(int(line, 16)):\n"
        "        print(f.symbol, f.full_path, f.line, sep='\\t')\n"
        "    print('end')\n"
    )
    text = _asked([str(python), "-c", program, str(path)], addresses)
    blocks = text.split("end\n")[: len(addresses)]
    return [[_tabbed(line) for line in block.splitlines()] for block in blocks]


def _tabbed(line: str) -> tuple[str, str, int]:
    name, path, number = line.split("\t")
    return name, path.rsplit("/", 1)[-1], int(number)


def _frames(lines: Sequence[str]) -> Frames:
    frames = []
    for name, where in zip(lines[::2], lines[1::2], strict=False):
        file, _, number = re.sub(r" \(discriminator \d+\)$", "", where).partition(":")
        frames.append((name, file.rsplit("/", 1)[-1], int(re.match(r"\d*", number)[0] or 0)))
    return frames


def _asked(command: Sequence[str], addresses: Sequence[int]) -> str:
    text = "".join(f"{address:#x}\n" for address in addresses)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout

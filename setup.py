"""What setuptools is told beside pyproject.toml. The core is compiled, for the stable ABI of CPython 3.11, which later versions have too. A wheel carries the samples,
the protos, the documents and the units of this repository, below ``symd/shipped``, and says of which commit it was built. In a checkout they lie where they are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).resolve().parent
SHIPPED = ("docs", "packaging", "protos", "samples")
BUILT_SAMPLES = ("node_modules", "out", "gen", "adapter", "*.vsix")
"""What the builds of samples leave in a checkout."""
NOT_SHIPPED = shutil.ignore_patterns("__pycache__", "*.py[cod]", ".*", "images", *BUILT_SAMPLES)
COMMIT = "COMMIT"
"""The file of a source distribution that names its commit."""
DESCRIBE = ("git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty")


def commit() -> str:
    """The commit that is built, with "-dirty" where files were changed; "" where nobody knows."""
    if (ROOT / COMMIT).is_file():
        return (ROOT / COMMIT).read_text(encoding="ascii")
    if not (ROOT / ".git").exists():
        return ""
    try:
        return subprocess.run(DESCRIBE, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


CORE = sorted(path.stem for path in (ROOT / "symd" / "core").glob("[!_]*.py"))
BUILD = "build/cython"
STABLE_ABI = "0x030B0000"
SHARED = "symd.core._shared"
"""What the compiled modules have in common: Cython's typed memoryviews."""
NO_COMPILER = """symd's core is compiled, and that failed.
What it takes is a C compiler and Python's headers: on Debian, apt-get install gcc libc6-dev python3-dev"""


def core() -> Extension:
    """One extension with all modules of ``symd/core``, which ``symd.core`` finds in it; the C lies below ``build/`` and is neither committed nor in a wheel."""
    modules = [Extension(f"symd.core.{name}", [f"symd/core/{name}.py"]) for name in CORE]
    modules.append(Extension(SHARED, ["symd/core/_shared.c"]))
    generated = cythonize(
        modules, build_dir=BUILD, quiet=True, force=_is_outdated(), shared_utility_qualified_name=SHARED
    )
    sources = [each.sources[0] for each in generated]
    for source in sources:
        _mend(ROOT / source)
    stable = {"define_macros": [("Py_LIMITED_API", STABLE_ABI)], "py_limited_api": True, "extra_compile_args": ["-g0"]}
    return Extension("symd.core.compiled", sources, **stable)


def _is_outdated() -> bool:
    """Whether a declaration (``*.pxd``) or this file was changed after some of the C was generated. Cython does not look whether what a module written in Python cimports was."""
    declared = (Path(__file__), *(ROOT / "symd" / "core").glob("*.pxd"))
    generated = [ROOT / BUILD / "symd" / "core" / f"{name}.c" for name in CORE]
    newest = max(path.stat().st_mtime for path in declared)
    return any(path.stat().st_mtime < newest for path in generated if path.exists())


def _mend(generated: Path) -> None:
    """For the stable ABI Cython's code imports ``inspect`` for seven numbers, which takes a fifth of the time in which one address is answered; and one of
    its functions is not of its file alone, so that two of its modules could not be in one library."""
    code = generated.read_text()
    mended = code.replace('PyImport_ImportModule("inspect")', 'PyImport_ImportModule("symd.core")')
    mended = mended.replace("\nint __Pyx_ApplySequence", "\nstatic int __Pyx_ApplySequence")
    if mended != code:  # what was not generated anew is not compiled anew
        generated.write_text(mended)


class BuildCore(build_ext):
    def run(self) -> None:
        try:
            super().run()
        except (BaseError, CCompilerError) as error:
            raise SystemExit(f"{error}\n{NO_COMPILER}") from error


class BuildWithSamples(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shipped = Path(self.build_lib) / "symd" / "shipped"
            for name in SHIPPED:
                shutil.rmtree(shipped / name, ignore_errors=True)
                shutil.copytree(ROOT / name, shipped / name, ignore=NOT_SHIPPED)
            (shipped / "commit").write_text(commit(), encoding="ascii")


class SourceWithCommit(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        (Path(base_dir) / COMMIT).write_text(commit(), encoding="ascii")


setup(
    ext_modules=[core()],
    cmdclass={"build_ext": BuildCore, "build_py": BuildWithSamples, "sdist": SourceWithCommit},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)

"""What may not be done in the compiled core."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import symd.core

FOLDER = Path(symd.core.__file__).parent
MODULES = sorted(FOLDER.glob("[!_]*.py"))
DIRECTIVE = re.compile(r"^# cython: (.*)$", re.MULTILINE)
ALLOWED = {"language_level": "3", "boundscheck": "True", "wraparound": "False"}
UNSAFE = re.compile(
    r"@cython\.(?!cclass\b|cfunc\b|exceptval\(-\d, check=True\))\w+|from cython|cython\.compiled|nogil|pointer|cython\.p_|libc|cython\.address|cimport"
)
"""Decorators that change directives or swallow errors (a number that only hints at one does not), two implementations in one file, and pointers."""


INHERITED = re.compile(
    r"^if cython\.compiled:\n    from cython\.cimports\.(symd\.core[\w.]*) import ([\w, ]+)\nelse:\n    from \1 import \2\n",
    re.MULTILINE,
)
"""What another module of the core declares, by its types or, uncompiled, by its name."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_bounds_are_checked_everywhere(path: Path) -> None:
    text = path.read_text()
    (directives,) = DIRECTIVE.findall(text)
    assert dict(each.strip().split("=") for each in directives.split(",")) == ALLOWED
    code = re.sub(r'"""[\s\S]*?"""|"[^"\n]*"|#.*', "", INHERITED.sub("", text))
    assert not UNSAFE.findall(code)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_what_runs_is_compiled(path: Path) -> None:
    module = __import__(f"symd.core.{path.stem}", fromlist=["*"])
    built = Path(module.__file__)
    assert built.name.endswith(".abi3.so")
    assert built.stat().st_mtime > path.stat().st_mtime, "the core was changed and not built again: make venv"


def test_to_load_it_takes_no_library_that_is_slow_to_import() -> None:
    """Seven numbers of ``inspect`` are all that Cython's code asks it for."""
    names = [
        "CO_OPTIMIZED",
        "CO_NEWLOCALS",
        "CO_VARARGS",
        "CO_VARKEYWORDS",
        "CO_GENERATOR",
        "CO_COROUTINE",
        "CO_ASYNC_GENERATOR",
    ]
    assert {name: getattr(inspect, name) for name in names} == {name: getattr(symd.core, name) for name in names}
    program = "import sys\nimport symd.core.line_program\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=FOLDER.parents[1], capture_output=True, text=True, check=True
    )
    assert not {"inspect", "typing", "re", "enum", "numpy"} & set(done.stdout.split())


def test_directives_stand_in_the_modules_alone() -> None:
    assert "compiler_directives" not in (FOLDER.parents[1] / "setup.py").read_text()


def test_no_generated_code_is_kept() -> None:
    assert not [path.name for path in FOLDER.iterdir() if path.suffix in {".c", ".cpp", ".html"}]


def test_who_has_no_compiler_is_told_what_to_install(tmp_path: Path) -> None:
    """The build of a checkout, with a compiler that is not there."""
    words = ("build_ext", "--force", "--build-temp", str(tmp_path), "--build-lib", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", *words],
        cwd=FOLDER.parents[1],
        env={**os.environ, "CC": "/nowhere/cc"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert done.stderr.rstrip().endswith("apt-get install gcc libc6-dev python3-dev")

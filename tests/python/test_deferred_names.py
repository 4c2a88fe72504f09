"""Packages whose names are imported when somebody wants them: one rule for all."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

SYMD = Path(__file__).parents[2] / "symd"
DEFERRED = [path for path in sorted(SYMD.rglob("__init__.py")) if "def __getattr__" in path.read_text()]
PACKAGES = [".".join(("symd", *path.parent.relative_to(SYMD).parts)) for path in DEFERRED]


def test_there_are_such_packages() -> None:
    assert {"symd", "symd.capture", "symd.index"} <= set(PACKAGES)


@pytest.mark.parametrize("path", DEFERRED, ids=PACKAGES)
def test_the_rule_is_written_once(path: Path) -> None:
    """Each asks ``symd.found`` and does nothing else."""
    [deferring] = [
        each
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.FunctionDef) and each.name == "__getattr__"
    ]
    assert [ast.unparse(each) for each in deferring.body] == ["return found(__name__, _HOMES, name)"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there_and_no_other(package: str) -> None:
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is getattr(module, name)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018 - it is asked for


def test_importing_symd_imports_nothing_else() -> None:
    program = "import sys, symd; print(*sorted(each for each in sys.modules if each.startswith('symd')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["symd"]

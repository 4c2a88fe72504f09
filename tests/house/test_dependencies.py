"""What the package says it needs is what it imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.house.test_layers import ROOT

PROJECT = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
EXTRAS = {
    "otel": {"server/spans.py"},
    "mcp": {"server/mcp/server.py"},
    "data": {
        "model/data_frames.py",
        "batch.py",
        *(f"profiles/sample_tables/{name}.py" for name in ("tables", "parquet_files")),
    },
    "shared": {"store/shared/postgresql.py", "store/shared/s3_storage.py"},
}
"""The extra's name, and the modules that import what it brings."""
NAMESPACES = {
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "google.api": "googleapis-common-protos",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-grpc",
    "opentelemetry.trace": "opentelemetry-api",
}
"""Packages below the one name that several distributions share."""
_DISTRIBUTIONS = packages_distributions()
INJECTED = ROOT / "capture" / "injected"
"""Files that are put into other people's programs, where they stand for themselves."""
IN_DEBUGGERS = ROOT / "cli" / "debuggers"
"""Scripts for debuggers, likewise; these have packages of their own."""
OF_DEBUGGERS = {"gdb", "lldb", "symd_child"}
OF_TYPE_CHECKERS = {"_typeshed"}
"""Packages that are there only while types are checked."""
STANDING_ALONE = {path.stem for path in INJECTED.glob("*.py")} | {"sitecustomize"} | OF_DEBUGGERS | OF_TYPE_CHECKERS

AT_BUILD = {"cython"}
"""Imported by sources that are compiled, and by nothing that runs."""
COMING = {"starlette", "uvicorn", "pygments"}
"""What is a dependency before the first line that imports it."""


def normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_modules() -> set[str]:
    """Full dotted names, those of the generated package too."""
    return {name for path in ROOT.rglob("*.py") for name in imported_by(path)}


@cache
def imported_by(path: Path) -> frozenset[str]:
    """Full dotted names that one module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
    return frozenset(found)


def distributions_named(path: Path) -> set[str]:
    """The distributions that one module imports from."""
    return {owner for module in imported_by(path) for owner in distributions_of(module)}


def distributions_of(module: str) -> set[str]:
    """The distributions that a module may come from; none for the standard library and for symd itself."""
    top = module.split(".", maxsplit=1)[0]
    if top in sys.stdlib_module_names | STANDING_ALONE or top == "symd":
        return set()
    named = {owner for prefix, owner in NAMESPACES.items() if f"{module}.".startswith(f"{prefix}.")}
    if named or top in ("google", "opentelemetry"):
        return named
    return {normal(name) for name in _DISTRIBUTIONS[top]}


def test_every_dependency_is_imported_and_every_import_is_a_dependency() -> None:
    used = {owner for module in imported_modules() for owner in distributions_of(module)}
    wanted = names(PROJECT["dependencies"]) - COMING
    assert wanted.union(*map(brought, EXTRAS)) == used - COMING - AT_BUILD


def test_what_stands_alone_imports_python_alone() -> None:
    for path in (*INJECTED.glob("*.py"), *IN_DEBUGGERS.glob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        named = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
        named |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        tops = {name.partition(".")[0] for name in named}
        assert tops <= sys.stdlib_module_names | STANDING_ALONE | {"__future__"}, path


def names(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}


def brought(extra: str) -> set[str]:
    return names(PROJECT["optional-dependencies"][extra])


def test_a_daemon_without_the_page_starts_without_a_web_server() -> None:
    program = "import sys, symd.cli.serve, symd.server; print(*{'starlette', 'uvicorn', 'pygments'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=ROOT.parent, timeout=60, capture_output=True, text=True
    )
    assert done.stdout == "\n"


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_an_extra_brings_is_imported_by_few_modules_that_are_imported_late(extra: str) -> None:
    importing = {path for path in ROOT.rglob("*.py") if brought(extra) & distributions_named(path)}
    assert importing == {ROOT / each for each in EXTRAS[extra]}
    early = {"model/data_frames.py"}  # which imports pandas and Arrow where somebody asks for their tables
    late = {f"symd.{each.removesuffix('.py').replace('/', '.')}" for each in EXTRAS[extra] - early}
    program = (
        "import sys, symd.cli.serve, symd.cli.mcp, symd.cli.batch, symd.server; "
        f"sys.exit(bool({late!r} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, cwd=ROOT.parent, timeout=60).returncode == 0

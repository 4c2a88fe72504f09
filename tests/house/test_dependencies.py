"""What the package says it needs is what it imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

from tests.house.test_layers import ROOT

PROJECT = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
NAMESPACES = {
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "google.api": "googleapis-common-protos",
}
"""Packages below the one name that several distributions share."""


def normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_modules() -> set[str]:
    """Full dotted names, those of the generated package too."""
    found: set[str] = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
    return found


def distributions_of(module: str) -> set[str]:
    """The distributions that a module may come from; none for the standard library and for symd itself."""
    top = module.split(".", maxsplit=1)[0]
    if top in sys.stdlib_module_names or top == "symd":
        return set()
    named = {owner for prefix, owner in NAMESPACES.items() if f"{module}.".startswith(f"{prefix}.")}
    if named or top == "google":
        return named
    return {normal(name) for name in packages_distributions()[top]}


def test_every_dependency_is_imported_and_every_import_is_a_dependency() -> None:
    said = {normal(re.split(r"[^\w.-]", requirement)[0]) for requirement in PROJECT["dependencies"]}
    used = {owner for module in imported_modules() for owner in distributions_of(module)}
    assert said == used

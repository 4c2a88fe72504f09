"""What docstrings, CONTRIBUTING.md and docs/design.md name of symd's code is there under that name."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.house.test_layers import ROOT, SOURCES

DOCUMENTS = (ROOT.parent / "CONTRIBUTING.md", ROOT.parent / "docs" / "design.md")
QUOTED = re.compile(r"``?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\([^`]*\))?``?")
OTHERS = {
    "amd_core_dump", "amd_hsa_queue", "cl_int", "control_stack_iterate", "kfd_ioctl", "num_samples",
    "os_driver", "process.abort", "register_address", "rocr_rdebug", "run_stdio_async", "scratch_memory_region",
    "sh_addr", "sh_info", "sh_link", "st_value", "symd.audit", "symd.requests", "ui_output", "ze_result_t", "ssl.SSLSocket", "shapes.advance",
}  # fmt: skip
"""Names that look like ours and are another's, or are those of logs."""


@cache
def names_of(path: Path) -> frozenset[str]:
    """Every name that a module's code says, and each word of its strings except docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = {*path.relative_to(ROOT.parent).with_suffix("").parts}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found.update(re.findall(r"\w+", node.value))
        elif isinstance(node, ast.alias):
            found.update(node.name.split("."))
        for field in ("id", "attr", "name", "arg", "asname"):
            found.add(str(getattr(node, field, "")))
    return frozenset(found)


@cache
def all_names() -> frozenset[str]:
    texts = [
        path.read_text() for where in ("protos", "symd/core") for path in (ROOT.parent / where).rglob("*.p[rx][od]*")
    ]
    return frozenset().union(*map(names_of, SOURCES), *(re.findall(r"\w+", text) for text in texts))


@cache
def is_in_module(module: str, name: str) -> bool:
    """Whether a module of symd with this last name says a name; so does one of another library."""
    ours = [path for path in SOURCES if module == (path.parent.name if path.stem == "__init__" else path.stem)]
    return any(name in names_of(path) for path in ours) or (not ours and find_spec(module) is not None)


def is_there(name: str) -> bool:
    """Whether all of a dotted name is said somewhere in the code: of one that begins with ``symd``, where it says, and
    of a class behind a module, in that."""
    parts = name.split(".")
    if len(parts) == 2 and parts[0].islower() and re.match(r"[A-Z]\w*[a-z]", parts[1]):
        return is_in_module(*parts)
    place, inside = ROOT.parent, {"symd"}
    for part in parts if parts[0] == "symd" else ():
        if part not in inside:
            return False
        place /= part
        module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if module.exists():
            inside = names_of(module) | {each.stem for each in place.glob("*")}
    return all(part in all_names() for part in parts)


def named(text: str) -> set[str]:
    """The names in quotes that can only be meant as code: dotted ones, and those with an underscore inside."""
    found = {name for name in QUOTED.findall(text) if "." in name or re.search(r"[a-z]_[a-z]", name)}
    ours = {
        name for name in found if not name.endswith((".md", ".json", ".jsonl", ".sqlite", ".h", ".cpp", ".cc", ".kd"))
    }
    return {name for name in ours if not OTHERS & {name, name.split(".")[0], ".".join(name.split(".")[:2])}}


def docstrings(path: Path) -> str:
    nodes = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Expr)]
    return "\n".join(str(node.value) for node in nodes if isinstance(node, ast.Constant))


@pytest.mark.parametrize("path", [*SOURCES, *DOCUMENTS], ids=lambda path: str(path.relative_to(ROOT.parent)))
def test_a_name_of_code_is_that_of_something(path: Path) -> None:
    text = docstrings(path) if path.suffix == ".py" else path.read_text()
    assert sorted(name for name in named(text) if not is_there(name)) == []


def test_the_check_sees_what_is_gone() -> None:
    text = "``wire.resource_names.module_digest`` ``wire.fields.module_digest(name)`` ``daemon_config`` ``name`` ``x.y.json``"
    assert named(text) == {"wire.resource_names.module_digest", "wire.fields.module_digest", "daemon_config"}
    assert [name for name in sorted(named(text)) if is_there(name)] == ["wire.fields.module_digest"]
    assert is_there("symd.core.scopes.FUNCTION_COLUMNS")
    assert [is_there(f"{module}.Names") for module in ("byte_reader", "sorting", "strings")] == [True, False, False]
    assert not is_there("symd.core.demangled")

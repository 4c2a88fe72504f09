"""Rooms import upward only, and what is dangerous or foreign stays in the rooms that are made for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "symd"
ORDER = (
    "errors",
    "model",
    "config",
    "budget",
    "api",
    "elf",
    "spirv",
    "containers",
    "dwarf",
    "debuginfo",
    "split_debug",
    "index",
    "store",
    "query",
    "contexts",
    "spirv_check",
    "child",
    "drivers",
    "disasm",
    "indexes",
    "engine",
    "verify",
    "profiles",
    "answers_json",
    "v1",
    "wire",
    "service",
    "client",
    "cli",
)
SOURCES = [path for path in sorted(ROOT.rglob("*.py")) if "v1" not in path.parts]
ONLY_IN = {
    "grpc": {"v1", "wire", "service", "client"},
    "grpc_health": {"service", "client"},
    "grpc_reflection": {"service"},
    "grpc_status": {"service", "client"},
    "google": {"v1", "wire", "service", "client"},
    "elftools": {"debuginfo"},
    "ctypes": {"drivers", "disasm"},
    "socket": {"service", "client", "cli"},
    "sqlite3": {"store"},
    "subprocess": {"child"},
    "resource": {"child"},
    "signal": {"child", "service"},
    "click": {"cli"},
    "rich": {"cli"},
}


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Full dotted names of everything that a module imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_rooms_above_its_own(path: Path) -> None:
    if path == ROOT / "__init__.py" or path == ROOT / "__main__.py":
        return
    own = ORDER.index(room(path))
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "symd" and len(parts) > 1 and parts[1] in ORDER:
            assert ORDER.index(parts[1]) <= own, f"{room(path)} imports {name}"


@pytest.mark.parametrize(("room_name", "allowed"), [("errors", ()), ("model", ("symd.model", "symd.errors"))])
def test_the_words_import_nothing_else_of_symd(room_name: str, allowed: tuple[str, ...]) -> None:
    paths = [path for path in SOURCES if room(path) == room_name]
    assert paths
    foreign = [name for path in paths for name in imports(path) if name.startswith("symd")]
    assert not [name for name in foreign if not name.startswith(allowed or ("nothing",))]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_foreign_and_dangerous_modules_stay_in_their_rooms(path: Path) -> None:
    for name in imports(path):
        allowed = ONLY_IN.get(name.split(".")[0])
        assert allowed is None or room(path) in allowed, f"{room(path)} imports {name}"


def test_every_room_stands_in_the_order() -> None:
    rooms = {room(path) for path in SOURCES} - {"__init__", "__main__"}
    assert rooms <= set(ORDER)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_opens_with_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "no module docstring"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_handler_swallows_everything(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            names = (
                {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} if node.type else {"Exception"}
            )
            if names & {"Exception", "BaseException"}:
                assert any(isinstance(child, ast.Raise | ast.Call) for child in ast.walk(node)), f"line {node.lineno}"

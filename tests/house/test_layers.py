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
    "api",
    "system",
    "v1",
    "rpc",
    "client",
    "async_client",
    "core",
    "formats",
    "debuginfo",
    "index",
    "query",
    "cores",
    "store",
    "engine",
    "profiles",
    "capture",
    "module",
    "batch",
    "server",
    "cli",
)
SOURCES = [path for path in sorted(ROOT.rglob("*.py")) if "v1" not in path.parts]
ONLY_IN = {
    "cython": {"core"},
    "grpc": {"v1", "rpc", "server"},
    "grpc_health": {"server", "rpc", "client", "async_client"},
    "grpc_reflection": {"server"},
    "grpc_status": {"server", "rpc"},
    "opentelemetry": {"server"},
    "gdb": {"cli/debuggers"},
    "lldb": {"cli/debuggers"},
    "mcp": {"server/mcp"},
    "mcp_types": {"server/mcp"},
    "pydantic": {"server/mcp"},
    "google": {"v1", "profiles", "rpc", "server", "client", "async_client"},
    "elftools": {"debuginfo/verify"},
    "ctypes": {"capture", "system/process", "query/disasm", "server"},
    "socket": {
        "system",
        "capture",
        "rpc",
        "engine/debuginfod_client.py",
        "server",
        "client",
        "cli",
    },
    "starlette": {"server"},
    "uvicorn": {"server/http"},
    "pygments": {"server/http"},
    "sqlite3": {"store"},
    "subprocess": {"system/process", "cli/debuggers"},
    "resource": {"system/process"},
    "multiprocessing": set(),
    "signal": {"system", "server", "cli"},
    "click": {"cli"},
    "pandas": {"model"},
    "pyarrow": {"model", "profiles/sample_tables", "batch"},
    "psycopg": {"store/shared"},
    "obstore": {"store/shared"},
}
"""Outside libraries, and the rooms, parts of rooms or files that may import each."""


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


THE_CONTRACT = {"errors", "model", "config", "api", "system", "v1", "rpc"}
"""What whoever talks to a daemon may know of symd; the client besides itself."""


@pytest.mark.parametrize("room_name", ["rpc", "client", "async_client"])
def test_the_contract_knows_nothing_of_the_engine(room_name: str) -> None:
    """So that the client could be a package of its own, and no answer travels that a client in another language could not
    read."""
    paths = [path for path in SOURCES if room(path) == room_name]
    assert paths
    named = {tuple(name.split(".")) for path in paths for name in imports(path) if name.startswith("symd.")}
    assert {parts[1] for parts in named} - {"client"} <= THE_CONTRACT


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_foreign_and_dangerous_modules_stay_in_their_rooms(path: Path) -> None:
    inside = path.relative_to(ROOT)
    places = {room(path), *(str(each) for each in (inside, *inside.parents))}
    for name in imports(path):
        allowed = ONLY_IN.get(name.split(".")[0])
        assert allowed is None or places & allowed, f"{inside} imports {name}"


def test_every_room_stands_in_the_order() -> None:
    rooms = {room(path) for path in SOURCES} - {"__init__", "__main__"}
    assert rooms <= set(ORDER)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_opens_with_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "no module docstring"


BROAD = {"Exception", "BaseException"}
ENDS_OF_THE_LINE = {
    ("cli/command_line.py", "_explained"): "prints the traceback and exits with the code for a defect",
    (
        "system/process/worker.py",
        "_answer",
    ): "tells the other end the exception and its traceback, which logs it under an id",
    ("system/process/launcher.py", "main"): "tells the other end why, and ends the process",
    ("system/process/fork_server_process.py", "_become"): "tells the other end why, and ends the process",
    ("server/guard.py", "guarded"): "logs the traceback and ends the call with a SymdError that carries its id",
    (
        "server/http/exchange.py",
        "_answered",
    ): "logs the traceback and answers with a SymdError that carries its id",
    ("server/work_queues.py", "_attempt"): "hands it from the lane's thread to the call that waits, where it is raised",
}
"""Functions that may handle every exception without raising one, and what they do instead: nothing stands above them."""


def broad_handlers(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.ExceptHandler | ast.Call]]:
    """(name of the function, node) of each handler and each ``suppress`` that takes every exception."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.ExceptHandler) and (node.type is None or names(node.type) & BROAD):
            yield inside, node
        if isinstance(node, ast.Call) and "suppress" in names(node.func) and names(*node.args) & BROAD:
            yield inside, node
        yield from broad_handlers(node, inside)


def names(*nodes: ast.AST) -> set[str]:
    """Every plain or last dotted name."""
    found = [node for each in nodes for node in ast.walk(each)]
    return {node.id for node in found if isinstance(node, ast.Name)} | {
        node.attr for node in found if isinstance(node, ast.Attribute)
    }


def swallows(node: ast.AST) -> bool:
    """Whether a handler may end without an exception: its last statement must raise, and none may leave it before."""
    if not isinstance(node, ast.ExceptHandler):
        return True
    leaves = (ast.Return, ast.Continue, ast.Break)
    return not isinstance(node.body[-1], ast.Raise) or any(isinstance(each, leaves) for each in ast.walk(node))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_handler_swallows_everything(path: Path) -> None:
    for function, node in broad_handlers(ast.parse(path.read_text())):
        if (str(path.relative_to(ROOT)), function) not in ENDS_OF_THE_LINE:
            assert not swallows(node), f"line {node.lineno}: it goes on as if nothing had happened"


@pytest.mark.parametrize(("file", "function"), ENDS_OF_THE_LINE)
def test_what_may_swallow_still_does(file: str, function: str) -> None:
    handlers = [node for name, node in broad_handlers(ast.parse((ROOT / file).read_text())) if name == function]
    assert any(swallows(node) for node in handlers)


@pytest.mark.parametrize(
    ("text", "swallowed"),
    [
        ("try: f()\nexcept Exception: log()", True),
        ("try: f()\nexcept: pass", True),
        ("try: f()\nexcept (OSError, BaseException) as e: print(e)", True),
        ("try: f()\nexcept builtins.Exception: pass", True),
        ("for x in y:\n try: f()\n except Exception:\n  if x: continue\n  raise", True),
        ("with suppress(Exception): f()", True),
        ("with contextlib.suppress(OSError, Exception): f()", True),
        ("try: f()\nexcept BaseException:\n undo()\n raise", False),
        ("try: f()\nexcept Exception as e: raise Malformed('x') from e", False),
    ],
)
def test_the_test_of_handlers_sees_what_it_should(text: str, swallowed: bool) -> None:
    [(_, node)] = broad_handlers(ast.parse(text))
    assert swallows(node) == swallowed

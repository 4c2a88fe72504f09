"""The names that ``import symd`` offers, and their types: complete, without Any, and right for a user's own checker."""

from __future__ import annotations

import ast
import inspect
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest

import symd
from symd.profiles.sample_tables.tables import TableReport
from symd.profiles.samples import SampledProfile

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("user_program.py")
JSON_READY = {"facts"}
"""Fields that hold whatever a format says of a thing, ready for JSON: their values have no one type."""
FOREIGN = {
    **dict.fromkeys(("DataFrame", "ArrowTable", "ArrowSchema", "RecordBatch"), object),
    "SampledProfile": SampledProfile,
    "TableReport": TableReport,
}
"""Types of packages that need not be installed, and what is imported late."""


def test_importing_symd_imports_nothing_else() -> None:
    program = "import sys, symd; print([name for name in sys.modules if name.startswith(('symd.', 'numpy', 'grpc', 'click'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_every_public_name_is_there_in_one_place() -> None:
    tree = ast.parse(Path(symd.__file__).read_text())
    (checked,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    typed = {(alias.asname or "open", node.module) for node in imported for alias in node.names}
    assert {name for name, _ in typed} | {"__version__"} == set(symd.__all__) == set(symd.__all__) & set(dir(symd))
    assert typed == {(name, home.partition(":")[0]) for name, home in symd._HOMES.items()}
    program = "import symd; print(*[type(getattr(symd, name)).__name__ for name in symd.__all__])"
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'symd' has no attribute 'opne'"):
        _ = symd.opne


def test_the_page_names_every_public_name() -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    assert not [name for name in symd.__all__ if f"`{name}" not in page and f"symd.{name}" not in page]


INTERNAL = ("symd.v1", "symd.rpc")
"""Generated messages, and the calls that clients are made with: nobody else makes either."""


def members(kind: type) -> dict[str, object]:
    """Public methods, properties and fields, by name."""
    found = {name: each for name, each in inspect.getmembers(kind) if not name.startswith("_") or name == "__init__"}
    return {name: each for name, each in found.items() if callable(each) or isinstance(each, property)}


def annotations(function: object, owner: type) -> dict[str, object]:
    module = sys.modules[getattr(function, "__module__", owner.__module__)]
    known = {**vars(typing), **vars(module), **FOREIGN}
    return typing.get_type_hints(function, known, known)


def hints(kind: type) -> dict[str, object]:
    """What each public member takes and gives."""
    found = {
        name: hint
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("symd")
        for name, hint in annotations(base, base).items()
        if not name.startswith("_")
    }
    for name, member in members(kind).items():
        function = member.fget if isinstance(member, property) else member
        if inspect.isfunction(function) and function.__module__.startswith("symd"):
            given = set(inspect.signature(function).parameters) - {"self", "cls"}
            own = annotations(function, kind)
            assert given | {"return"} <= set(own) | ({"return"} if name == "__init__" else set()), (kind, name)
            found |= {f"{name}.{each}": hint for each, hint in own.items()}
    return found


def parts(hint: object) -> list[object]:
    """A type and all that it is made of; of an array, whose shape may be any, the numbers."""
    if typing.get_origin(hint) is np.ndarray:
        return [typing.get_args(hint)[1]]
    return [hint, *(part for each in typing.get_args(hint) for part in parts(each))]


def reachable() -> dict[type, dict[str, object]]:
    """Every class of symd that the public names lead to, with the types of its public members."""
    functions = [symd.open, symd.parse_query]
    waiting = [getattr(symd, name) for name in symd.__all__ if inspect.isclass(getattr(symd, name))]
    for function in functions:
        for hint in annotations(function, object).values():
            waiting += [part for part in parts(hint) if inspect.isclass(part)]
    found: dict[type, dict[str, object]] = {}
    while waiting:
        kind = waiting.pop()
        if kind in found or not kind.__module__.startswith("symd.") or kind.__module__.startswith(INTERNAL):
            continue
        found[kind] = hints(kind)
        waiting += [part for hint in found[kind].values() for part in parts(hint) if inspect.isclass(part)]
    return found


def test_nothing_public_is_of_any_type() -> None:
    found = reachable()
    assert len(found) > 60
    loose = [
        f"{kind.__name__}.{name}"
        for kind, types in found.items()
        for name, hint in types.items()
        if typing.Any in parts(hint) and not JSON_READY & set(name.split("."))
    ]
    assert not loose, loose


def test_a_user_s_program_is_typed_and_mistakes_are_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import symd\n"
        "symd.opne('x')\n"
        "with symd.open('x') as module:\n"
        "    module.symbolize(None)\n"
        "    module.symbolize('vadd+1').frame\n"
        "    module.symbolize(['vadd+1']).frames\n"
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--follow-imports=silent",
        str(PROGRAM),
        str(wrong),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=500)
    errors = [line.split(":")[:2] for line in done.stdout.splitlines() if ": error:" in line]
    theirs = {(Path(file).name, line) for file, line in errors if Path(file).name in (PROGRAM.name, wrong.name)}
    assert theirs == {("wrong.py", each) for each in "2456"}, done.stdout


def test_pyright_agrees() -> None:
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    command = [pyright, "--pythonpath", sys.executable, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=500)
    assert done.returncode == 0, done.stdout

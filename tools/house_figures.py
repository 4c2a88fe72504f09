"""How large the house is: files, lines, statements, rooms, hidden imports, names that stand twice, limits and verbs, of this checkout or another one.

    python tools/house_figures.py            this checkout
    python tools/house_figures.py FOLDER     another checkout, such as a worktree of an older commit
    python tools/house_figures.py --json     one JSON object

Generated code (``symd/v1``, and modules that begin with ``# GENERATED``) is left out. A statement is a node of the syntax tree that is one, docstrings left out. An import is hidden where it stands in a function. A public
name is a class at the top of a module whose name does not begin with ``_``; it stands twice where another module has one that is called the same.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SMALL = 40
"""Lines of a file that is called small."""


def sources(folder: Path) -> list[Path]:
    """The hand-written modules below a folder."""
    paths = [path for path in sorted(folder.rglob("*.py")) if not {"v1", "build", "node_modules"} & set(path.parts)]
    return [path for path in paths if not path.read_text().startswith("# GENERATED")]


def statements(tree: ast.AST) -> int:
    """How many statements there are, without docstrings and other expressions that are constants."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return sum(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in nodes)


def hidden_imports(tree: ast.AST) -> Iterator[ast.stmt]:
    """Imports inside functions."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom))


def size(folder: Path) -> dict[str, float]:
    """The figures of the modules below a folder."""
    paths = sources(folder)
    lines = [path.read_text().count("\n") for path in paths]
    small = [path for path, count in zip(paths, lines, strict=True) if count < SMALL and path.name != "__init__.py"]
    return {
        "files": len(paths),
        "lines": sum(lines),
        "median lines": statistics.median(lines),
        "mean lines": round(statistics.mean(lines)),
        f"files below {SMALL} lines": len(small),
        "statements": sum(statements(ast.parse(path.read_text())) for path in paths),
    }


def figures(checkout: Path) -> dict[str, object]:
    """All figures of a checkout."""
    package = checkout / "symd"
    trees = {path: ast.parse(path.read_text()) for path in sources(package)}
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    tops = [path for path in package.iterdir() if path.suffix == ".py" and not path.name.startswith("__")]
    limits = (package / "config.py").read_text().partition("class Limits")[2].partition("\ndef ")[0]
    return {
        "symd": size(package),
        "tests": size(checkout / "tests"),
        "rooms": sum(path.is_dir() and (path / "__init__.py").exists() for path in package.iterdir()),
        "modules at the top": len(tops),
        "hidden imports": sum(len({*hidden_imports(tree)}) for tree in trees.values()),
        "public classes that stand twice": sum(count > 1 for count in classes.values()),
        "limits": len(re.findall(r"^    \w+: (?:int|float) = ", limits, re.MULTILINE)),
        "verbs": max(map(verbs, trees.values()), default=0),
    }


def verbs(tree: ast.Module) -> int:
    """How many verbs with their summaries the tables of a module have; 0 without tables of verbs."""
    named = (node for node in tree.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name))
    tables = [node for node in named if ast.unparse(node.target) in ("SECTIONS", "OTHERS", "BELOW")]
    texts = (
        value for table in tables for node in ast.walk(table) if isinstance(node, ast.Dict) for value in node.values
    )
    return sum(isinstance(text, ast.Constant) for text in texts)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = figures(chosen.checkout)
    if chosen.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        if isinstance(value, dict):
            print(f"{name}: " + ", ".join(f"{each:,} {what}" for what, each in value.items()))
        else:
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()

"""A docstring stands alone in an editor's hover, where nobody sees what is written above it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.house.test_layers import ROOT, SOURCES

LEANING = re.compile(
    r"(They|Them|Their|Those|These|That|This|It|Its|His|Whose|The same|The others?|Others|Likewise|Ditto|Both"
    r"|So|And|Or|Also|As|Of|By|In|On|At|Above|Below|Behind|With|Without|Before|After|Until|Not|There|Then|Here|No more"
    r"|Told|Safe to use|To be used|(All|None|Some|One|Each) of (it|them)|(What|Where|When|Whether|Which|How) (it|they))\b"
)
"""How a docstring begins that is the rest of what was said before: of a neighbor, or of the name itself."""
FRAGMENT = re.compile(
    r"(As|Of|By|In|Into|On|At|To|Between|Through|Under|Over|Behind|With|Without|Before|After|Until|Likewise|Ditto|The same|Their|Those|Told|Itself"
    r"|None (of|where))\b"
)
"""Of those beginnings the ones that make no sentence even beside the name and code of a private thing."""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The name and the text of each docstring of a class, a function, a constant or a field, private ones too."""
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            yield node.name, ast.get_docstring(node) or ""
        body = node.body if isinstance(node, ast.Module | Definition) else []
        for statement, following in pairwise(body):
            if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
                target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
                yield ast.unparse(target), str(getattr(following.value, "value", ""))


def public_docstrings(node: ast.Module | ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The name and the text of each docstring of a module or a class: of itself, and of its public classes, functions, methods, constants and fields."""
    yield getattr(node, "name", "module"), ast.get_docstring(node) or ""
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, Definition):
            if statement.name.startswith("_"):
                continue
            if isinstance(statement, ast.ClassDef):
                yield from public_docstrings(statement)
            else:
                yield statement.name, ast.get_docstring(statement) or ""
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
            text = following.value if isinstance(following, ast.Expr) else None
            if isinstance(target, ast.Name) and not target.id.startswith("_") and isinstance(text, ast.Constant):
                yield target.id, str(text.value)


def leaning(source: str) -> list[str]:
    """The names whose docstrings lean on what stands around them."""
    return [name for name, text in public_docstrings(ast.parse(source)) if LEANING.match(text)]


@pytest.mark.parametrize(
    "path",
    SOURCES,
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_public_docstring_stands_alone(path: Path) -> None:
    assert not leaning(path.read_text())


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_docstring_is_a_fragment(path: Path) -> None:
    found = docstrings(ast.parse(path.read_text()))
    assert not [name for name, text in found if FRAGMENT.match(text)]


def test_the_check_of_private_docstrings_sees_functions_fields_and_constants() -> None:
    source = '''
_LIMIT = 4
"""Of one file."""
_SOUND = 4
"""The most rows of one file."""
class _Table:
    """As the file has it."""
    def __init__(self):
        """Rows that were read."""
        self._rows = 4
        """By number."""
'''
    found = docstrings(ast.parse(source))
    assert [name for name, text in found if FRAGMENT.match(text)] == ["_LIMIT", "_Table", "self._rows"]


def test_the_check_sees_every_kind_of_docstring_and_no_private_one() -> None:
    source = '''
"""It reads tables."""
LIMIT = 4
"""So many rows are read."""
_HIDDEN = 4
"""So many rows are read."""
SOUND = 4
"""The most rows that are read."""
class Table:
    """Those of a unit."""
    rows: int = 0
    """Its rows."""
    def row(self):
        """The same of one row."""
    async def late(self):
        """As ``row``."""
    def _private(self):
        """The same."""
    class Inner:
        """Both of them."""
class _Private:
    """They."""
    def public(self):
        """They."""
def read():
    """The rows of a table. They are sorted."""
def others():
    """All of them."""
'''
    assert leaning(source) == ["module", "LIMIT", "Table", "rows", "row", "late", "Inner", "others"]

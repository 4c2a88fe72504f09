"""What the documents name is there: every source file, and every room of the house in the table of docs/design.md."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.house.test_layers import ORDER, SOURCES, room

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
_FILE = re.compile(r"`([\w/]+\.py)`")
_PLACEHOLDER = re.compile(r"[A-Z]{2,}")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_source_file_that_a_document_names_is_there(document: Path) -> None:
    named = [name for name in _FILE.findall(document.read_text()) if not _PLACEHOLDER.search(name)]
    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / "symd" / name).exists()]
    assert not missing


def test_the_house_stands_in_the_design_as_it_is_built() -> None:
    text = (ROOT / "docs" / "design.md").read_text()
    table = text[text.index("## The house") : text.index("## One datum's way")]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    drawn = [name.removesuffix(".py").rstrip("/") for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)]
    assert drawn == list(ORDER)
    assert {room(path) for path in SOURCES} - {"__init__", "__main__"} <= set(drawn)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_imports_can_be_imported(document: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    for node in (node for block in blocks for node in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom):
            module = import_module(node.module or "")
            assert not [name.name for name in node.names if not hasattr(module, name.name)], node.module

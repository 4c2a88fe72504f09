"""What the documents name is there: every source file, and every room of the house in the table of docs/design.md."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.house.test_layers import ORDER, SOURCES, room

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent.name != "api"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]
_FILE = re.compile(r"`([\w/]+\.py)`")
_PLACEHOLDER = re.compile(r"[A-Z]{2,}")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_file_that_a_document_names_is_there(document: Path) -> None:
    named = [name for name in _FILE.findall(document.read_text()) if not _PLACEHOLDER.search(name)]
    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / "symd" / name).exists()]
    assert not missing


def test_the_house_stands_in_the_design_as_it_is_built() -> None:
    text = (ROOT / "docs" / "design.md").read_text()
    table = text[text.index("## The house") : text.index("## Data flow")]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    drawn = [name.removesuffix(".py").rstrip("/") for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)]
    assert drawn == list(ORDER)
    assert {room(path) for path in SOURCES} - {"__init__", "__main__"} <= set(drawn)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_imports_can_be_imported(document: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    for node in (node for block in blocks for node in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom):
            module = import_module(node.module or "")
            assert not [name.name for name in node.names if not hasattr(module, name.name)], node.module


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_links_to_is_there(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", document.read_text())
    for path, anchor in links:
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_that_give_figures_again_are_there(document: Path) -> None:
    for command in re.findall(r"`((?:pytest|python|make) [^`]+)`", document.read_text()):
        words = command.split()
        files = [word for word in words[1:] if re.fullmatch(r"(tests|tools|benchmarks|samples)/[\w/.-]+", word)]
        modules = [words[index + 1] for index, word in enumerate(words) if word == "-m" and words[0] == "python"]
        targets = [words[1]] if words[0] == "make" and words[1].islower() else []
        assert not [file for file in files if not (ROOT / file).exists()], command
        assert not [module for module in modules if find_spec(module) is None], command
        assert not [target for target in targets if f"\n{target}:" not in (ROOT / "Makefile").read_text()], command
        if words[0] == "pytest" and "-k" in words:
            wanted = words[words.index("-k") + 1]
            files = [file for file in files if file.endswith(".py")]
            assert wanted.isupper() or any(wanted in (ROOT / file).read_text() for file in files), command

"""Words that only their inventor knew do not come back, one name means one thing, and nothing is spelled by pieces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.test_layers import ROOT, SOURCES, room

BETTER = {
    "Shelf": "IndexCache",
    "Excerpt": "PartialIndex",
    "excerpt": "partial index",
    "Spot": "BreakpointLocation, or what it is a location of",
    "spot": "location",
    "spots": "locations",
    "BreakpointPlace": "BreakpointLocation",
    "Place": "TextSection, or Span of a text",
    "Leaves": "IndexLookup",
    "epochs": "ContextLog",
    "Texts": "TextSections",
    "Scoped": "ScopeTable",
    "undebugged": "no_debug_reason",
    "carried": "embedded",
    "carried_sources": "embedded_sources",
    "covering": "units_for_addresses",
    "Valued": "StackValue",
    "Meaning": "DeviceCandidate",
    "Parts": "ServiceContext",
    "Slots": "StreamLimiter",
    "Questions": "AddressBatch",
    "ticket": "handle",
    "tickets": "handles",
    "Offered": "NamedModule",
    "Wanted": "NameQuery",
    "SpelledOut": "RowAnswers",
    "spelled_out": "row_answers",
    "sick": "malformed",
    "FEW": "a name with what is counted, and its unit",
    "MANY": "a name with what is counted, and its unit",
    "MOST": "a name with what is counted, and its unit",
    "bones": "die_extents",
    "skeleton": "die_extents (a skeleton is a unit of split DWARF)",
    "Turns": "ModuleLocks, or AdvisoryLocks where other daemons are kept out too",
    "SideBySide": "SharedLock",
    "BatchRoom": "WeightedSemaphore",
    "telling": "metrics_served",
    "hand_on": "release_thread",
    "end_unwelcome": "end_unauthorized",
    "run_anywhere": "unpin",
    "Departures": "Removals",
    "departures": "removals",
    "Evictions": "EvictionLog",
    "Bell": "LogSubscription",
    "bell": "subscription",
    "bells": "subscriptions",
    "News": "LogChanges",
    "DiskRoom": "FolderWritability",
    "SharedRoom": "SharedWritability",
    "CacheRoom": "CacheEviction",
}
"""Identifier, with or without leading underscores, to the word of the field."""


ONE_THING = (
    "Part", "Layout", "Unit", "Segment", "Ranges", "Entry", "Dies", "Unpacked", "Interner", "Named", "Found", "Located",
    "Joined", "Resolved", "Placed", "Strings", "Target", "Format", "Cursor",
    "Words", "Context", "Load", "Rows", "Attempts", "Changes",
)  # fmt: skip
"""Class names that stood for several things. A name that several specifications have (Scope, Header, Symbol) may."""
SEVERAL = {"Segment", "Found"}
"""Those of them that still do."""
LEFT: dict[str, set[str]] = {}
"""Identifier to the rooms that have not yet given it up."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def identifiers(path: Path) -> Iterator[tuple[str, int]]:
    """Every name that a module's code says, and its line; prose is free."""
    for node in ast.walk(tree(path)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name):
            yield node.id, line
        elif isinstance(node, ast.Attribute):
            yield node.attr, line
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, line
        elif isinstance(node, ast.arg) or (isinstance(node, ast.keyword) and node.arg):
            yield str(node.arg), line
        elif isinstance(node, ast.alias):
            yield from ((name, line) for name in (node.asname or node.name).split("."))
    yield path.stem, 0


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_private_words_do_not_come_back(path: Path) -> None:
    named = [(name.lstrip("_"), line) for name, line in identifiers(path)]
    back = [(name, line) for name, line in named if name in BETTER and room(path) not in LEFT.get(name, ())]
    assert not [f"line {line}: {name}: say {BETTER[name]}" for name, line in back]


def test_the_check_sees_a_word_wherever_code_can_say_it(tmp_path: Path) -> None:
    source = "from a.Shelf import spot as _FEW\nclass Leaves:\n    sick: int\ndef Meaning(Offered): return Wanted(Texts=1).Parts\n"
    path = tmp_path / "epochs.py"
    path.write_text(f'"""A Spot in prose."""\n{source}')
    assert {name.lstrip("_") for name, _ in identifiers(path)} & set(BETTER) == {
        "FEW", "Leaves", "sick", "Meaning", "Offered", "Wanted", "Texts", "Parts", "epochs",
    }  # fmt: skip


def test_one_name_means_one_thing() -> None:
    classes: dict[str, list[str]] = {name: [] for name in ONE_THING}
    for path in SOURCES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name.lstrip("_") in classes:
                classes[node.name.lstrip("_")].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not {name: places for name, places in classes.items() if len(places) > 1 and name not in SEVERAL}


def test_types_that_everyone_imports_are_not_made_up_on_the_way() -> None:
    for path in SOURCES:
        if room(path) == "model":
            assert "__getattr__" not in {name for name, _ in identifiers(path)}, path


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if room(path) in {"index", "query", "contexts"}],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_no_column_has_a_name_assembled_from_pieces(path: Path) -> None:
    assembled = [
        node.lineno
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.JoinedStr)
    ]
    assert not assembled


def test_a_digest_has_no_pattern_beside_its_check() -> None:
    patterns = [path for path in SOURCES if re.search(r"0-9a-f(A-F)?\]\{64", path.read_text())]
    assert not patterns

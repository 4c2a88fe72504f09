"""docs/reliability.md lists every limit of symd/config.py with its default, and fixed bounds with their values."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from symd.config import Limits

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
TEXT = PAGE.read_text()
TABLES = TEXT[TEXT.index("\n## Budgets") : TEXT.index("\n## Operations")]


def shown(value: float) -> str:
    if isinstance(value, float):
        return f"{value:g} s"
    return f"{value >> 20:,} MiB" if value >= 1 << 20 and value % (1 << 20) == 0 else f"{value:,}"


def test_the_page_lists_every_limit_with_its_default() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", TABLES, re.MULTILINE))
    assert listed == {name: shown(value) for name, value in Limits()._asdict().items()}


def test_the_page_lists_fixed_bounds_with_their_values() -> None:
    rows = re.findall(r"^\| `([\w/]+)\.py` \| (.*) \|$", TABLES, re.MULTILINE)
    assert rows
    for file, bounds in rows:
        module = import_module(f"symd.{file.replace('/', '.')}")
        listed = dict(re.findall(r"`(\w+)` ([\d,]*\d(?: MiB| s\b)?)", bounds))
        assert listed, file
        counted = {name: most for name, (most, _) in getattr(module, "BOUNDS", {}).items()}
        assert listed == {name: shown(counted.get(name) or getattr(module, name.upper())) for name in listed}

"""docs/reliability.md lists every limit of symd/config.py with its default."""

from __future__ import annotations

import re
from pathlib import Path

from symd.config import Limits

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def shown(value: float) -> str:
    if isinstance(value, float):
        return f"{value:g} s"
    return f"{value >> 20:,} MiB" if value >= 1 << 20 and value % (1 << 20) == 0 else f"{value:,}"


def test_the_page_lists_every_limit_with_its_default() -> None:
    text = PAGE.read_text()
    table = text[text.index("\n## Budgets") : text.index("\n## Operations")]
    listed = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.MULTILINE))
    assert listed == {name: shown(value) for name, value in Limits()._asdict().items()}

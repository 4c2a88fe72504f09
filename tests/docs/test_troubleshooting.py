"""Every message that docs/troubleshooting.md explains is one that symd's source says, and every reason of an answer is explained."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from symd.model.answers import Reason

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
ANYTHING = "\0"
"""What stands for the values in the texts of the source."""


def texts() -> list[str]:
    """The texts in symd's source, those with values in them as one."""
    found = []
    for path in (ROOT / "symd").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else ANYTHING for part in node.values]
                found.append("".join(map(str, parts)))
    return found


def first_cells(section: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_every_message_is_one_of_the_source() -> None:
    said = texts()
    messages = first_cells(PAGE.read_text().split("\n## Files\n")[1])
    assert len(messages) > 20
    missing = []
    for message in messages:
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in message.split("…")), re.DOTALL)
        if not any(pattern.search(text) for text in said):
            missing.append(message)
    assert not missing


def test_every_reason_but_exact_is_explained() -> None:
    reasons = first_cells(PAGE.read_text().split("\n## Files\n")[0])
    assert sorted(reasons) == sorted(reason.name for reason in Reason if reason.name != "EXACT")

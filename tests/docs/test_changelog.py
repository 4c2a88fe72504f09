"""The changelog is in order: the sections of Keep a Changelog, each entry once, in one list without gaps."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def sections() -> dict[str, str]:
    """By version and name the text of each."""
    found = {}
    for version in CHANGELOG.read_text().split("\n## ")[1:]:
        name, *parts = re.split(r"^### (.*)\n", version, flags=re.MULTILINE)
        for title, text in zip(parts[::2], parts[1::2], strict=True):
            key = f"{name.split()[0]} {title}"
            assert key not in found, "one section of a name"
            found[key] = text
    return found


def test_sections_stand_in_order() -> None:
    for _, each in groupby(sections(), key=lambda key: key.split()[0]):
        numbers = [SECTIONS.index(key.split()[1]) for key in each]
        assert numbers == sorted(numbers)
        assert numbers


def test_entries_stand_in_one_list_each_once() -> None:
    for key, text in sections().items():
        assert "\n\n" not in text.strip("\n"), f"a blank line in {key}"
        assert text.startswith("\n* ")
        entries = text.strip("\n").removeprefix("* ").split("\n* ")
        assert len(entries) == len(set(entries)), f"an entry stands twice in {key}"

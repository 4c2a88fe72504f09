"""Nouns for so many things."""

from __future__ import annotations


def plural(count: int, thing: str, things: str = "") -> str:
    """The noun for so many: ``thing`` for one, else ``things``, which without a word is ``thing`` with an s."""
    return thing if count == 1 else things or f"{thing}s"


def counted(count: int, thing: str, things: str = "") -> str:
    """So many of them: "1 module", "2,197 modules"."""
    return f"{count:,} {plural(count, thing, things)}"

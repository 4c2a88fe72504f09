"""Function names as they stand in fault text, in the ways in which they may be known: as written, in the order of
qualifiers that the Itanium demanglers have, without parameters."""

from __future__ import annotations

import re

_LEADING_CONST = re.compile(r"(?<=[(,<])(\s*)(const|volatile) ([^(),<>*&]+?)(?=\s*[*&(),<>]|$)")
_SPACED_POINTER = re.compile(r"\s+([*&])")
_BRACKETS = re.compile(r"[()<>]")
_DEEPEST = 64


def spellings(name: str) -> list[str]:
    """``probe(float *, const float3 *)``: itself, ``probe(float*, float3 const*)``; the last word of several, where the text
    before a name was taken for a part of it."""
    found = [name, _itanium(name)]
    if not _BRACKETS.search(name):
        found += name.split()[-1:]
    return list(dict.fromkeys(text for text in found if text))


def spelling_of_overloads(name: str) -> str | None:
    """The name that all overloads of a function have in common, ``probe``; None where the name has no parameters. Which
    overload is meant is lost."""
    itanium = _itanium(name)
    short = without_parameters(itanium)
    return short if short and short != itanium else None


def _itanium(name: str) -> str:
    return _SPACED_POINTER.sub(r"\1", _LEADING_CONST.sub(r"\1\3 \2", name))


def without_parameters(name: str) -> str:
    """The name up to the parameters that it ends with; those of ``operator()`` and of template arguments stay."""
    if not name.endswith((")", ") const")):
        return name
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth > _DEEPEST:
            return name
        if depth == 0 and name[at] == "(":
            return name[:at].rstrip() if at else name
    return name

"""Source paths as people and compilers write them: the same file under several spellings, files by the end of their
path, and rules that say where the compiler's folders lie on this machine."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

from symd.model.sources import PathRule
from symd.model.waiting import check_wanted

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_UPWARD = re.compile(r"\A(\.\./)+")
_BETWEEN_CHECKS = 1024
"""Paths between two looks whether anybody waits."""


def normal(path: str) -> str:
    """The path with forward slashes and without ".", ".." and doubled slashes, as far as text alone can say."""
    if _DRIVE.match(path) or ("\\" in path and "/" not in path):
        path = path.replace("\\", "/")
    return posixpath.normpath(path) if path else ""


class Remapping:
    """Rules for many paths: what of a rule does not depend on the path, which may be long, is worked out once."""

    def __init__(self, rules: Sequence[PathRule]) -> None:
        self._rules = [(normal(rule.prefix), rule.replacement) for rule in rules]

    def of(self, path: str) -> str:
        """The path after the first rule that fits, normal; without one as it is."""
        plain = normal(path)
        for prefix, replacement in self._rules:
            rest = _below(plain, prefix)
            if rest is not None:
                return normal(f"{replacement}/{rest}" if rest else replacement)
        return path


def remapped(path: str, rules: Sequence[PathRule]) -> str:
    """The path after the first of ``rules`` that fits, normal; without one as it is."""
    return Remapping(rules).of(path)


def _below(path: str, folder: str) -> str | None:
    """What is left of ``path`` below ``folder``, None when it lies elsewhere."""
    if not folder:
        return None if path.startswith("/") or _DRIVE.match(path) else path
    if path == folder:
        return ""
    start = folder if folder.endswith("/") else f"{folder}/"
    return path[len(start) :] if path.startswith(start) else None


def ends_with(path: str, wanted: str) -> bool:
    """Whether the last components of ``path`` are those of ``wanted``; both normal."""
    return path == wanted or (not wanted.startswith("/") and path.endswith(f"/{wanted}"))


def matching(
    paths: Iterable[str],
    wanted: str,
    rules: Sequence[PathRule] = (),
) -> dict[str, list[str]]:
    """The files that ``wanted`` can mean, each with the spellings of ``paths`` that are it.

    Keys are normal and remapped. A path is found under its own name and under that which the rules give it. Where one
    file is ``wanted`` exactly, the others are not meant.
    """
    plain = _UPWARD.sub("", normal(wanted))
    found: dict[str, list[str]] = {}
    exact: set[str] = set()
    remapping = Remapping(rules)
    for number, path in enumerate(paths):
        if not number % _BETWEEN_CHECKS:
            check_wanted()
        file = normal(remapping.of(path))
        names = {normal(path), file}
        if any(ends_with(name, plain) for name in names):
            found.setdefault(file, []).append(path)
            if plain in names:
                exact.add(file)
    return {file: found[file] for file in exact} if exact else found


def base_name(path: str) -> str:
    return posixpath.basename(normal(path))

"""How wide the lines are of source texts that a code object carries: a row with another line or column contradicts
them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from itertools import zip_longest

MAX_REPEATED = 8
"""Times the bytes of a module or a section that the texts of all files may have characters: equal files may share a
string."""
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(line\b|[0-9])", re.MULTILINE)
"""A directive that moves lines: what follows in a text does not tell which lines there are."""
_LINE_END = re.compile("\r\n?|\n")
_JOINED = re.compile(r"\\\r?\n|\r(?!\n)")
"""Compilers count columns differently in lines that go on in the next, and where a carriage return alone ends one."""
_TAB = 8
"""Columns that a tab takes for compilers that expand it, at most."""
_ANY_COLUMN = 1 << 32


def widths_by_file(texts: Iterable[tuple[str, str]]) -> dict[str, array[int]]:
    """The last column (i64) that a compiler may name, by file, and there by line from 1 on, in one of its texts. Of no
    file where directives move lines: no text tells which there are."""
    found: dict[str, array[int]] = {}
    for file, content in texts:
        if _DIRECTIVE.search(content):
            return {}
        own, other = _widths(content), found.get(file)
        found[file] = own if other is None else array("q", map(max, zip_longest(own, other, fillvalue=0)))
    return found


def _widths(text: str) -> array[int]:
    """The last column of each line, from 1 on, that a compiler may name: behind the last byte, with tabs expanded."""
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    if _JOINED.search(text):
        return array("q", [0, *[_ANY_COLUMN] * len(lines)])
    return array("q", [0, *(len(line.encode()) + (_TAB - 1) * line.count("\t") + 1 for line in lines)])

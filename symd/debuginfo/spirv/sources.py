"""Source text that a SPIR-V module carries inside: OpSource, and the DebugSource of the debug sets; and how wide the
lines of such texts are: a row with another line or column contradicts them.

Source: SPIR-V 1.6, 3.52.2 (OpSource, OpSourceContinued); NonSemantic.Shader.DebugInfo.100, DebugSource."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from symd.errors import Malformed
from symd.formats.spirv.grammar import Debug
from symd.formats.spirv.module import DebugWords, debug_words
from symd.model.code import CodeObject

__all__ = ("MOST_REPEATED", "every_text", "source_texts", "widths_by_file")

MOST_REPEATED = 8
"""Times the module's bytes that the texts of all files may have characters: equal files may share a string."""
_CHECKSUM = "//__CSK_"
"""llvm-spirv writes a checksum where the text would stand."""


def source_texts(code: CodeObject) -> Mapping[str, str]:
    """File path to its text, for every file whose text is in the module. Raises Malformed where the module does not
    split into instructions, and like ``every_text``."""
    found: dict[str, str] = {}
    for file, content in every_text(debug_words(code), code.path):
        found.setdefault(file, content)
    return found


def every_text(words: DebugWords, path: str) -> Sequence[tuple[str, str]]:
    """(File path, text) of every text in the module at ``path``, also where a module that was linked has several texts
    of one file. Raises Malformed where texts are pieced together of the same strings again and again."""
    pieces = [*words.sources, *_from_debug_source(words)]
    if sum(len(part) for _, parts in pieces for part in parts) > MOST_REPEATED * 4 * len(words.columns[0]):
        raise Malformed(f"its source texts are {MOST_REPEATED} times as long as the module", where=path)
    joined = ((file, "".join(parts)) for file, parts in pieces)
    return [(file, content) for file, content in joined if content and not content.startswith(_CHECKSUM)]


def _from_debug_source(words: DebugWords) -> list[tuple[str, list[str]]]:
    """DebugSource: file, text; each DebugSourceContinued after it goes on. Where one names what another named, it is
    the same text."""
    found: list[tuple[str, list[str]]] = []
    pieces: list[str] = []
    seen: set[tuple[int, ...]] = set()
    for item in words.described:
        ops = item.operands
        if item.opcode == Debug.SourceContinued and item.layout.numbers_are_ids and ops:
            pieces.append(words.strings.get(ops[0], ""))
        elif item.opcode == Debug.Source:
            pieces = []
            if len(ops) > 1 and ops[:2] not in seen:
                pieces.append(words.strings.get(ops[1], ""))
                found.append((words.strings.get(ops[0], ""), pieces))
            seen.add(ops[:2])
    return [(file, parts) for file, parts in found if file]


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

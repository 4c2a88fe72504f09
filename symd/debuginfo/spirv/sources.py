"""Source text that a SPIR-V module carries inside: OpSource, and the DebugSource of the debug sets; and how wide the
lines of such texts are: a row with another line or column contradicts them.

Source: SPIR-V 1.6, 3.52.2 (OpSource, OpSourceContinued); NonSemantic.Shader.DebugInfo.100, DebugSource."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from symd.errors import Malformed
from symd.formats.spirv.grammar import Debug, Op
from symd.formats.spirv.module import own_and_described
from symd.formats.spirv.words import Words, text
from symd.model.code import CodeObject

__all__ = ("MOST_REPEATED", "every_text", "source_texts", "widths_by_file")

MOST_REPEATED = 8
"""Times the module's bytes that the texts of all files may have characters: equal files may share a string."""
_CHECKSUM = "//__CSK_"
"""llvm-spirv writes a checksum where the text would stand."""

_Pieces = list[tuple[str, list[str]]]
"""Files, each with the parts of one text of it."""


def source_texts(code: CodeObject) -> Mapping[str, str]:
    """File path to its text, for every file whose text is in the module. Raises Malformed like ``spirv.lines.read``,
    and where texts are pieced together of the same strings again and again."""
    found: dict[str, str] = {}
    for file, content in every_text(code):
        found.setdefault(file, content)
    return found


def every_text(code: CodeObject) -> Sequence[tuple[str, str]]:
    """(File path, text) of every text in the module, also where a module that was linked has several texts of one file.
    Raises Malformed like ``spirv.lines.read``, and where texts are pieced together of the same strings again and
    again."""
    words = own_and_described(code)[1].words
    pieces: _Pieces = []
    _from_op_source(words, pieces)
    _from_debug_source(words, pieces)
    if sum(len(part) for _, parts in pieces for part in parts) > MOST_REPEATED * 4 * len(words.words):
        raise Malformed(f"its source texts are {MOST_REPEATED} times as long as the module", where=code.path)
    joined = ((file, "".join(parts)) for file, parts in pieces)
    return [(file, content) for file, content in joined if content and not content.startswith(_CHECKSUM)]


def _from_op_source(words: Words, pieces: _Pieces) -> None:
    """OpSource: language, version, file, text; each OpSourceContinued after it goes on."""
    current: list[str] | None = None
    for number, ops in words.each(Op.Source, Op.SourceContinued):
        if words.opcode[number] == Op.SourceContinued:
            if current is not None:
                current.append(text(ops)[0])
            continue
        file = words.strings.get(ops[2], "") if len(ops) > 3 else ""
        current = _begin(pieces, file)
        if current is not None:
            current.append(text(ops[3:])[0])


def _from_debug_source(words: Words, pieces: _Pieces) -> None:
    """DebugSource: file, text; each DebugSourceContinued after it goes on. Where one names what another named, it is
    the same text."""
    current: list[str] | None = None
    seen: set[tuple[int, ...]] = set()
    for item in words.debug_instructions(Debug.Source, Debug.SourceContinued):
        ops = item.operands
        if item.opcode == Debug.SourceContinued:
            if current is not None and item.layout.numbers_are_ids and ops:
                current.append(words.strings.get(ops[0], ""))
            continue
        is_new = len(ops) > 1 and ops[:2] not in seen
        current = _begin(pieces, words.strings.get(ops[0], "")) if is_new else None
        seen.add(ops[:2])
        if current is not None:
            current.append(words.strings.get(ops[1], ""))


def _begin(pieces: _Pieces, file: str) -> list[str] | None:
    """The place for a text of ``file``; None where it has no name."""
    if not file:
        return None
    pieces.append((file, []))
    return pieces[-1][1]


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

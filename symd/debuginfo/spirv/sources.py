"""Source text that a SPIR-V module carries inside: OpSource, and the DebugSource of the debug sets.

Source: SPIR-V 1.6, 3.52.2 (OpSource, OpSourceContinued); NonSemantic.Shader.DebugInfo.100, DebugSource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symd.debuginfo.text_widths import MOST_REPEATED
from symd.errors import Malformed
from symd.formats.spirv.grammar import Debug, Op
from symd.formats.spirv.module import own_and_described
from symd.formats.spirv.words import Words, text
from symd.model.code import CodeObject

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

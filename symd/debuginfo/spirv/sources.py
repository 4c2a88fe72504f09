"""Source text that a SPIR-V module carries inside: OpSource, and the DebugSource of the debug sets.

Source: SPIR-V 1.6, 3.52.2 (OpSource, OpSourceContinued); NonSemantic.Shader.DebugInfo.100, DebugSource."""

from __future__ import annotations

from collections.abc import Mapping

from symd.errors import Malformed
from symd.model.code import CodeObject
from symd.spirv.debug_sets import Debug
from symd.spirv.grammar import Op
from symd.spirv.module import parsed_module
from symd.spirv.words import Words, text

__all__ = ("source_texts",)

_REPEATED = 8
"""Times the module's bytes that the texts of all files may have characters: equal files may share a string."""
_CHECKSUM = "//__CSK_"
"""llvm-spirv writes a checksum where the text would stand."""


def source_texts(code: CodeObject) -> Mapping[str, str]:
    """File path to its text, for every file whose text is in the module. Raises Malformed like ``spirv_lines.read``, and where
    texts are pieced together of the same strings again and again."""
    words = parsed_module(code).words
    pieces: dict[str, list[str]] = {}
    _from_op_source(words, pieces)
    _from_debug_source(words, pieces)
    if sum(len(part) for parts in pieces.values() for part in parts) > _REPEATED * len(code.data):
        raise Malformed(f"its source texts are {_REPEATED} times as long as the module", where=code.path)
    joined = ((file, "".join(parts)) for file, parts in pieces.items())
    return {file: content for file, content in joined if content and not content.startswith(_CHECKSUM)}


def _from_op_source(words: Words, pieces: dict[str, list[str]]) -> None:
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


def _from_debug_source(words: Words, pieces: dict[str, list[str]]) -> None:
    """DebugSource: file, text; each DebugSourceContinued after it goes on."""
    current: list[str] | None = None
    for item in words.debug_instructions(Debug.Source, Debug.SourceContinued):
        ops = item.operands
        if item.opcode == Debug.SourceContinued:
            if current is not None and item.layout.numbers_are_ids and ops:
                current.append(words.strings.get(ops[0], ""))
            continue
        current = _begin(pieces, words.strings.get(ops[0], "")) if len(ops) > 1 else None
        if current is not None:
            current.append(words.strings.get(ops[1], ""))


def _begin(pieces: dict[str, list[str]], file: str) -> list[str] | None:
    """The place for the text of ``file``; None where it has no name or its text is known already."""
    if not file or file in pieces:
        return None
    return pieces.setdefault(file, [])

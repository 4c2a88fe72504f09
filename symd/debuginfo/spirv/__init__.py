"""Lines, scopes and source texts of SPIR-V modules. Here are the texts that a module carries inside: OpSource, and the
DebugSource of the debug sets.

Source: SPIR-V 1.6, 3.52.2 (OpSource, OpSourceContinued); NonSemantic.Shader.DebugInfo.100, DebugSource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symd.debuginfo.text_widths import MAX_REPEATED
from symd.errors import Malformed
from symd.formats.spirv import Debug
from symd.formats.spirv.module import DebugWords, debug_words
from symd.model.code import CodeObject

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
    if sum(len(part) for _, parts in pieces for part in parts) > MAX_REPEATED * 4 * len(words.columns[0]):
        raise Malformed(f"its source texts are {MAX_REPEATED} times as long as the module", where=path)
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

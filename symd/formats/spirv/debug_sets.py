"""Extended instruction sets for debug data: their instructions by number, and how each set that is read lays out operands.

The sets share the numbers up to 35. OpenCL.DebugInfo.100 and its forerunners ("DebugInfo", which names files by OpString and has
no DebugSource, and the translator's "SPIRV.debug") write numbers such as lines as literals; NonSemantic.Shader.DebugInfo writes
ids of constants, as non-semantic sets must, and has instructions of its own above 100. Its version 200, which DPC++ 2026
writes, has the column of an inlined call too.

Source: the specifications of OpenCL.DebugInfo.100 and NonSemantic.Shader.DebugInfo.100; SPIRV-LLVM-Translator for version 200."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from symd.model.named_tuples import NamedTuple


class Debug(IntEnum):
    """Instructions, without their "Debug"."""

    InfoNone = 0
    TypeTemplate = 14
    Function = 20
    LexicalBlock = 21
    LexicalBlockDiscriminator = 22
    Scope = 23
    NoScope = 24
    InlinedAt = 25
    LocalVariable = 26
    Source = 35
    FunctionDefinition = 101
    SourceContinued = 102
    Line = 103
    NoLine = 104
    BuildIdentifier = 105


class DebugSet(NamedTuple):
    """One version of a set. ``numbers_are_ids``: whether numbers among the operands are ids of constants, or literals;
    ``inlined_at_column``: whether DebugInlinedAt has a column between its line and its scope."""

    numbers_are_ids: bool
    inlined_at_column: bool = False


_LITERALS, _IDS = DebugSet(numbers_are_ids=False), DebugSet(numbers_are_ids=True)
DEBUG_SETS: Mapping[str, DebugSet] = {
    "DebugInfo": _LITERALS,
    "SPIRV.debug": _LITERALS,
    "OpenCL.DebugInfo.100": _LITERALS,
    "NonSemantic.Shader.DebugInfo.100": _IDS,
    "NonSemantic.Shader.DebugInfo.200": DebugSet(numbers_are_ids=True, inlined_at_column=True),
}
"""The sets that are read, by the name under which a module imports them."""


def is_unknown(name: str) -> bool:
    """Whether this is a set for debug data that is not read: another one, or a version whose instructions are not known,
    which is never read as another."""
    if name in DEBUG_SETS or "DebugInfo" not in name:
        return False
    import re  # noqa: PLC0415 - hardly any module has one

    return re.fullmatch(r"(.*\.)?DebugInfo(\.\d+)?", name, re.DOTALL) is not None

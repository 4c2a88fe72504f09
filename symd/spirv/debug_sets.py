"""Extended instruction sets for debug data: their instructions by number, and which sets, in which versions, are read.

The sets share the numbers up to 35. OpenCL.DebugInfo.100 and its forerunners ("DebugInfo", which names files by OpString and has
no DebugSource, and the translator's "SPIRV.debug") write numbers such as lines as literals; NonSemantic.Shader.DebugInfo.100
writes ids of constants, as non-semantic sets must, and has instructions of its own above 100.

Source: the specifications of OpenCL.DebugInfo.100 and NonSemantic.Shader.DebugInfo.100."""

from __future__ import annotations

from enum import IntEnum


class Debug(IntEnum):
    """Instructions, without their "Debug"."""

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


NUMBERS_ARE_IDS = {
    "DebugInfo": False,
    "SPIRV.debug": False,
    "OpenCL.DebugInfo.100": False,
    "NonSemantic.Shader.DebugInfo.100": True,
}
"""The sets that are read: whether numbers among the operands are ids of constants (True) or literals."""
_FAMILIES = ("OpenCL.DebugInfo.", "NonSemantic.Shader.DebugInfo.")


def is_unknown_version(name: str) -> bool:
    """Whether this is a set for debug data in a version whose instructions are not known, which is never read as another."""
    return name.startswith(_FAMILIES) and name not in NUMBERS_ARE_IDS

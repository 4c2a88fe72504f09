"""Why an address has the answer it has."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """Why an address has the answer it has. The numbers travel on the wire and in index files: never reuse one."""

    EXACT = 1
    """A line row covers the address."""
    APPROXIMATE = 2
    """The row says line 0. Given is the line of the nearest earlier row in the same scope (this function, or this
    inlined call of it)."""
    NO_LINE = 3
    """A function covers the address; no line row does, or one of line 0 with none of another line before it."""
    GAP = 4
    """Inside text, but in no function: a row that reaches over the end of its function does not count there."""
    OUTSIDE_TEXT = 5
    """The address is in no text of the module. A function of size 0 has no text: any offset in it is outside."""
    NO_DEBUG_INFO = 6
    """The code object carries no debug information."""
    AMBIGUOUS = 7
    """Several code objects or sections could be meant; see the candidates."""
    UNKNOWN_KERNEL = 8
    """The query names a kernel or a section that the module lacks. For a device address also: the load names a code
    object that it lacks."""
    UNKNOWN_MODULE = 9
    """No module with that identity is known."""
    UNLOADED = 10
    """The module was not loaded at that time."""
    MALFORMED = 11
    """The code object's debug information contradicts its format."""
    INFERRED = 12
    """Rows and scopes contradict each other here, and the rest of the debug data leaves only one reading: this one."""
    CONTRADICTORY = 13
    """The debug data contradicts itself here. Given are the frames that are sure all the same, and no line and no name
    that is not."""
    DEBUG_DATA_ELSEWHERE = 14
    """The debug data of this code was split off into a file that is not here; the module's notes name it. Given is the
    line of the row, and no function: which call of which function it is would be in that file. Where that has the
    rows too, the function is given that a symbol names."""
    UNRECOGNIZED = 255
    """The daemon is newer, and gave a reason that this symd has no name for. Given is what it gave. Nobody sends or
    keeps this number."""


KNOWN = tuple(reason for reason in Reason if reason is not Reason.UNRECOGNIZED)
"""The reasons that travel between client and daemon and are in index files: all but UNRECOGNIZED."""

ANSWERED = frozenset(
    {
        Reason.EXACT,
        Reason.APPROXIMATE,
        Reason.INFERRED,
        Reason.NO_LINE,
        Reason.CONTRADICTORY,
        Reason.DEBUG_DATA_ELSEWHERE,
    }
)
"""Reasons with which an answer has a line, or a function."""

LINED = frozenset({Reason.EXACT, Reason.INFERRED, Reason.CONTRADICTORY})
"""Reasons with which an answer's line, where there is one, is that of the address and no other's."""

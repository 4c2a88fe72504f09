"""Texts of source files, and rules that say where the compiler's folders lie on this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from symd.errors import BadQuery


@dataclass(frozen=True, slots=True)
class PathRule:
    """Paths that begin with the folder ``prefix`` begin with ``replacement`` here. An empty prefix means relative
    paths."""

    prefix: str
    replacement: str


def parse_rule(text: str) -> PathRule:
    """``FROM=TO``. Raises ``BadQuery``."""
    prefix, equals, replacement = text.partition("=")
    if not equals or not (prefix or replacement):
        raise BadQuery(f"{text[:80]!r} is not a path rule", hint="write FROM=TO, such as /build/src=/home/me/src")
    return PathRule(prefix, replacement)


class TextOrigin(IntEnum):
    """Where a text is from. The numbers travel on the wire."""

    NONE = 0
    """Nobody has it; ``SourceText.problem`` says why."""
    MODULE = 1
    DISK = 2


@dataclass(frozen=True, slots=True)
class SourceText:
    """What is known of one source file.

    ``file`` is its name in frames; ``path`` where it was read from on disk; ``md5`` what the compiler says of the file
    that it read (16 bytes), None where it says nothing; ``problem`` why there is no text ("" when there is). ``named``
    is False for a file that no code object of the module names: it is looked for nowhere.
    """

    file: str
    text: str | None = field(default=None, repr=False)
    origin: TextOrigin = TextOrigin.NONE
    path: str | None = None
    md5: bytes | None = None
    problem: str = ""
    named: bool = True

    def lines(self) -> list[str]:
        """The lines of the text as compilers count them, without their ends: other characters that Python's
        ``splitlines`` takes for ends, such as a form feed, are part of a line."""
        found = (self.text or "").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return found[:-1] if not found[-1] else found

    @property
    def verified(self) -> bool:
        """Whether the text is known to be the compiler's: it came with the module, or its MD5 is right."""
        return self.text is not None and (self.origin is TextOrigin.MODULE or self.md5 is not None)

"""The readable part of a mangled C++ name: namespaces, classes and the function, without template arguments and
parameters, so that functions are found as people call them (Itanium C++ ABI, section 5.1)."""

from __future__ import annotations

import re

_LONGEST = 1 << 14
_LENGTH = re.compile(r"[0-9]+", re.ASCII)
_QUALIFIERS = re.compile(r"[rVK]*[RO]?", re.ASCII)
_ADDRESS_SPACE = re.compile(r"U[0-9]+", re.ASCII)
_ATOM = re.compile(
    r"L[a-z]n?[0-9]*E"  # a literal of a builtin type
    r"|S(?:[tabsiod]|[0-9A-Z]*_)|T[0-9]*_|A[0-9]*_|Dv[0-9]+_|DF[0-9]+_|D[acdefhinpsu]|[a-zKOPRVU]",
    re.ASCII,
)
_OPENING, _CLOSING = "INJFX", "E"


def qualified_name(mangled: str) -> str | None:
    """``shading::march`` for ``_ZN7shading5marchIfEET_S1_i``; None for what is not mangled, or has parts in its name
    that are not understood: operators, local entities, substitutions."""
    if not mangled.startswith("_Z") or len(mangled) > _LONGEST:
        return None
    reader = _Reader(mangled)
    try:
        return "::".join(reader.nested() if reader.take("N") else reader.plain())
    except _UnknownPart:
        return None


class _UnknownPart(Exception):
    """A part that is not understood."""


class _Reader:
    """``at`` moves over ``text``; all methods raise ``_UnknownPart`` where they cannot go on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = len("_Z")

    def take(self, token: str) -> bool:
        found = self.text.startswith(token, self.at)
        self.at += len(token) * found
        return found

    def plain(self) -> list[str]:
        return ["std", self._source_name()] if self.take("St") else [self._source_name()]

    def nested(self) -> list[str]:
        self._skip_qualifiers()
        parts = ["std"] if self.take("St") else []
        while not self.take(_CLOSING):
            if self.take("I"):
                self._skip_arguments()
            elif parts and (self.take("C1") or self.take("C2") or self.take("C3")):
                parts.append(parts[-1])
            elif parts and (self.take("D0") or self.take("D1") or self.take("D2")):
                parts.append(f"~{parts[-1]}")
            else:
                parts.append(self._source_name())
        return parts

    def _skip_qualifiers(self) -> None:
        """Of a member function: const and the like, and vendors' address spaces."""
        while space := _ADDRESS_SPACE.match(self.text, self.at):
            self._skip_match(space)
            self.at += int(space[0][1:])
        self._skip_match(_QUALIFIERS.match(self.text, self.at))

    def _source_name(self) -> str:
        _ = self.take("L")  # of internal linkage
        length = _LENGTH.match(self.text, self.at)
        if not length or len(length[0]) > len(str(_LONGEST)):
            raise _UnknownPart
        self._skip_match(length)
        self.at += int(length[0])
        if self.at > len(self.text):
            raise _UnknownPart
        name = self.text[length.end() : self.at]
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N") else name

    def _skip_arguments(self) -> None:
        """Behind the "I" of template arguments, up to and over its "E"."""
        depth = 1
        while depth:
            character = self.text[self.at : self.at + 1]
            if character.isdecimal():
                self._source_name()
            elif character and character in f"{_OPENING}{_CLOSING}":
                depth += -1 if character == _CLOSING else 1
                self.at += 1
            else:
                self._skip_match(_ATOM.match(self.text, self.at))

    def _skip_match(self, match: re.Match[str] | None) -> None:
        if match is None:
            raise _UnknownPart
        self.at = match.end()

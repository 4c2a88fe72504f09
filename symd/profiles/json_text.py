"""JSON edited in place: values are found with their spans in the text, and everything between the edits stays character
for character. One pass, at the speed of the standard library's scanner.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from symd.errors import Malformed

_SPACE = re.compile(r"[ \t\n\r]*")
_READ = json.JSONDecoder(strict=False).raw_decode
WHERE = "the profile"


class Span(NamedTuple):
    """The piece ``text[begin:end]`` of a text."""

    begin: int
    end: int


Edit = tuple[Span, str]
"""A span, and the text to put in its place; at an empty span the text is inserted."""


def decode(data: bytes) -> str:
    """The text; bytes that are no UTF-8 survive the way there and back."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class JsonCursor:
    """A position in a text that moves over values: at a value, ``value`` reads it, and ``members`` and ``elements`` go
    into it. What a caller of those two leaves unread is passed over. All raise Malformed."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at
        self.space()

    def space(self) -> int:
        """Pass white space; returns where the cursor is then."""
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at

    def peek(self) -> str:
        """The character here; "" at the end."""
        return self.text[self.at : self.at + 1]

    def value(self) -> Any:
        """The value here; the cursor is after it then."""
        try:
            found, self.at = _READ(self.text, self.at)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"JSON is damaged at character {self.at}: {error}", where=WHERE) from error
        return found

    def members(self) -> Iterator[str]:
        """The keys of the object here; at each the cursor is at its value."""
        for _ in self._parts("{", "}"):
            key = self.value()
            if not isinstance(key, str):
                raise Malformed(f"JSON is damaged before character {self.at}: a key is not a string", where=WHERE)
            self.space()
            self._take(":")
            begin = self.space()
            yield key
            if self.at == begin:
                self.value()

    def elements(self) -> Iterator[int]:
        """Where each element of the array here begins; the cursor is there."""
        for begin in self._parts("[", "]"):
            yield begin
            if self.at == begin:
                self.value()

    def _parts(self, opening: str, closing: str) -> Iterator[int]:
        self._take(opening)
        self.space()
        while self.peek() != closing:
            yield self.at
            self.space()
            if self.peek() != closing:
                self._take(",")
                if self._after_comma() == closing:
                    raise Malformed(f"JSON is damaged at character {self.at}: a value is missing", where=WHERE)
        self._take(closing)

    def _after_comma(self) -> str:
        self.space()
        return self.peek()

    def _take(self, character: str) -> None:
        if self.peek() != character:
            raise Malformed(f"JSON is damaged at character {self.at}: {character!r} is missing", where=WHERE)
        self.at += 1


def with_edits(text: str, edits: list[Edit]) -> str:
    """The text with edits at spans that do not overlap, given in any order."""
    pieces: list[str] = []
    kept = 0
    for span, new in sorted(edits):
        pieces += [text[kept : span.begin], new]
        kept = span.end
    pieces.append(text[kept:])
    return "".join(pieces)


def appended(span: Span, key: str, new: str, *, empty: bool) -> Edit:
    """The edit that adds a member at the end of the object at ``span``; ``empty``: it has none so far."""
    at = span.end - 1
    return Span(at, at), f"{'' if empty else ', '}{json.dumps(key)}: {new}"

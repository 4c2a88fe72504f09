"""Names and paths as Protocol Buffers take them: valid UTF-8."""

from __future__ import annotations

from collections.abc import Iterable
from typing import overload


@overload
def utf8(text: str) -> str: ...
@overload
def utf8(text: None) -> None: ...
def utf8(text: str | None) -> str | None:
    """``text`` with U+FFFD for every byte that was no UTF-8 in the file it was read from (a surrogate in ``text``)."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def utf8s(texts: Iterable[str]) -> list[str]:
    return [text if text.isascii() else utf8(text) for text in texts]

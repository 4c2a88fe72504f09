"""Names and paths as Protocol Buffers take them: valid UTF-8."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import overload

_SURROGATE = re.compile("[\ud800-\udfff]")


@overload
def utf8(text: str) -> str: ...
@overload
def utf8(text: None) -> None: ...
def utf8(text: str | None) -> str | None:
    """``text`` with U+FFFD for every surrogate: a byte that was no UTF-8 in the file it was read from, or half a pair that the file had."""
    if text is None or text.isascii():
        return text
    return _SURROGATE.sub("\ufffd", text)


def utf8s(texts: Iterable[str]) -> list[str]:
    return [text if text.isascii() else utf8(text) for text in texts]

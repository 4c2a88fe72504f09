"""Streams of messages: bytes cut into chunks that fit one, and messages gathered by the header that begins them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

Message = TypeVar("Message", bound=Any)


def chunks_of(data: bytes, size: int) -> Iterator[bytes]:
    """``data`` in chunks of ``size`` bytes; none when it is empty."""
    view = memoryview(data)
    for start in range(0, len(view), size):
        yield bytes(view[start : start + size])


def by_header(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """The messages of a stream in groups: each group begins with a message that has the field ``header``, but for what comes before the
    first of them."""
    group: list[Message] = []
    for message in messages:
        if message.HasField("header") and group:
            yield group
            group = []
        group.append(message)
    if group:
        yield group

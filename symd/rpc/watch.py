"""A watch's call, which is made anew where its daemon is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class OpenWatch:
    """A watch's call, and the calls that go on after it where a daemon is lost. The first is made at once.

    ``begin`` makes a call of the request after a position."""

    def __init__(self, begin: Callable[[str], Any], position: str) -> None:
        self._begin = begin
        self._ended = False
        self._call = begin(position)

    def cancel(self) -> None:
        """End it. From any thread."""
        self._ended = True
        self._call.cancel()

    def call(self, position: str) -> Any:
        """The call that goes on at ``position``."""
        if self._call.done():
            self._call = self._begin(position)
        if self._ended:
            self._call.cancel()
        return self._call


def begun_after(method: Callable[..., Any], request: Any, metadata: Any = None) -> Callable[[str], Any]:
    """Begins a watch's call after a position."""

    def begin(position: str) -> Any:
        request.resume_after = position
        return method(request, metadata=metadata)

    return begin


def begun(request: Any) -> Any:
    """A message, or an iterator of messages from its beginning."""
    return request() if callable(request) else request

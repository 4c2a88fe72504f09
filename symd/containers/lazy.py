"""Facts and warnings that are looked for when somebody first looks at them: one question about one address needs none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload


class LazyMapping(Mapping[str, Any]):
    """A mapping that ``read`` returns, called when the mapping is first used. Equal to any mapping that holds the same."""

    __slots__ = ("_known", "_read")

    def __init__(self, read: Callable[[], dict[str, Any]]) -> None:
        self._read = read
        self._known: dict[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        """The dictionary itself."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def __getitem__(self, name: str) -> Any:
        return self.plain()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain())

    def __len__(self) -> int:
        return len(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())


class LazySequence(Sequence[str]):
    """A sequence of texts that ``read`` returns, called when the first is asked for. Equal to any sequence that holds the
    same."""

    __slots__ = ("_known", "_read")

    def __init__(self, read: Callable[[], tuple[str, ...]]) -> None:
        self._read = read
        self._known: tuple[str, ...] | None = None

    def plain(self) -> tuple[str, ...]:
        """The texts themselves."""
        if self._known is None:
            self._known = self._read()
        return self._known

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        return self.plain()[at]

    def __len__(self) -> int:
        return len(self.plain())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.plain() == tuple(other)

    def __hash__(self) -> int:
        return hash(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())

"""Facts and warnings that are read when somebody first looks at them: a question about one address needs none."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence

from symd.model.light_typing import Any, TypeVar, overload

_Item = TypeVar("_Item")


class LazyMapping(Mapping[str, "Any"]):
    """A mapping that ``read`` returns, called when the mapping is first used. Equal to any mapping that holds the
    same."""

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


class PackedRecords:
    """A list of records inside of facts that is unpacked whenever somebody looks, and not kept; how many there are is
    known."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def plain(self) -> list[dict[str, Any]]:
        """The records themselves."""
        raise NotImplementedError


class PackedMapping(LazyMapping):
    """A mapping of which some values may be ``PackedRecords`` in what ``read`` returns."""

    __slots__ = ()

    def packed(self) -> dict[str, Any]:
        """What was read. ``read``, and whatever it knows, is forgotten."""
        known = super().plain()
        self._read = _nothing
        return known

    def plain(self) -> dict[str, Any]:
        return {name: _unpacked(value) for name, value in self.packed().items()}

    def __getitem__(self, name: str) -> Any:
        return _unpacked(self.packed()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.packed())

    def __len__(self) -> int:
        return len(self.packed())

    def items(self) -> ItemsView[str, Any]:
        return self.plain().items()


def _unpacked(value: Any) -> Any:
    return value.plain() if isinstance(value, PackedRecords) else value


def _nothing() -> dict[str, Any]:
    return {}


class LazySequence(Sequence["_Item"]):
    """A sequence that ``read`` returns, called when the first of its items is asked for. Equal to any sequence that
    holds the same."""

    __slots__ = ("_known", "_read")

    def __init__(self, read: Callable[[], tuple[_Item, ...]]) -> None:
        self._read = read
        self._known: tuple[_Item, ...] | None = None

    def plain(self) -> tuple[_Item, ...]:
        """The items themselves."""
        if self._known is None:
            self._known = self._read()
        return self._known

    @overload
    def __getitem__(self, at: int) -> _Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[_Item]: ...
    def __getitem__(self, at: int | slice) -> _Item | Sequence[_Item]:
        return self.plain()[at]

    def __iter__(self) -> Iterator[_Item]:
        return iter(self.plain())

    def __len__(self) -> int:
        return len(self.plain())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.plain() == tuple(other)

    def __hash__(self) -> int:
        return hash(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())

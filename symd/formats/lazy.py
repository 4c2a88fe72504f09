"""Facts and lists that are read when somebody first looks at them, or unpacked whenever somebody looks: a question
about one address needs none of them, and a fat binary has very many."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence

from symd.model.light_typing import Any, TypeVar, overload

_Item = TypeVar("_Item")


class Lazy:
    """What ``read`` returns, called when somebody first looks."""

    __slots__ = ("_known", "_read")

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self._known: Any = None

    def value(self) -> Any:
        """The dictionary or the tuple itself."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def __len__(self) -> int:
        return len(self.value())

    def __repr__(self) -> str:
        return repr(self.value())


class LazyMapping(Lazy, Mapping[str, "Any"]):
    """A mapping that is read when it is first used. Equal to any mapping that holds the same."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        return self.value()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.value())


class PackedRecords:
    """A list of records inside of facts that is unpacked whenever somebody looks, and not kept; how many there are is
    known."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def value(self) -> list[dict[str, Any]]:
        """The records themselves."""
        raise NotImplementedError


class PackedMapping(LazyMapping):
    """A mapping of which some values may be ``PackedRecords`` in what ``read`` returns."""

    __slots__ = ()

    def packed(self) -> dict[str, Any]:
        """What was read. ``read``, and whatever it knows, is forgotten."""
        known: dict[str, Any] = super().value()
        self._read = _nothing
        return known

    def value(self) -> dict[str, Any]:
        return {name: _unpacked(value) for name, value in self.packed().items()}

    def __getitem__(self, name: str) -> Any:
        return _unpacked(self.packed()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.packed())

    def __len__(self) -> int:
        return len(self.packed())

    def items(self) -> ItemsView[str, Any]:
        return self.value().items()


def _unpacked(value: Any) -> Any:
    return value.value() if isinstance(value, PackedRecords) else value


def _nothing() -> dict[str, Any]:
    return {}


class LazySequence(Lazy, Sequence["_Item"]):
    """A sequence that is read when the first of its items is asked for. Equal to any sequence that holds the same."""

    __slots__ = ()

    @overload
    def __getitem__(self, at: int) -> _Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[_Item]: ...
    def __getitem__(self, at: int | slice) -> _Item | Sequence[_Item]:
        found: _Item | Sequence[_Item] = self.value()[at]
        return found

    def __iter__(self) -> Iterator[_Item]:
        return iter(self.value())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and bool(self.value() == tuple(other))

    def __hash__(self) -> int:
        return hash(self.value())

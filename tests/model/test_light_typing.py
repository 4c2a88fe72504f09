"""Named tuples are what ``typing`` makes of them."""

from __future__ import annotations

import typing
from copy import deepcopy

from symd.model.light_typing import NamedTuple


class Ours(NamedTuple):
    """Two fields."""

    name: str
    size: int = 3
    """Of something."""

    @property
    def twice(self) -> int:
        return 2 * self.size

    @classmethod
    def of(cls, name: str) -> Ours:
        return cls(name, 1)


class Theirs(typing.NamedTuple):
    """Two fields."""

    name: str
    size: int = 3

    @property
    def twice(self) -> int:
        return 2 * self.size

    @classmethod
    def of(cls, name: str) -> Theirs:
        return cls(name, 1)


def test_it_is_what_typing_makes() -> None:
    assert Ours("a") == Theirs("a") == ("a", 3)
    assert (Ours("a").twice, Ours.of("b").size, Ours("a")._replace(size=5)) == (6, 1, ("a", 5))
    for name in ("__doc__", "__module__", "_fields", "_field_defaults"):
        assert getattr(Ours, name) == getattr(Theirs, name)
    assert (repr(Ours("a")), Ours.__qualname__) == ("Ours(name='a', size=3)", "Ours")
    assert Ours.__annotations__ == {"name": "str", "size": "int"}
    assert deepcopy(Ours("a", 4)) == Ours("a", 4)
    assert Ours.__mro__[1:] == (tuple, object)

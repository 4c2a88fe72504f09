"""Readers of formats by the names of their modules: each is imported when it is asked, as a process that reads one file needs few of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import cast, overload

from symd.formats.containers.format import Format


class FormatTable(Sequence[Format]):
    """Formats that are asked one after another whether they claim some bytes, each imported when it is asked.
    ``names`` are modules of this package, in the order in which they are asked."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Format]:
        return map(_reader, self._names)

    @overload
    def __getitem__(self, at: int) -> Format: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Format, ...]: ...
    def __getitem__(self, at: int | slice) -> Format | tuple[Format, ...]:
        if isinstance(at, slice):
            return tuple(map(_reader, self._names[at]))
        return _reader(self._names[at])


@cache
def _reader(name: str) -> Format:
    return cast("Format", import_module(f"{__package__}.{name}"))

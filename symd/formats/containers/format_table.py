"""Readers of formats by the names of their modules: each is imported when it is asked, as a process that reads one file needs few of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from symd.formats.containers.format import Format


class FormatTable:
    """Formats that are asked one after another whether they claim some bytes, each imported when it is asked.
    ``names`` are modules of this package, in the order in which they are asked."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Format]:
        return map(_reader, self._names)


def _reader(name: str) -> Format:
    found: Format = import_module(f"{__package__}.{name}")
    return found

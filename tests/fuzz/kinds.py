"""Damaged files by kind of container: a seed's inputs, as many of each kind, none twice."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import cycle, islice

from symd import containers
from tests.fuzz import nested
from tests.fuzz.target import Target


def kind(data: bytes) -> str:
    """The name of the outermost format; "none" where no reader claims the bytes."""
    form = containers.identify(data)
    return form.NAME if form else "none"


def made(seed: int, number: int) -> bytes:
    """The input of this number: a file of some kind, changed."""
    dice = random.Random(f"{seed}/through/{number}")
    return dice.choice(_kinds()).mutated(dice)


@cache
def _kinds() -> tuple[Target, ...]:
    """What makes inputs of files of one kind, for each kind."""
    alike = by_kind(nested.files()).values()
    return tuple(Target(len, lambda files=files: files, nested.mutate) for files in alike)


def by_kind(files: Iterable[bytes]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for data in files:
        found.setdefault(kind(data), []).append(data)
    return found


def evenly(files: Iterable[bytes]) -> list[bytes]:
    """As many of each kind: where there are fewer, some are there several times."""
    kinds = by_kind(files).values()
    count = max(map(len, kinds))
    return [data for alike in kinds for data in islice(cycle(alike), count)]


class Inputs:
    """Those of a seed, for several threads."""

    def __init__(self, seed: int) -> None:
        self._seed, self._next, self._seen = seed, 0, set[bytes]()
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._lock:
            while True:
                data = made(self._seed, self._next)
                self._next += 1
                digest = hashlib.sha256(data).digest()
                if digest not in self._seen:
                    self._seen.add(digest)
                    return data

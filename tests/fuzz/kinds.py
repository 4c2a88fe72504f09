"""Damaged files by kind of container: a seed's inputs, as many of each kind, none twice."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import cycle, islice

from symd.formats import containers
from symd.formats.containers import host_elf
from symd.formats.containers.amd import amdgpu
from tests.fuzz import nested, vulkan
from tests.fuzz.folded import objects as folded
from tests.fuzz.target import Target

VULKAN, FOLDED = "vulkan", "folded"


def kind(data: bytes) -> str:
    """The name of the outermost format; "none" where no reader claims the bytes. Host programs with modules among their data, and code objects
    with folded functions, are kinds of their own."""
    form = containers.identify(data)
    if form is host_elf and vulkan.holds(data):
        return VULKAN
    if form is amdgpu and folded.is_folded(data):
        return FOLDED
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
    """As many of each kind, each file at least once and the smaller the more often: a large one takes the time of several."""
    kinds = [sorted(alike, key=len) for alike in by_kind(files).values()]
    count = 4 * max(map(len, kinds))
    return [data for alike in kinds for data in islice(cycle(_often(alike, count)), count)]


def _often(alike: Sequence[bytes], count: int) -> list[bytes]:
    """Each once, and as much of the rest of ``count`` as its share is."""
    all_shares = sum(1 / len(data) for data in alike)
    spare = (count - len(alike)) / all_shares
    return [data for data in alike for _ in range(1 + int(spare / len(data)))]


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

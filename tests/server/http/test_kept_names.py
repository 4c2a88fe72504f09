"""The names of modules that a walk through a store has read are kept, also where it is broken off, and not without end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from symd.api import Symbolizer
from symd.formats.debug_ids import ModuleNames
from symd.model.cancellation import cancelled_by


class Modules:
    """A symbolizer that has modules of these numbers, and counts how often each is read."""

    aliases = SimpleNamespace(resolve=lambda *_: None)

    def __init__(self) -> None:
        self.there = range(0)
        self.read: list[int] = []

    def modules(self):
        return iter([SimpleNamespace(sha256=f"{number:064x}", failure=None, format="elf") for number in self.there])

    def module(self, digest: str) -> SimpleNamespace:
        self.read.append(int(digest, 16))
        return SimpleNamespace(sha256=digest, containers=(), objects=())


class Left(Exception):
    """Nobody waits any more."""


@pytest.fixture
def modules() -> Modules:
    return Modules()


@pytest.fixture
def names(modules: Modules) -> ModuleNames:
    return ModuleNames(cast("Symbolizer", modules))


def walk(names: ModuleNames, broken_off_after: int | None = None) -> None:
    steps = iter(range(1 << 20))

    def check() -> None:
        if next(steps) == broken_off_after:
            raise Left

    try:
        with cancelled_by(check):
            list(names.all())
    except Left:
        return


def test_what_a_walk_read_before_it_was_broken_off_is_not_read_again(names, modules):
    modules.there = range(40)
    walk(names, 0)
    for broken_off_after in (20, 30, 3, None):
        walk(names, broken_off_after)
    assert modules.read == list(range(40))


def test_walks_that_are_broken_off_keep_at_most_twice_what_a_whole_one_met(names, modules):
    modules.there = range(6)
    walk(names)
    for begin in range(100, 400, 5):
        modules.there = range(begin, begin + 6)
        walk(names, 5)
        assert len(names._known) <= 12
    latest = range(begin - 5, begin + 5)
    assert set(names._known) >= {f"{number:064x}" for number in latest}


def test_a_whole_walk_forgets_the_modules_that_are_gone(names, modules):
    modules.there = range(6)
    walk(names)
    modules.there = range(2)
    walk(names)
    assert len(names._known) == 2

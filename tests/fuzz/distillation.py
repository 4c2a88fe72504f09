"""Which seeds are worth changing: those that reach what cheaper ones do not, and of these the dear ones more rarely. What a seed
reaches are lines of symd, and what it costs is how many of them it runs: the same each time, which processor time is not."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from tests.fuzz.target import Refused, Target
from tests.fuzz.trace import adding, reach


class Chosen(NamedTuple):
    """Seeds, and the share of each: how many inputs are made of it, relative to the others."""

    seeds: list[bytes]
    shares: list[float]


def chosen(target: Target) -> Chosen:
    """The target's seeds from the cheapest to the dearest, without those that reach nothing new. All have the same share up to the one in
    the middle; those that cost more are taken as much more rarely, so that the dearest few do not take most of the time."""
    seeds = sorted(set(target.seeds()), key=lambda data: (len(data), data))
    for data in seeds:
        # What is imported late, and kept from one input to the next, is not its own.
        with suppress(Refused):
            target.run(data)
    reached = {data: reach(target.run, data, Refused) for data in seeds}
    by_cost = sorted(reached, key=lambda data: reached[data].cost)
    kept = adding((data, reached[data].lines) for data in by_cost)
    middle = max(reached[kept[len(kept) // 2]].cost, 1)
    return Chosen(kept, [min(middle / max(reached[data].cost, 1), 1.0) for data in kept])

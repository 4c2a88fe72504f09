"""An owner's parent comes before it: what says so agrees with the rule number by number, for numbers of every width."""

from __future__ import annotations

import numpy as np
import pytest

from symd.index.schema import _reaches_itself


def by_the_rule(parent: np.ndarray) -> bool:
    return any(each > max(owner - 1, 0) for owner, each in enumerate(parent.tolist()))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 255, 256, 257, 258, 300])
def test_parents_as_close_as_they_may_be_and_one_closer(dtype, count):
    closest = np.minimum(np.maximum(np.arange(count) - 1, 0), min(np.iinfo(dtype).max, count)).astype(dtype)
    assert not _reaches_itself(closest)
    assert not by_the_rule(closest)
    for owner in range(min(count, 256)):
        closer = closest.copy()
        closer[owner] = min(max(owner - 1, 0) + 1, np.iinfo(dtype).max)
        assert _reaches_itself(closer) == by_the_rule(closer), owner
        assert _reaches_itself(closer) or closer[owner] == closest[owner]


def test_generated_parents():
    chance, found = np.random.default_rng(5), set()
    for _ in range(3000):
        count = int(chance.integers(1, 12))
        parent = chance.integers(0, np.maximum(np.arange(count), 1) + (chance.random(count) < 0.1)).astype(np.uint8)
        found.add(by_the_rule(parent))
        assert _reaches_itself(parent) == by_the_rule(parent), parent
    assert found == {True, False}

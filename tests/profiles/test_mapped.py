"""The range that holds an address, against a naive search; and addresses that are asked in columns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from symd import profiles
from symd.profiles import NamedModule, Resolver
from symd.profiles.addresses import MappedRange, RangeLookup
from tests.profiles.modules import ZEBIN

numbers = st.integers(0, 30)


@given(st.lists(st.builds(MappedRange, numbers, numbers, st.just(0)), max_size=6), st.integers(0, 32))
def test_only_the_one_range_that_holds_an_address_is_meant(ranges, address):
    holding = [number for number, one in enumerate(ranges) if one.start <= address < one.limit]
    assert RangeLookup(ranges).only(address) == (holding[0] if len(holding) == 1 else None)


class Counting:
    """A symbolizer that writes down how often, and for how many addresses, it is asked."""

    def __init__(self, engine):
        self._engine = engine
        self.asked = []

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def symbolize_column(self, digest, values, **how):
        self.asked.append(len(values))
        return self._engine.symbolize_column(digest, values, **how)


def test_each_distinct_address_is_asked_once_and_all_of_a_kernel_together(engine):
    offsets = np.random.default_rng(2).integers(0, 100, 20_000) * 8
    lines = "".join(f"[smooth+{offset:#x}] 1\n[denoise+{offset // 80 * 8:#x}] 1\n" for offset in offsets.tolist())
    counting = Counting(engine)
    module = NamedModule(engine.add(ZEBIN.read_bytes()).sha256, ZEBIN.name)
    done = profiles.symbolize(lines.encode(), Resolver(counting, [module]))
    assert sorted(counting.asked) == [10, 100]
    assert done.report.total == 40_000

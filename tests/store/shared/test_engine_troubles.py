"""Questions while the object storage is slow, fails, or is gone: the right answer or a named error in time, and answers again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from symd.engine.engine import Engine
from symd.errors import StoreUnavailable
from symd.model.addresses import ByAddress, ObjectAddress
from tests.object_server import Asked, ExitStatus, Proxy

SAMPLE = min((Path(__file__).parents[3] / "samples" / "amdgpu" / "bin").glob("*.co")).read_bytes()
QUESTION = [ByAddress(ObjectAddress(0x1978)), ByAddress(ObjectAddress(0x1900))]
MODULES = [SAMPLE + bytes(number) for number in range(12)]
"""Modules of one code object, different behind its end."""


@pytest.fixture
def digests(engine_of: Callable[[str], Engine]) -> list[str]:
    first = engine_of("first")
    return [first.add(each, f"module {number}").sha256 for number, each in enumerate(MODULES)]


@pytest.fixture
def answers(engine_of: Callable[[str], Engine], digests: list[str]) -> list[str]:
    """What the first daemon answers, which has all indexes open."""
    first = engine_of("first")
    return [told(first, digest) for digest in digests]


def told(engine: Engine, digest: str) -> str:
    return str(list(engine.symbolize(digest, QUESTION)))


@pytest.mark.parametrize("ending", [ExitStatus.REFUSE, ExitStatus.CUT, ExitStatus.CUT_BODY, ExitStatus.SPOIL])
def test_failing_calls_change_no_answer(
    engine_of: Callable[[str], Engine], digests: list[str], answers: list[str], proxy: Proxy, ending: ExitStatus
):
    def plan(asked: Asked) -> ExitStatus:
        return ending if asked.number % 4 == 0 and asked.method == "GET" else ExitStatus.PASS

    proxy.plan = plan
    proxy.methods()
    second = engine_of(f"second-{ending.name}")
    assert [told(second, digest) for digest in digests] == answers
    for digest, data in zip(digests, MODULES, strict=True):
        assert second.store.data(digest) == data
    assert len(proxy.methods()) > len(digests)


def test_a_slow_storage_slows_and_no_more(
    engine_of: Callable[[str], Engine], digests: list[str], answers: list[str], proxy: Proxy
):
    second = engine_of("second")
    proxy.delay = 0.3
    begun = time.monotonic()
    assert [told(second, digest) for digest in digests[:4]] == answers[:4]
    assert time.monotonic() - begun >= 1.2
    proxy.delay = 30.0
    begun = time.monotonic()
    assert [told(second, digest) for digest in digests[:4]] == answers[:4]
    assert time.monotonic() - begun < 10, "nobody asks the storage about what is open"


def test_a_storage_that_is_gone_costs_what_is_not_here(
    engine_of: Callable[[str], Engine], digests: list[str], answers: list[str], proxy: Proxy
):
    second = engine_of("second")
    assert told(second, digests[0]) == answers[0]
    with proxy.gone():
        restarted = engine_of("second")
        assert told(restarted, digests[0]) == answers[0], "its file is here"
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            told(restarted, digests[1])
        with pytest.raises(StoreUnavailable):
            restarted.add(SAMPLE + bytes(100), "new")
        assert time.monotonic() - begun < 9 * 2 + 5
        assert told(restarted, digests[0]) == answers[0]
    assert told(restarted, digests[1]) == answers[1]
    assert restarted.add(SAMPLE + bytes(100), "new").sha256 not in digests

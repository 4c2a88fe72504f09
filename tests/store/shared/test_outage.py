"""Who asks a server that is gone learns so at once, but for one at a time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from symd.errors import InvalidInput, StoreUnavailable
from symd.store.shared.s3_storage import FAILURES, CircuitBreaker, S3Storage, Unanswered
from tests.object_server import Proxy


def unanswered() -> None:
    raise Unanswered(StoreUnavailable("gone", where="s3://b", hint="wait"))


def broken(outage: CircuitBreaker) -> None:
    for _ in range(FAILURES):
        with pytest.raises(Unanswered):
            outage.call(unanswered)


def test_a_few_failures_are_no_outage():
    outage = CircuitBreaker()
    for _ in range(FAILURES - 1):
        with pytest.raises(Unanswered):
            outage.call(unanswered)
    assert outage.call(lambda: 5) == 5
    broken(outage)


def test_an_error_that_is_an_answer_ends_it():
    outage = CircuitBreaker()
    broken(outage)

    def refused() -> None:
        raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        outage.call(refused)
    with pytest.raises(Unanswered):
        outage.call(unanswered)
    with pytest.raises(Unanswered):
        outage.call(unanswered)


def test_in_an_outage_one_tries_and_the_others_end_with_the_last_error():
    outage, inside, go_on = CircuitBreaker(), threading.Event(), threading.Event()
    broken(outage)

    def slow() -> str:
        inside.set()
        assert go_on.wait(10)
        return "back"

    with ThreadPoolExecutor(1) as pool:
        trying = pool.submit(outage.call, slow)
        assert inside.wait(10)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="gone"):
                outage.call(lambda: pytest.fail("it is not asked"))
        go_on.set()
        assert trying.result() == "back"
    assert outage.call(lambda: "all are asked again") == "all are asked again"


def test_a_try_that_fails_lets_the_next_try():
    outage = CircuitBreaker()
    broken(outage)
    for _ in range(3):
        with pytest.raises(Unanswered):
            outage.call(unanswered)
    assert outage.call(lambda: 5) == 5


def test_many_who_ask_a_storage_that_is_gone_do_not_all_wait(proxy: Proxy, impatient: S3Storage, tmp_path: Path):
    """Each alone waits for a second and more; forty in eight threads would take seven."""
    (tmp_path / "file").write_bytes(b"bytes")
    impatient.put("there", tmp_path / "file")

    def ask(_: int) -> float:
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            impatient.size("there")
        return time.monotonic() - begun

    with proxy.gone():
        for number in range(FAILURES):
            ask(number)
        with ThreadPoolExecutor(8) as pool:
            waits = sorted(pool.map(ask, range(40)))
    assert waits[len(waits) // 2] < 0.5
    assert impatient.size("there") == 5

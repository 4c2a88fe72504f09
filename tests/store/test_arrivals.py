"""Word of arrivals: at once, to all, and bounded."""

from __future__ import annotations

import gc
import threading

import pytest

from symd.errors import LimitExceeded
from symd.store.arrivals import BACKLOG, Arrivals


def test_every_listener_hears_everything_since_it_listens() -> None:
    arrivals = Arrivals()
    first = arrivals.listen()
    arrivals.announce("a")
    second = arrivals.listen()
    arrivals.announce("b")
    assert [first.take(), first.take()] == ["a", "b"]
    assert second.take() == "b"
    assert (len(first), len(second)) == (0, 0)


def test_closing_wakes_the_one_who_waits() -> None:
    listener = Arrivals().listen()
    heard: list[str | None] = ["not yet"]
    waiting = threading.Thread(target=lambda: heard.append(listener.take()))
    waiting.start()
    listener.close()
    listener.close()
    waiting.join(5)
    assert heard == ["not yet", None]
    assert listener.closed


def test_closing_all_closes_each() -> None:
    arrivals = Arrivals()
    listeners = [arrivals.listen() for _ in range(3)]
    arrivals.close()
    assert [each.take() for each in listeners] == [None] * 3


def test_a_listener_that_takes_nothing_loses_what_does_not_fit_and_is_told() -> None:
    arrivals = Arrivals()
    slow, quick = arrivals.listen(), arrivals.listen()
    for number in range(BACKLOG + 5):
        arrivals.announce(str(number))
        assert quick.take() == str(number)
    assert [slow.take() for _ in range(BACKLOG)] == [str(number) for number in range(BACKLOG)]
    with pytest.raises(LimitExceeded):
        slow.take()


def test_a_listener_that_is_dropped_is_forgotten() -> None:
    arrivals = Arrivals()
    arrivals.listen()
    gc.collect()
    assert not list(arrivals._listeners)

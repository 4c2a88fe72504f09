"""Daemons over one store, killed under load: the shipped client never fails, no answer is wrong, nothing is made twice."""

from __future__ import annotations

from tests.shared_store.replicas import kill_under_load

SECONDS = 20.0


def test_daemons_that_are_killed_under_load_are_missed_by_nobody() -> None:
    seen = kill_under_load(SECONDS)
    assert seen.is_good, seen
    assert seen.kills >= 3
    assert all(seen.asked[work] > 5 for work in ("ask_one", "ask_many", "ask_column", "add")), seen.asked

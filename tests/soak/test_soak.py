"""The soak in short; `make soak` is the long one."""

from __future__ import annotations

from pathlib import Path

from tests.soak import abuse
from tests.soak.run import soak


def test_a_daemon_under_mixed_clients_answers_as_the_engine_does_and_leaks_nothing(tmp_path: Path) -> None:
    outcome = soak(tmp_path, 8, count=2)
    assert outcome.problems == []
    assert outcome.done["add"]
    assert outcome.catalogued


def test_many_clients_get_no_wrong_answer_while_the_daemon_is_abused(tmp_path: Path) -> None:
    outcome = abuse.run(tmp_path, 6, clients=16)
    assert outcome.problems == []
    assert outcome.done["answered"] > 50
    assert outcome.flipped

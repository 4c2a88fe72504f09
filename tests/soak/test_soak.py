"""The soak in short; `make soak` is the long one."""

from __future__ import annotations

from pathlib import Path

from symd.store import Store
from tests.fuzz.mutations import SAMPLES
from tests.soak import abuse
from tests.soak.daemon import serving
from tests.soak.run import Outcome, check_whole, soak


def test_a_daemon_under_mixed_clients_answers_as_the_engine_does_and_leaks_nothing(tmp_path: Path) -> None:
    outcome = soak(tmp_path, 8, count=2)
    assert outcome.problems == []
    assert outcome.done["add"]
    assert outcome.catalogued


def test_what_was_on_its_way_in_when_a_daemon_was_killed_is_taken_in_or_out(tmp_path: Path) -> None:
    """The second daemon looks at such modules while they are asked about: whatever comes first, none stays half there."""
    whole = (SAMPLES / "kernels/bin/vadd/dg2-opt.dbg").read_bytes()
    with Store(tmp_path / "store") as store:
        for number in range(50):
            store.put(whole + bytes([number]))
            store.put(whole[:300] + bytes([number]))
    outcome = Outcome()
    with serving(tmp_path) as daemon:
        assert check_whole(daemon, outcome) >= 50
    assert outcome.problems == []


def test_many_clients_get_no_wrong_answer_while_the_daemon_is_abused(tmp_path: Path) -> None:
    outcome = abuse.run(tmp_path, 6, clients=16)
    assert outcome.problems == []
    assert outcome.done["answered"] > 50
    assert outcome.flipped

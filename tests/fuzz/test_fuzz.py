"""The fuzzer in short, and what it rests on; `make fuzz` is the long run."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.errors import StoreUnavailable
from tests.fuzz import child, watchdog
from tests.fuzz.mutations import mutated, samples
from tests.fuzz.questions import ask_everything
from tests.fuzz.wire import WireFuzzer
from tests.soak.daemon import serving

SEED = 20
"""A short run is the same everywhere: a commit that fails it brought the defect."""
INPUTS = 40


def test_an_input_is_made_again_from_seed_and_number() -> None:
    assert [mutated(1, number) for number in range(20)] == [mutated(1, number) for number in range(20)]
    assert len({mutated(1, number) for number in range(200)}) > 190
    assert not {mutated(1, number) for number in range(200)} <= set(samples())


def test_some_inputs_of_a_seed_are_answered_or_refused() -> None:
    taken = [ask_everything(mutated(SEED, number)) for number in range(INPUTS)]
    assert 5 < sum(taken) < INPUTS - 5


def test_an_unexpected_error_and_an_unfit_refusal_are_defects(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (KeyError("x"), MemoryError(), RecursionError(), StoreUnavailable("not the input's fault")):
        monkeypatch.setattr("tests.fuzz.questions.build_index", lambda *_, error=error: raises(error))
        result = child.tried(samples()[0])
        assert result["outcome"] == "defect"
        assert type(error).__name__ in result["trace"]


def raises(error: Exception) -> None:
    raise error


def test_an_input_that_hangs_is_killed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no patience at all every input hangs."""
    monkeypatch.setattr(watchdog, "SECONDS_EACH", 0.0)
    report = watchdog.run(SEED, 1, tmp_path)
    assert report.outcomes["hang"]
    assert report.defects[0].path.read_bytes() == mutated(SEED, report.defects[0].number)


def test_a_daemon_answers_every_request_with_a_status_of_the_contract(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        fuzzer = WireFuzzer(daemon, SEED, tmp_path / "found")
        fuzzer.run(2)
        report = fuzzer.end()
    assert report.defects == []
    assert report.statuses["OK"]
    assert report.statuses["INVALID_ARGUMENT"]

"""The fuzzer's way through a daemon, in short."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pytest

from symd.errors import LimitExceeded, Unavailable
from tests.fuzz import kinds, through
from tests.fuzz.kinds import Inputs
from tests.fuzz.trial import State
from tests.fuzz.visit import Visit
from tests.fuzz.watchdog import ChildException

SEED = 20
SECONDS = 120
"""Far more than it takes."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """All inputs that there are, enough for one daemon."""
    inputs = list(islice(Inputs(SEED), 3))
    take(inputs, monkeypatch)
    return inputs


def run(out: Path, states: dict[str, State]) -> list[ChildException]:
    def count(more: Mapping[str, State]) -> None:
        for name, state in more.items():
            states[name] = states.get(name, State()).with_(state)

    return through.run(SEED, SECONDS, out, count)


def take(inputs: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(through, "Inputs", lambda _seed: iter(inputs))
    monkeypatch.setattr(through, "LINES", 1)


def test_inputs_are_as_many_of_each_kind_and_none_is_there_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = list(islice(Inputs(SEED), 400))
    assert inputs == list(islice(Inputs(SEED), 400))
    assert len(set(inputs)) == 400
    counted = Counter(map(kinds.kind, inputs))
    assert {"zebin", "igc-debug", "amdgpu", "cubin", "spirv", "kpack", "cuda-core", "none"} <= counted.keys()
    assert max(counted.values()) < 60
    monkeypatch.setattr(kinds, "made", lambda _seed, number: bytes([number // 3]))
    assert list(islice(Inputs(SEED), 4)) == [b"\0", b"\1", b"\2", b"\3"]


def test_files_go_through_daemons_that_are_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = list(islice(Inputs(SEED), 24))
    take(inputs, monkeypatch)
    monkeypatch.setattr(through, "A_LIFE", 8)
    states = dict[str, State]()
    defects = run(tmp_path, states)
    assert defects == []
    assert sum(state.tried for state in states.values()) == len(inputs)
    assert sum(state.answered for state in states.values())
    assert sum(state.refused for state in states.values())
    assert {name.partition(".")[0] for name in states} == {"through"}


def test_what_took_long_counts_by_what_it_takes_of_the_processor_alone(
    few: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(through, "SECONDS", -1.0)
    states = dict[str, State]()
    defects = run(tmp_path, states)
    assert sum(state.found for state in states.values()) == len(few)
    assert all(re.fullmatch(r"Slow: \d\.\d s of processor time", defect.what) for defect in defects)
    again = [path.read_text() for path in tmp_path.glob("again/through/*.txt")]
    assert all(re.fullmatch(r"\d\.\d s of processor time at most, alone \d\.\d\d s\n", text) for text in again)
    assert 0 < max(state.slowest for state in states.values()) < 1


def test_a_call_that_ends_wrongly_alone_too_is_a_find(
    few: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_client: object, data: bytes) -> Visit:
        visits.append(data)
        done = Visit(taken=True)
        if data == few[0] or visits.count(data) == 1:
            done.call("add", _unavailable)
        return done

    visits = list[bytes]()
    monkeypatch.setattr(through, "visit", fails)
    states = dict[str, State]()
    [defect] = run(tmp_path, states)
    assert defect.what == "add: UNAVAILABLE, UNAVAILABLE: the daemon is being ended"
    assert defect.path.read_bytes() == few[0]
    assert sum(state.found for state in states.values()) == 1
    assert sum(state.answered for state in states.values()) == len(few) - 1


def _unavailable() -> None:
    raise Unavailable("the daemon is being ended")


def test_a_refusal_is_no_find() -> None:
    done = Visit()
    assert done.call("add", _limit) is None
    assert done.call("module", lambda: 5) == 5
    assert done.wrong == []
    assert done.statuses == {"RESOURCE_EXHAUSTED": 1, "OK": 1}


def _limit() -> None:
    raise LimitExceeded("too much")

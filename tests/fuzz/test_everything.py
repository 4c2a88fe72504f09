"""The fuzzer's way through everything in one process, in short."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.engine.engine import Engine
from symd.errors import DataLoss, Malformed, StoreUnavailable
from symd.formats import containers
from symd.index import VERSION, Index
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary
from tests.fuzz import counts, nested, reach, watchdog
from tests.fuzz.everything import CHOSEN, TARGETS, Lives, Outcome, name_of, seeds
from tests.fuzz.kinds import FOLDED, VULKAN, kind
from tests.fuzz.target import Find, Refused, Target
from tests.fuzz.targets import target_of
from tests.fuzz.trial import State, StateFile, Trial

SEED = 20
A_LIFE = 8


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    folder = tmp_path / "lives"
    folder.mkdir(mode=0o700)
    made = Lives(folder, A_LIFE, lives_a_store=4)
    yield made
    made.close()


def inputs(count: int) -> list[bytes]:
    return [TARGETS["everything"].mutated(random.Random(f"{SEED}/{number}")) for number in range(count)]


def refused(lives: Lives, data: bytes) -> bool:
    try:
        lives(data)
    except Refused:
        return True
    return False


def test_seeds_are_as_many_of_each_kind() -> None:
    counted, often = Counter(map(kind, seeds())), Counter(seeds())
    assert len(set(counted.values())) == 1
    dumps = sorted((data for data in often if kind(data) == "cuda-core"), key=len)
    assert often[dumps[0]] > 10 * often[dumps[-1]] > 0
    assert {"zebin", "igc-debug", "amdgpu", "cubin", "spirv", "kpack", "cuda-core", "amdgpu-core"} <= counted.keys()


def test_every_seed_that_was_chosen_is_there() -> None:
    names = {name for alike in json.loads(CHOSEN.read_text()).values() for name in alike}
    assert names <= {name_of(data) for data in seeds()}
    assert {kind(data) for data in nested.files()} == json.loads(CHOSEN.read_text()).keys()


def test_what_reaches_nothing_new_is_no_seed() -> None:
    def run(data: bytes) -> None:
        containers.identify(data)
        if data[:1] == b"r":
            raise ValueError

    found = reach.reaching(run, [b"x", b"xx", b"\x7fELF12", b"\x7fELF123", b"r"])
    assert found == [b"r", b"\x7fELF12"]
    assert reach.reached(run, b"x") == reach.reached(run, b"xx")


def test_inputs_are_answered_or_refused_and_stay_so_when_the_store_is_opened_again(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished, checked = list[list[Digest]](), list[Outcome]()
    resume, check = Engine.resume, Outcome.check

    def resumed(engine: Engine) -> None:
        unfinished.append([each.sha256 for each in engine.modules() if not each.format])
        resume(engine)
        assert all(each.format and engine.store.index(each.sha256, VERSION) for each in engine.modules())

    def asked(outcome: Outcome, engine: Engine) -> None:
        checked.append(outcome)
        check(outcome, engine)

    monkeypatch.setattr(Engine, "resume", resumed)
    monkeypatch.setattr(Outcome, "check", asked)
    ends = Counter(refused(lives, data) for data in inputs(5 * A_LIFE))
    assert ends[True]
    assert ends[False]
    assert [len(each) for each in unfinished] == [0, 1, 0, 0, 0]  # the fourth life ends with its store
    assert len(checked) > 5 * A_LIFE
    assert {outcome.query is None for outcome in checked} == {True, False}


@pytest.mark.parametrize("kind", [VULKAN, FOLDED])
def test_modules_among_data_and_folded_code_go_through_everything(kind: str, lives: Lives) -> None:
    target = target_of(f"everything.{kind}")
    made = [target.mutated(random.Random(f"{SEED}/{kind}/{number}")) for number in range(2 * A_LIFE)]
    assert Counter(refused(lives, data) for data in made)[False] > A_LIFE / 2


def test_an_answer_that_is_another_after_a_start_is_a_find_of_the_input_that_had_it(lives: Lives) -> None:
    few = seeds()[:A_LIFE]
    for data in few[:-1]:
        lives(data)
    [right, *_] = lives.remembered
    assert right.query is not None
    lives.remembered.append(Outcome(right.data, right.query, Malformed("it was another")))
    with pytest.raises(Find, match="after a start") as find:
        lives(few[-1])
    assert find.value.data == right.data
    assert right in lives.remembered
    assert len(lives.remembered) == A_LIFE  # the find is told once


def test_a_refusal_that_is_another_after_a_start_is_a_find(lives: Lives) -> None:
    data = b"no module"
    assert refused(lives, data)
    [known] = lives.remembered
    known.check(lives.engine)
    with pytest.raises(Find, match="adding it"):
        Outcome(data, None, Malformed("another")).check(lives.engine)
    with pytest.raises(Find, match="adding it"):
        Outcome(seeds()[0], None, Malformed("not taken")).check(lives.engine)


def test_an_error_of_the_store_and_one_in_a_thread_are_finds(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise StoreUnavailable("the disk refused")

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "module", fails)
        with pytest.raises(Find, match="module: UNAVAILABLE"):
            lives(seeds()[0])
    module = Engine.module

    def fails_aside(engine: Engine, name: str) -> ModuleSummary:
        thread = threading.Thread(target=dict.fromkeys, args=(None,))
        thread.start()
        thread.join()
        return module(engine, name)

    monkeypatch.setattr(Engine, "module", fails_aside)
    hook = threading.excepthook
    with pytest.raises(TypeError):
        lives(seeds()[1])
    assert threading.excepthook is hook


def test_a_store_that_does_not_open_again_is_a_find_and_the_next_inputs_have_another(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Engine) -> None:
        raise DataLoss("the catalogue is damaged")

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "resume", fails)
        for data in seeds()[: A_LIFE - 1]:
            lives(data)
        with pytest.raises(DataLoss):
            lives(seeds()[A_LIFE])
    assert lives.remembered == []
    lives(seeds()[0])
    assert len(list(lives.engine.modules())) == 1


def test_an_input_that_was_no_end_leaves_the_end_of_a_life_to_the_next(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = lives.engine
    with monkeypatch.context() as patched:
        patched.setattr("tests.fuzz.everything.visit", dict.fromkeys)
        for _ in range(A_LIFE):
            with pytest.raises(TypeError):
                lives(b"")
    assert lives.engine is engine
    lives(seeds()[0])
    assert lives.engine is not engine


def test_an_index_is_made_by_the_function_that_a_daemons_processes_call(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> Index:
        raise IndexError("a defect")

    monkeypatch.setattr("symd.engine.reading.served.answer", wrong)
    with pytest.raises(IndexError):
        lives(seeds()[0])


def test_inputs_are_counted_by_kind(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        if data == b"b2":
            raise Find("it was the other", b"a0")
        if data == b"b1":
            raise Refused

    file = StateFile(tmp_path / "state")
    one = Trial(Target(run, list, kind=lambda data: data[:1].decode()), file, tmp_path / "finds")
    for data in (b"a0", b"b1", b"b2", b"a3"):
        one(data)
    assert {name: state[:3] for name, state in file.by_kind().items()} == {"a": (2, 0, 0), "b": (0, 1, 1)}
    assert file.by_kind() == {}
    assert file.read()[:3] == (2, 1, 1)
    [kept] = tmp_path.glob("finds/*.txt")
    assert kept.with_suffix("").read_bytes() == b"a0"


def test_an_input_has_its_kind_before_it_is_counted(tmp_path: Path) -> None:
    """A run is ended by a kill, which may come between the two: an input without a kind would be one that killed the process."""
    before: list[int] = []

    def kind_of(_: bytes) -> str:
        before.append(file.read().tried)
        return "a"

    file = StateFile(tmp_path / "state")
    one = Trial(Target(lambda _: None, list, kind=kind_of), file, tmp_path / "finds")
    one(b"a0")
    one(b"a1")
    assert before == [0, 1]


def test_a_run_counts_kinds_apart(tmp_path: Path) -> None:
    def done(name: str, state: State) -> None:
        counts.added(tmp_path / "counts.json", {name: state})

    report = watchdog.run(["everything"], SEED, 4, tmp_path, how="", done=done)
    assert report.defects == []
    assert len(report.states) > 1
    assert all(name.startswith("everything.") for name in report.states)
    assert counts.added(tmp_path / "counts.json", {}).keys() == report.states.keys()
    assert not list(tmp_path.glob("state-*"))

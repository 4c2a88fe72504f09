"""The first question for one address of a module whose index is in the store is answered from the file; the next one opens it."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from symd.engine.engine import Engine
from symd.errors import ModuleNotFound
from symd.index import VERSION
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress
from symd.model.answers import Answer, Reason
from symd.store import Store
from tests.builders.elf import AX, Section, Symbol, build_elf

SAMPLES = Path(__file__).parents[2] / "samples"
SHADE = (SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co").read_bytes()
DIGEST = hashlib.sha256(SHADE).hexdigest()
ADDRESS = ByAddress(ObjectAddress(0x1978))


@pytest.fixture
def said(tmp_path: Path) -> Answer:
    """What the open index says. The store has the module and its index now."""
    with Engine(Store(tmp_path)) as engine:
        engine.add(SHADE)
        assert engine.is_open(DIGEST)
        found = engine.symbolize_one(DIGEST, ADDRESS)
    assert len(found.frames) == 2
    return found


def test_the_first_question_opens_nothing_and_the_second_does(tmp_path: Path, said: Answer) -> None:
    with Engine(Store(tmp_path)) as engine:
        assert engine.symbolize_one(DIGEST, ADDRESS) == said
        assert not engine.is_open(DIGEST)
        assert engine.symbolize_one(DIGEST, ADDRESS) == said
        assert engine.is_open(DIGEST)


@pytest.mark.parametrize("other", ["outside", "kernel", "object"])
def test_what_the_file_does_not_answer_plainly_is_answered_by_the_open_index(
    tmp_path: Path, said: Answer, other: str
) -> None:
    with Engine(Store(tmp_path)) as engine:
        if other == "outside":
            answer = engine.symbolize_one(DIGEST, ByAddress(ObjectAddress(8)))
            assert answer.reason is Reason.OUTSIDE_TEXT
        elif other == "kernel":
            assert said.kernel is not None
            answer = engine.symbolize_one(DIGEST, ByKernel(said.kernel, KernelOffset(0)))
            assert answer.kernel == said.kernel
        else:
            assert engine.symbolize_one(DIGEST, ADDRESS, path="") == said
        assert engine.is_open(DIGEST)


@pytest.mark.parametrize("at", [0, 20, 30, 700, 3500, -1])
def test_a_flipped_byte_changes_no_first_answer_and_is_mended(tmp_path: Path, said: Answer, at: int) -> None:
    (path,) = tmp_path.glob(f"index/{VERSION}/*/{DIGEST}.idx")
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[at] ^= 1
    path.write_bytes(damaged)
    with Engine(Store(tmp_path)) as engine:
        assert engine.symbolize_one(DIGEST, ADDRESS) == said
    assert path.read_bytes() == whole


def test_damage_where_the_first_answer_does_not_look_is_mended_when_the_index_is_opened(tmp_path: Path) -> None:
    """Of an index of many pieces one with names of other functions."""
    names = [f"function{number}" for number in range(2000)]
    symbols = [Symbol(name, value=0x1000 + 8 * at, size=8, section="a") for at, name in enumerate(names)]
    text = Section("a", flags=AX, address=0x1000, data=bytes(8 * len(names)))
    query = ByAddress(ObjectAddress(0x1000))
    with Engine(Store(tmp_path)) as engine:
        digest = engine.add(build_elf(machine=224, osabi=64, type=3, sections=[text], symbols=symbols)).sha256
        said = engine.symbolize_one(digest, query)
    assert said.frames[0].function == names[0]
    (path,) = tmp_path.glob(f"index/{VERSION}/*/{digest}.idx")
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[whole.index(names[1500].encode())] ^= 1
    path.write_bytes(damaged)
    with Engine(Store(tmp_path)) as engine:
        assert engine.symbolize_one(digest, query) == said
        assert path.read_bytes() == damaged
        assert engine.symbolize_one(digest, query) == said
        assert path.read_bytes() == whole


def test_the_index_of_another_module_is_not_believed(tmp_path: Path, said: Answer) -> None:
    other = SHADE + b"\0"
    with Engine(Store(tmp_path)) as engine:
        digest = engine.add(other).sha256
    (path,) = tmp_path.glob(f"index/{VERSION}/*/{DIGEST}.idx")
    whole = path.read_bytes()
    (wrong,) = tmp_path.glob(f"index/{VERSION}/*/{digest}.idx")
    path.write_bytes(wrong.read_bytes())
    with Engine(Store(tmp_path)) as engine:
        assert engine.symbolize_one(DIGEST, ADDRESS) == said
    assert path.read_bytes() == whole


def test_a_module_that_is_gone_answers_nothing_though_its_index_is_left(tmp_path: Path, said: Answer) -> None:
    (path,) = tmp_path.glob(f"index/{VERSION}/*/{DIGEST}.idx")
    left = path.read_bytes()
    with Engine(Store(tmp_path)) as engine:
        with Engine(Store(tmp_path)) as another:
            another.remove(DIGEST)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(left)
        with pytest.raises(ModuleNotFound):
            engine.symbolize_one(DIGEST, ADDRESS)
    assert said.frames


def test_many_who_ask_at_once_get_the_same(tmp_path: Path, said: Answer) -> None:
    answers: list[Answer] = []
    with Engine(Store(tmp_path)) as engine:
        asking = [
            threading.Thread(target=lambda: answers.append(engine.symbolize_one(DIGEST, ADDRESS))) for _ in range(16)
        ]
        for each in asking:
            each.start()
        for each in asking:
            each.join()
    assert answers == [said] * 16

"""Damaged files through everything, in one process and therefore many a second: taken into a store, indexed, asked about by every
question that a client of a daemon has, and, when the store is opened anew, there with the same answers. What a daemon's
processes read is read here, by the function that they call."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import SymdError, error_to_dict
from symd.model.addresses import Query
from symd.model.answers import Answer
from symd.model.summaries import ModuleSummary
from symd.store import Store
from tests.fuzz import nested, small_files
from tests.fuzz.in_process_worker import InProcessWorker, disassembled
from tests.fuzz.kinds import evenly, kind
from tests.fuzz.target import Find, Refused, Target
from tests.fuzz.visit import Visit, visit

LIMITS = Limits()
A_LIFE = 300
"""Inputs between one opening of the store and the next."""
LIVES_A_STORE = 8
"""The next has a new one, so that a long run needs no more room and opening it no more time."""
REMEMBERED = 12
"""Inputs of a life of which the next ones over its store ask again what became of them."""
_INDEXED_AHEAD = 4
"""One life of so many: threads that wait for each other cost a quarter of the time."""
_PIECE = 1 << 14
"""Bytes of an upload that come at a time."""
_PREFIX = "symd-everything-"
_SHARED_MEMORY = Path("/dev/shm")
"""Where stores are, if that is there: what a process leaves when it is killed is the same as on a disk, without waiting for one."""


class Streamed(Engine):
    """Modules come piece by piece, as a daemon takes them."""

    def add(self, data: bytes, label: str = "") -> ModuleSummary:
        with self.receive(label) as upload:
            for at in range(0, len(data), _PIECE):
                upload.write(data[at : at + _PIECE])
            return upload.commit(hashlib.sha256(data).hexdigest())


@dataclass(frozen=True)
class Outcome:
    """What became of an input: the answer to a question, or the error for which it was not taken."""

    data: bytes
    query: Query | None
    answer: Answer | SymdError

    def check(self, engine: Engine) -> None:
        """Raises Find where it is another now."""
        now = self._now(engine)
        same = _plain(now) == _plain(self.answer)
        if not same:
            raise Find(f"after a start {self.query or 'adding it'} is\n{now!r}\nand was\n{self.answer!r}", self.data)

    def _now(self, engine: Engine) -> object:
        try:
            if self.query is None:
                return engine.add(self.data)
            return engine.symbolize_one(hashlib.sha256(self.data).hexdigest(), self.query)
        except SymdError as error:
            return error


def _plain(end: object) -> object:
    """Errors are equal where they say the same."""
    return error_to_dict(end) if isinstance(end, SymdError) else end


class Lives:
    """Engines that live one after the other on stores below ``folder``. Every second takes modules piece by piece and is closed in the end, every
    fourth has their indexes begun while the store takes them in, in a thread of its own, as a daemon has. Of the others the
    store is taken as it is while a module is indexed: what SIGKILL leaves."""

    def __init__(self, folder: Path, a_life: int = A_LIFE, lives_a_store: int = LIVES_A_STORE) -> None:
        self._folder, self._a_life, self._lives_a_store = folder, a_life, lives_a_store
        self._life = self._tried = 0
        self.remembered: list[Outcome] = []
        self._uncaught: list[BaseException] = []
        self._store = self._new_store()
        self.engine = self._opened()

    def __call__(self, data: bytes) -> None:
        """Raises Refused for a module that is not taken, and whatever is a find."""
        self._tried += 1
        with self._noting_threads():
            done = self._visited(data)
            if self._tried % max(1, self._a_life // REMEMBERED) == 0 or self._is_last:
                self.remembered += outcomes(data, done)
            if self._is_last:
                self._begin_next_life()
        if self._uncaught:
            raise self._uncaught.pop()
        if done.wrong:
            raise Find("\n".join(done.wrong), data)
        if not done.taken:
            raise Refused from done.refusal

    def close(self) -> None:
        self.engine.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _is_last(self) -> bool:
        """Whether the life at hand ends with this input; one of which no end was seen leaves that to the next."""
        return self._tried >= self._a_life

    @property
    def _is_killed(self) -> bool:
        """Whether the life at hand ends as by SIGKILL."""
        return self._life % 2 == 1

    def _visited(self, data: bytes) -> Visit:
        if self._is_last and self._is_killed:
            self._worker.before_index = self._leave_copy
        return visit(self.engine, data)

    def _leave_copy(self) -> None:
        if not self._copy.exists():
            shutil.copytree(self._store, self._copy)

    @property
    def _copy(self) -> Path:
        return self._store.with_name(f"{self._store.name}-{self._life}")

    def _begin_next_life(self) -> None:
        if self._is_killed:
            self._leave_copy()  # where the last input was not indexed
        self.engine.close()
        if self._is_killed:
            shutil.rmtree(self._store)
            self._copy.rename(self._store)
        self._life, self._tried = self._life + 1, 0
        if self._life % self._lives_a_store == 0:
            self._renew_store()
        try:
            self.engine = self._opened()
            self.engine.resume()
        except BaseException:
            self._renew_store()
            self.engine = self._opened()
            raise
        for each in tuple(self.remembered):
            try:
                each.check(self.engine)
            except Find:
                self.remembered.remove(each)
                raise

    def _renew_store(self) -> None:
        shutil.rmtree(self._store, ignore_errors=True)
        self.remembered.clear()
        self._store = self._new_store()

    def _new_store(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="store-", dir=self._folder))

    def _opened(self) -> Engine:
        self._worker = InProcessWorker(LIMITS, elsewhere=self._life % _INDEXED_AHEAD == 0)
        make = Engine if self._is_killed else Streamed
        return make(Store(self._store, LIMITS, adopt_later=True), LIMITS, disassemble=disassembled, reader=self._worker)

    @contextmanager
    def _noting_threads(self) -> Iterator[None]:
        """An engine's threads answer nobody: what ends one of them is a find all the same."""

        def note(told: threading.ExceptHookArgs) -> None:
            if told.exc_value is not None:
                self._uncaught.append(told.exc_value)

        before, threading.excepthook = threading.excepthook, note
        try:
            yield
        finally:
            threading.excepthook = before


def outcomes(data: bytes, done: Visit) -> list[Outcome]:
    """What is to be asked again."""
    if done.refusal is not None and not done.taken:
        return [Outcome(data, None, done.refusal)]
    if done.remembered is not None:
        return [Outcome(data, *done.remembered[1:])]
    return []


@cache
def _lives() -> Lives:
    """Those of this process."""
    where = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    for left in where.glob(f"{_PREFIX}*-*"):  # by processes that were killed
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    lives = Lives(Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=where)))
    atexit.register(lives.close)
    return lives


def everything(data: bytes) -> None:
    _lives()(data)


CHOSEN = Path(__file__).with_name("reach.json")
"""By kind the names of the samples that reach what no smaller one of their kind does (``reach``)."""


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@cache
def seeds() -> list[bytes]:
    """As many of each kind: the samples that are chosen, and small files of the kinds of which all samples are large."""
    names = {name for alike in json.loads(CHOSEN.read_text()).values() for name in alike}
    return evenly([*(data for data in nested.files() if name_of(data) in names), *small_files.made()])


TARGETS: Mapping[str, Target] = {
    "everything": Target(everything, seeds, nested.mutate, kind=kind, distilled=False),
}

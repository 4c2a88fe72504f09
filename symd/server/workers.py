"""Modules' bytes read in processes of their own: whatever strangers put into them, the worst that they can do is to end
one of these, and what that means is said in one error.

Two pools, so that who asks for little never waits for who asks for much. Every question, and the index of a module that
is not large (``LARGE_MODULE``), goes to the *quick* pool, which has ``QUICK_SECONDS`` for it; what is not done by then
is begun again in the *long* pool, where the index of a large module goes at once. Some processes of both are started
ahead.

Each is held to ``Limits.build_memory`` bytes of address space, to the seconds of its question on the clock and of a
processor, and to ``ANSWER_SIZE`` bytes of answer; an index or a code object does not come as an answer but as a file of
at most ``Limits.index_size`` bytes. What comes back can run no code here (``engine.reading.served``)."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

from symd.config import Limits
from symd.engine.reading import ModuleFile
from symd.engine.reading.questions import MakeIndex, WorkerRequest
from symd.engine.reading.served import LARGE_MODULE, decode, files, request
from symd.errors import (
    DeadlineExceeded,
    LimitExceeded,
    Malformed,
    ModuleNotFound,
    StoreUnavailable,
    SymdError,
    Unavailable,
    WorkerDied,
)
from symd.system.messages import os_error_text, refusal
from symd.system.process import confinement
from symd.system.process.pool import Pool
from symd.system.process.process import ProcessLimits
from symd.system.process.run import ChildException, ExitStatus, Limit

T = TypeVar("T")
log = logging.getLogger(__name__)
Observer = Callable[[str, str, float], None]
"""Called after each question with its kind ("index" or "question"), "OK" or the reason of its error, and the seconds
that it took."""
ANSWER_SIZE: Final = 32 << 20
"""The largest answer to a question that is answered from a module's bytes: texts of sources, code for a listing."""
QUICK_SECONDS: Final = 2.0
"""What takes longer is begun again where nobody waits behind it."""
_FUNCTION: Final = "symd.engine.reading.served:answer"


class Workers:
    """The ``Reader`` of a daemon: ``readers`` processes that answer quickly and ``builders`` that may take long. Safe
    to use from several threads."""

    elsewhere = True

    def __init__(self, limits: Limits, readers: int = 2, builders: int = 2, observers: Sequence[Observer] = ()) -> None:
        self._limits = limits
        self._observers = observers
        self._confined = confinement.available()
        self._quick = Pool(_FUNCTION, readers, confined=self._confined)
        self._long = Pool(_FUNCTION, builders, confined=self._confined)

    def __enter__(self) -> Self:
        """Start some processes ahead."""
        if not self._confined:
            log.warning(
                "this kernel has no Landlock, or this machine's system calls are not known:"
                " processes that read modules could open every file of this user if a reader's defect let them"
            )
        limits = self._process_limits(0.0)
        self._quick.start_ahead(2, limits)
        self._long.start_ahead(1, limits)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes, and with them what they work on."""
        self._quick.close()
        self._long.close()

    def ask(self, module: ModuleFile, question: WorkerRequest[T]) -> T:
        """The answer, as ``_ask``; the observers are called."""
        work, begun, outcome = "index" if isinstance(question, MakeIndex) else "question", time.monotonic(), "OK"
        try:
            return self._ask(module, question)
        except SymdError as error:
            outcome = error.reason
            raise
        finally:
            seconds = time.monotonic() - begun
            for observe in self._observers:
                observe(work, outcome, seconds)

    def _ask(self, module: ModuleFile, question: WorkerRequest[T]) -> T:
        """The answer. Raises what the question raises; DeadlineExceeded or LimitExceeded, which name the limit that the
        process passed; WorkerDied when it died otherwise; Malformed, with the id of what the log says, for an exception
        that nobody expected; Unavailable when no process can be started."""
        building = isinstance(question, MakeIndex)
        seconds = self._limits.build_seconds if building else self._limits.question_seconds
        quick = min(seconds, QUICK_SECONDS)
        answer: bytes | ChildException | ExitStatus | None = None
        with _open_descriptors(module, question) as descriptors:
            asked = request(module, question), descriptors
            if not (building and os.fstat(descriptors[0]).st_size > LARGE_MODULE):
                answer = self._call_worker(self._quick, asked, self._process_limits(quick), module)
            if answer is None or (_late(answer) and quick < seconds):
                answer = self._call_worker(self._long, asked, self._process_limits(seconds), module)
        if isinstance(answer, ChildException):
            raise _defect(answer, module)
        if isinstance(answer, ExitStatus):
            raise _death(answer, self._limits, building=building)
        found: T = decode(answer)
        return found

    def _call_worker(
        self, pool: Pool, asked: tuple[bytes, Sequence[int]], limits: ProcessLimits, module: ModuleFile
    ) -> bytes | ChildException | ExitStatus:
        data, descriptors = asked
        try:
            return pool.call(data, self._limits, limits, module.digest, descriptors)
        except OSError as error:
            raise Unavailable(f"no process to read modules with could be started: {os_error_text(error)}") from error

    def _process_limits(self, seconds: float) -> ProcessLimits:
        limits = self._limits
        return ProcessLimits(
            seconds,
            limits.build_memory,
            ANSWER_SIZE,
            file_size=limits.index_size,
        )


@contextmanager
def _open_descriptors(module: ModuleFile, question: WorkerRequest[T]) -> Iterator[Sequence[int]]:
    """Descriptors of the files that the question is about: a process that reads modules opens none."""
    descriptors: list[int] = []
    try:
        for path, flags in files(module, question):
            try:
                known = module.descriptor if path == module.path else None
                descriptors.append(os.open(path, flags | os.O_CLOEXEC) if known is None else os.dup(known))
            except OSError as error:
                if isinstance(error, FileNotFoundError) and path == module.path:
                    raise ModuleNotFound(f"the file of module {module.digest} is gone", hint="add it again") from None
                metadata = {"file": path}
                raise StoreUnavailable(refusal(error), where=path, metadata=metadata) from error
        yield descriptors
    finally:
        for each in descriptors:
            os.close(each)


def _late(answer: bytes | ChildException | ExitStatus) -> bool:
    return isinstance(answer, ExitStatus) and answer.limit is Limit.SECONDS


def _death(ending: ExitStatus, limits: Limits, *, building: bool) -> SymdError:
    """What it means that a process ended in place of answering."""
    doing = "indexing" if building else "reading the module"
    match ending.limit:
        case Limit.SECONDS:
            name = "build_seconds" if building else "question_seconds"
            value = getattr(limits, name)
            return DeadlineExceeded(f"{doing} took longer than {value:g} s", **_raise(name, value))
        case Limit.MEMORY:
            value = limits.build_memory
            return LimitExceeded(f"{doing} takes more than {value} bytes of memory", **_raise("build_memory", value))
        case Limit.ANSWER:
            metadata = {"limit": "answer_size", "value": str(ANSWER_SIZE)}
            return LimitExceeded(f"the answer takes more than {ANSWER_SIZE} bytes", metadata=metadata)
    log.error("a process that read a module %s", ending)
    metadata = {"signal": ending.signal} if ending.signal else {}
    return WorkerDied(
        f"the process that read the module {ending}", hint="try again; its memory may have run out", metadata=metadata
    )


def _raise(name: str, value: float) -> dict[str, Any]:
    """The rest of an error that a limit causes."""
    return {"hint": f"raise the limit {name}", "metadata": {"limit": name, "value": str(value)}}


def _defect(found: ChildException, module: ModuleFile) -> Malformed:
    """The error for bytes that a reader has no error for: a defect of the reader, and for who sent them bytes that
    cannot be read. The log has the traceback under the id that the error names."""
    number = uuid.uuid4().hex[:12]
    log.error("defect %s in reading module %s\n%s", number, module.digest, found.traceback)
    return Malformed(
        f"symd cannot read it: {found.exception}: {found.message} (id {number})",
        hint="the daemon's log has the details under this id",
        metadata={"id": number, "exception": found.exception},
    )

"""What a daemon's processes do, done in this one: the reading of modules and the disassembling."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from symd.config import Limits
from symd.engine.reading import ModuleFile, served
from symd.engine.reading.questions import MakeIndex, WorkerRequest
from symd.engine.reading.served import decode
from symd.errors import SymdError, error_from_dict, error_to_dict
from symd.model.code import CodeObject
from symd.model.line_tables import CodeSpan, Instructions
from symd.query.disasm.disassembler import code_ranges

T = TypeVar("T")
_STEP = 16
"""Bytes of an instruction."""


class InProcessWorker:
    """A ``Reader`` that answers by the function that a daemon's processes call: to a request that is bytes, from descriptors, with an answer or an
    error that is bytes."""

    def __init__(self, limits: Limits, *, elsewhere: bool) -> None:
        self.elsewhere = elsewhere
        self.before_index: Callable[[], object] = lambda: None
        """Called when an index is about to be made."""
        self._limits = limits

    def ask(self, module: ModuleFile, question: WorkerRequest[T]) -> T:
        if isinstance(question, MakeIndex):
            self.before_index()
        with _opened(module, question) as descriptors:
            try:
                answer: T = decode(served.answer(served.request(module, question), self._limits, descriptors))
            except SymdError as error:
                raise _told(error) from error
        return answer


@contextmanager
def _opened(module: ModuleFile, question: WorkerRequest[T]) -> Iterator[Sequence[int]]:
    descriptors: list[int] = []
    try:
        for path, flags in served.files(module, question):
            known = module.descriptor if path == module.path else None
            descriptors.append(os.open(path, flags | os.O_CLOEXEC) if known is None else os.dup(known))
        yield descriptors
    finally:
        for each in descriptors:
            os.close(each)


def _told(error: SymdError) -> SymdError:
    """The error as it comes from another process."""
    found = error_from_dict(json.loads(json.dumps(error_to_dict(error))))
    if found is None:
        raise AssertionError(f"an error that is not in the tree: {error.reason}") from error
    return found


def disassembled(
    codes: Sequence[CodeObject], spans: Sequence[CodeSpan] | None, limits: Limits
) -> list[Instructions | SymdError]:
    """What disassemblers, which are programs, could say: an instruction every few bytes of all that is code."""
    del limits
    return [_instructions(code, spans) for code in codes]


def _instructions(code: CodeObject, spans: Sequence[CodeSpan] | None) -> Instructions | SymdError:
    try:
        ranges = code_ranges(code, spans)
    except SymdError as error:
        return error
    places = [
        (each.section, at, min(_STEP, each.end - at)) for each in ranges for at in range(each.offset, each.end, _STEP)
    ]
    sections, offsets, sizes = zip(*places, strict=True) if places else ((), (), ())
    return Instructions(
        np.array(sections, np.uint32),
        np.array(offsets, np.uint64),
        np.array(sizes, np.uint32),
        ["nop"] * len(places),
        "",
    )

"""The function that a reader calls in another process: one question about a module's bytes, answered there."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from symd.config import Limits
from symd.engine.reading.module_file import ModuleFile
from symd.engine.reading.opened_module import OpenedModules
from symd.engine.reading.questions import MakeIndex, WorkerRequest, WriteObject
from symd.engine.reading.values import decode, encode

T = TypeVar("T")
LARGE_MODULE: Final = 1 << 20
"""The index of a module of more bytes is made by a process that is asked for little else."""
_KEPT_AFTER_INDEX: Final = 4
"""How many modules, those asked about last, stay open when an index was made: uploads come by the thousand, and
nobody asks about most."""
_opened: Final = OpenedModules()


def request(module: ModuleFile, question: WorkerRequest[T]) -> bytes:
    """What ``answer`` is to be called with."""
    return encode((ModuleFile(module.digest, module.path, is_hashed=module.is_hashed), question))


def files(module: ModuleFile, question: WorkerRequest[T]) -> Iterator[tuple[str, int]]:
    """The files whose descriptors go with a ``request``, in this order, and the flags with which to open them; a descriptor that ``module`` has is
    the first."""
    yield module.path, os.O_RDONLY
    if isinstance(question, MakeIndex | WriteObject):
        yield question.into, os.O_RDWR


def answer(data: bytes, limits: Limits, descriptors: Sequence[int]) -> bytes:
    """The answer to a ``request``, as ``values`` writes it; ``descriptors`` are those of its ``files``. A module stays open for the next question, unless it is large and
    its index was made."""
    module, question = decode(data)
    module = replace(module, descriptor=descriptors[0])
    if isinstance(question, MakeIndex | WriteObject):
        question = replace(question, descriptor=descriptors[1])
    opened = _opened.open(module, limits)
    if not isinstance(question, MakeIndex):
        return encode(question.answer(opened))
    collects = gc.isenabled()  # not in a daemon's process, which looks for garbage while nobody waits
    gc.disable()  # an index of thousands of objects makes hundreds of thousands of values and no garbage: a fifth of its time goes into looking
    try:
        return encode(question.answer(opened))
    finally:
        if collects:
            gc.enable()
        _opened.forget_but(0 if len(opened.data) > LARGE_MODULE else _KEPT_AFTER_INDEX)

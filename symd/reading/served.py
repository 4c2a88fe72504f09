"""The other side of a reader that asks another process: the function that is called there."""

from __future__ import annotations

from typing import Final, TypeVar

from symd.config import Limits
from symd.reading.module_file import ModuleFile
from symd.reading.opened_module import OpenedModules
from symd.reading.questions import MakeIndex, Question
from symd.reading.values import decode, encode

T = TypeVar("T")
_KEPT_BYTES: Final = 64 << 20
"""Bytes of modules that a process keeps open for its next question; what is unpacked of them comes on top."""
_opened: Final = OpenedModules(_KEPT_BYTES)


def request(module: ModuleFile, question: Question[T]) -> bytes:
    """What ``answer`` is to be called with."""
    return encode((ModuleFile(module.digest, module.path), question))


def answer(data: bytes, limits: Limits) -> bytes:
    """The answer to a ``request``, as ``values`` writes it. A module whose index is made is not kept: the process that
    does that is asked for nothing else."""
    module, question = decode(data)
    opened = _opened.open(module, limits)
    found = question.answer(opened)
    if isinstance(question, MakeIndex):
        _opened.clear()
    return encode(found)

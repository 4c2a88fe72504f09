"""Who answers questions about a module's bytes."""

from __future__ import annotations

from typing import Protocol, TypeVar

from symd.config import Limits
from symd.engine.reading.module_file import ModuleFile
from symd.engine.reading.opened_module import OpenedModules
from symd.engine.reading.questions import WorkerRequest

T = TypeVar("T")


class Reader(Protocol):
    """Whom the engine asks. Safe to use from several threads."""

    @property
    def elsewhere(self) -> bool:
        """Whether other processes do the work, so that an index can be made while this one answers."""
        ...

    def ask(self, module: ModuleFile, question: WorkerRequest[T]) -> T:
        """The answer. Raises what the question raises; ``DataLoss`` where the stored bytes are not those of the digest;
        ``ModuleNotFound`` where they are gone."""
        ...


class InProcessReader:
    """Reads in this process: for a command that ends soon, and for whoever uses the library on files that he trusts. ``only``: the path of
    the code object that a command is about, of whatever module; nothing else is read."""

    elsewhere = False

    def __init__(self, limits: Limits, only: str | None = None) -> None:
        self._limits = limits
        self._opened = OpenedModules(only=only)

    def ask(self, module: ModuleFile, question: WorkerRequest[T]) -> T:
        opened = self._opened.open(module, self._limits)
        return question.answer(opened)

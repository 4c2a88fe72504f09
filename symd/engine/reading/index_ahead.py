"""The index of a module whose file is still on its way into the store: made while the disk takes the file in."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self

from symd.engine.reading.module_file import ModuleFile
from symd.engine.reading.questions import MakeIndex
from symd.engine.reading.reader import Reader
from symd.errors import SymdError, Unavailable


class IndexScratch(Protocol):
    """What is used here of ``symd.store.files.IncomingFile``."""

    @property
    def path(self) -> os.PathLike[str]: ...

    def mapped(self) -> memoryview: ...


class IndexAhead:
    """A context manager: inside, a thread of its own has ``reader`` make the index into a file that ``scratch`` gives. ``module`` has a descriptor,
    which is closed in the end. Whoever leaves does not wait."""

    def __init__(
        self, reader: Reader, module: ModuleFile, scratch: Callable[[], AbstractContextManager[IndexScratch]]
    ) -> None:
        self._reader, self._module, self._scratch = reader, module, scratch
        self._made, self._left = threading.Event(), threading.Event()
        self._file: IndexScratch | None = None
        self._error: SymdError = Unavailable("the index was not made", hint="add the module again")

    def __enter__(self) -> Self:
        run = (
            contextvars.copy_context().run
        )  # what is done there belongs to the call that is served here, as its log and its spans say
        threading.Thread(target=run, args=(self._make,), name="symd-index-ahead", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()

    def index(self) -> memoryview:
        """The index file, once it is made. Raises what making it raises."""
        self._made.wait()
        if self._file is None:
            raise self._error
        return self._file.mapped()

    def _make(self) -> None:
        try:
            with self._scratch() as file:
                self._reader.ask(self._module, MakeIndex(os.fspath(file.path)))
                self._file = file
                self._made.set()
                self._left.wait()
        except SymdError as error:  # raised where it is waited for
            self._error = error
        finally:
            self._made.set()
            if self._module.descriptor is not None:
                os.close(self._module.descriptor)

"""A file whose questions this process answers itself, as directly as it can; nothing here needs click."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from symd.config import Limits
from symd.engine.files.gc_control import gc_frozen
from symd.engine.files.opened_file import opened_file
from symd.engine.files.progress import working
from symd.model.addresses import Query
from symd.model.answers import Answer, Answers
from symd.model.columns import U64
from symd.model.frame_text import printable
from symd.query.python_names import PythonNames

if TYPE_CHECKING:
    from pathlib import Path

    from symd.model.sources import PathRule
    from symd.query.python_names import PythonNames


class LocalModule:
    """What answers questions about ``file``. ``store``: as for ``opened_file``, whose errors it raises. ``sources`` are the folders and rules by which sources
    are found that have the names of Python functions: those of the working directory, where nothing is said."""

    def __init__(
        self,
        file: str,
        limits: Limits,
        store: str | None = None,
        sources: tuple[Sequence[Path], Sequence[PathRule]] | None = None,
    ) -> None:
        self._file, self._limits, self._sources = file, limits, sources
        self._names: PythonNames | None = None
        self._working = f"reading {printable(file)}"
        with working(self._working), gc_frozen():
            self._opened = opened_file(file, limits, store)

    def symbolize(
        self, queries: Sequence[Query] | U64, path: str | None = None, *, as_written: bool = False
    ) -> Sequence[Answer]:
        """Frames for each query, in order, as ``Symbolizer.symbolize`` gives them. Python functions without a name
        get the one that their sources tell, unless ``as_written``."""
        with working(self._working):  # as much of it as these queries need
            answers = self._opened.symbolize(queries, path, as_written=as_written)
            if as_written or not _lack_names(answers):
                return answers
            if self._names is None:
                self._names = PythonNames(self._texts)
            return self._names.named(answers)

    def _texts(self, files: list[str]) -> dict[str, str | None]:
        """The texts of sources: the file itself may carry some."""

        from symd.engine.files.listing_sources import allowed_folders, texts_of, texts_on_disk  # noqa: PLC0415 - likewise
        from symd.engine.files.module import open_module  # noqa: PLC0415 - likewise

        allowed = allowed_folders(*self._sources or ((Path(),), ()))
        if not os.path.isfile(self._file):  # noqa: PTH113 - what came through a pipe comes once
            return texts_on_disk(files, allowed, self._limits)
        with open_module(self._file, None, self._limits) as module:
            return texts_of(module.symbolizer, module.digest, files, allowed, self._limits)

    def spirv_with(self, kernel: str) -> str:
        """The path of the first SPIR-V inside the module that has a kernel of that name; "" where none has."""
        with working(self._working):
            return self._opened.spirv_with(kernel)

    def unread(self, path: str | None) -> str:
        """Why the debug data of the code object at ``path`` cannot be read or found, or, where ``path`` is None, why
        the module has no code object; "" where neither is so."""
        return self._opened.unread(path)

    def kernel_sizes(self, kernel: str, path: str | None = None) -> set[int]:
        """Sizes in bytes of the kernels of that name in the code object at ``path``; where ``path`` is None, in all
        code objects but SPIR-V inside a container."""
        return self._opened.kernel_sizes(kernel, path)


def _lack_names(answers: Sequence[Answer]) -> bool:
    """Whether some inlined call has no name."""
    if isinstance(answers, Answers):
        locations = answers.locations
        return bool(((locations.function == 0) & (locations.inlined != 0)).any())
    return any(frame.inlined and not frame.function for answer in answers for frame in answer.frames)

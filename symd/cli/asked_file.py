"""A file whose questions this process answers itself, as directly as it can; nothing here needs click."""

from __future__ import annotations

from collections.abc import Sequence

from symd.cli.opened_file import opened_file
from symd.cli.output import printable
from symd.cli.progress import working
from symd.config import Limits
from symd.model.addresses import Query
from symd.model.answers import Answer
from symd.model.columns import U64


class AskedFile:
    """What answers questions about ``file``. ``store``: as for ``opened_file``, whose errors it raises."""

    def __init__(self, file: str, limits: Limits, store: str | None = None) -> None:
        self._working = f"reading {printable(file)}"
        with working(self._working):
            self._opened = opened_file(file, limits, store)

    def symbolize(
        self, queries: Sequence[Query] | U64, path: str | None = None, *, as_written: bool = False
    ) -> Sequence[Answer]:
        """As ``OneFile.symbolize``."""
        with working(self._working):  # as much of it as these queries need
            return self._opened.symbolize(queries, path, as_written=as_written)

    def spirv_with(self, kernel: str) -> str:
        """As of ``ModuleSummary``."""
        with working(self._working):
            return self._opened.spirv_with(kernel)

    def unread(self, path: str | None) -> str:
        """As of ``ModuleSummary``."""
        return self._opened.unread(path)

    def kernel_sizes(self, kernel: str, path: str | None = None) -> set[int]:
        """As of ``ModuleSummary``."""
        return self._opened.kernel_sizes(kernel, path)

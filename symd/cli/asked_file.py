"""A file whose questions this process answers itself, as directly as it can; nothing here needs click."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symd.cli.opened_file import opened_file
from symd.cli.output import printable
from symd.cli.progress import working
from symd.config import Limits
from symd.model.addresses import Query
from symd.model.answers import Answer
from symd.model.columns import U64


def asked_file(file: str, limits: Limits, store: str | None = None) -> Callable[..., Sequence[Answer]]:
    """What answers questions about ``file``; it takes what ``OneFile.symbolize`` takes. ``store``: as for ``opened_file``, whose errors it raises."""
    with working(f"reading {printable(file)}"):
        opened = opened_file(file, limits, store)

    def answers(
        queries: Sequence[Query] | U64, path: str | None = None, *, as_written: bool = False
    ) -> Sequence[Answer]:
        with working(f"reading {printable(file)}"):  # as much of it as these queries need
            return opened.symbolize(queries, path, as_written=as_written)

    return answers

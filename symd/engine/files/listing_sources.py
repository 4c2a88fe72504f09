"""The texts of the source files that a module names: from the module, a daemon, or below folders that the user
allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from symd.api import Symbolizer
from symd.config import Limits
from symd.model.answers import Answer, Answers, Reason
from symd.model.arguments import AnyColumn, AnyQuery
from symd.model.line_tables import WHOLE_MODULE, Listing, ListingPart
from symd.model.sources import PathRule, SourceText
from symd.model.waiting import never_cancelled
from symd.query.python_names import PythonNames
from symd.query.source_text import Allowed, completed
from symd.system.symlinks import read_below


def allowed_folders(roots: Sequence[Path], rules: Sequence[PathRule]) -> Allowed:
    """The folders that may be read, absolute: ``roots``, and those that path rules lead to."""
    folders = [*roots, *(Path(rule.replacement) for rule in rules if rule.replacement)]
    absolute = dict.fromkeys(str(folder.expanduser().absolute()) for folder in folders)
    return Allowed(tuple(absolute), tuple(rules))


def source_texts(
    symbolizer: Symbolizer, digest: str, files: Sequence[str], allowed: Allowed, limits: Limits
) -> dict[str, SourceText]:
    """What is known of each file, by its name in frames."""
    read = partial(read_below, largest=limits.source_size)
    found = symbolizer.sources(digest, files) if files else []
    return {source.file: completed(source, allowed, read) for source in found}


def texts_of(
    symbolizer: Symbolizer, digest: str, files: Sequence[str], allowed: Allowed, limits: Limits
) -> dict[str, str | None]:
    """The text of each file that a module carries, or from an allowed folder; None where there is none."""
    return {file: source.text for file, source in source_texts(symbolizer, digest, files, allowed, limits).items()}


def texts_on_disk(files: Sequence[str], allowed: Allowed, limits: Limits) -> dict[str, str | None]:
    """The text of each file from an allowed folder, None where there is none."""
    read = partial(read_below, largest=limits.source_size)
    return {file: completed(SourceText(file), allowed, read).text for file in files}


def with_python_names(symbolizer: Symbolizer, allowed: Allowed, limits: Limits) -> Symbolizer:
    """The symbolizer, whose answers have the names of Python functions that these sources tell
    (``query.python_names``)."""
    return cast("Symbolizer", _PythonNamed(symbolizer, allowed, limits))


class _PythonNamed:
    """A symbolizer with the verbs of another one; those that answer with frames add the names of Python functions."""

    def __init__(self, symbolizer: Symbolizer, allowed: Allowed, limits: Limits) -> None:
        self._symbolizer, self._allowed, self._limits = symbolizer, allowed, limits
        self._names: dict[str, PythonNames] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._symbolizer, name)

    def _names_of(self, digest: str) -> PythonNames:
        if digest not in self._names:
            self._names[digest] = PythonNames(
                lambda files: texts_of(self._symbolizer, digest, files, self._allowed, self._limits)
            )
        return self._names[digest]

    def symbolize(
        self, digest: str, queries: Iterable[AnyQuery], path: str | None = None, *, as_written: bool = False
    ) -> Answers:
        found = self._symbolizer.symbolize(digest, queries, path, as_written=as_written)
        return found if as_written else self._names_of(digest).named_columns(found)

    def symbolize_one(self, digest: str, query: AnyQuery, path: str | None = None) -> Answer:
        found = self._symbolizer.symbolize_one(digest, query, path)
        return found if found.reason is Reason.EXACT else self._names_of(digest).named([found])[0]

    def symbolize_column(
        self,
        digest: str,
        values: AnyColumn,
        *,
        kernel: str | None = None,
        section: str | int | None = None,
        path: str | None = None,
        as_written: bool = False,
    ) -> Answers:
        found = self._symbolizer.symbolize_column(
            digest, values, kernel=kernel, section=section, path=path, as_written=as_written
        )
        return found if as_written else self._names_of(digest).named_columns(found)

    def listing(
        self, digest: str, part: ListingPart = WHOLE_MODULE, check_cancelled: Callable[[], None] = never_cancelled
    ) -> Iterator[Listing]:
        for each in self._symbolizer.listing(digest, part, check_cancelled):
            yield replace(each, answers=self._names_of(digest).named_columns(each.answers))

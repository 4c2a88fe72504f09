"""The texts of the source files that a module names: from the module, a daemon, or below folders that the user
allowed. And symbolizers whose answers have functions by the names that are written in the source, for what shows them
to people: the verbs, and what they are asked by, stay the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from symd.api import Symbolizer
from symd.config import Limits
from symd.errors import BadQuery
from symd.model.addresses import Query
from symd.model.answers import Answer, Answers, Reason, subset
from symd.model.arguments import AnyColumn, AnyQuery, ModuleName, unchecked_digest
from symd.model.line_tables import WHOLE_MODULE, Listing, ListingPart
from symd.model.names import NamedItem, NameQuery
from symd.model.sources import PathRule, SourceText
from symd.query.demangler import Demangler
from symd.query.python_names import PythonNames
from symd.query.source_files import Allowed, completed, remapped
from symd.system.symlinks import read_below


def allowed_folders(roots: Sequence[Path], rules: Sequence[PathRule], *, only_roots: bool = False) -> Allowed:
    """The folders that the user named with ``--source-root`` and ``--map``, absolute and without "~", ".." and links.
    A root is also allowed under its name as typed, which debug data may have; where a rule leads is allowed too, unless
    ``only_roots`` is true. Raises BadQuery for a rule that leads to no folder."""
    named = [root.expanduser().absolute() for root in roots]
    found = tuple(PathRule(rule.prefix, rule.replacement and _folder(rule, named)) for rule in rules)
    led = () if only_roots else (rule.replacement for rule in found if rule.replacement)
    folders = [*(str(each) for root in named for each in (root, root.resolve())), *led]
    return Allowed(tuple(dict.fromkeys(folders)), found)


def _folder(rule: PathRule, roots: Sequence[Path]) -> str:
    """Where a rule leads: its folder below the first root that has it, or below the working directory."""
    leads = Path(rule.replacement).expanduser()
    there = next((each for each in (*(root / leads for root in roots), leads) if each.is_dir()), None)
    if there is None:
        raise BadQuery(
            f"--map {rule.prefix}={rule.replacement}: {leads} is not a folder",
            hint=f"name the folder on this machine with the files of {rule.prefix or 'the working directory of the compiler'}",
        )
    return str(there.resolve())


def unused_rules(rules: Iterable[PathRule], files: Iterable[str]) -> list[PathRule]:
    """The rules that fit none of the names that source files have in frames."""
    named = list(files)
    return [rule for rule in rules if not any(remapped(each, (rule,)) != each for each in named)]


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
    named = _PythonNamed(symbolizer, allowed, limits)
    return cast("Symbolizer", named)  # tests/python/test_open.py holds its signatures to Symbolizer's


class _PythonNamed:
    """A symbolizer with the verbs of another one; those that answer with frames add the names of Python functions."""

    def __init__(self, symbolizer: Symbolizer, allowed: Allowed, limits: Limits) -> None:
        self._symbolizer, self._allowed, self._limits = symbolizer, allowed, limits
        self._names: dict[str, PythonNames] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._symbolizer, name)

    def _names_of(self, module: ModuleName) -> PythonNames:
        digest = unchecked_digest(module)
        if digest not in self._names:
            self._names[digest] = PythonNames(
                lambda files: texts_of(self._symbolizer, digest, files, self._allowed, self._limits)
            )
        return self._names[digest]

    def symbolize(
        self,
        digest: ModuleName,
        queries: Iterable[AnyQuery],
        path: str | None = None,
        *,
        as_written: bool = False,
        with_ranges: bool = False,
    ) -> Answers:
        found = self._symbolizer.symbolize(digest, queries, path, as_written=as_written, with_ranges=with_ranges)
        return found if as_written else self._names_of(digest).named_columns(found)

    def symbolize_one(
        self, digest: ModuleName, query: AnyQuery, path: str | None = None, *, with_ranges: bool = False
    ) -> Answer:
        found = self._symbolizer.symbolize_one(digest, query, path, with_ranges=with_ranges)
        return found if found.reason is Reason.EXACT else self._names_of(digest).named([found])[0]

    def symbolize_column(
        self,
        digest: ModuleName,
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

    def listing(self, digest: ModuleName, part: ListingPart = WHOLE_MODULE) -> Iterator[Listing]:
        for each in self._symbolizer.listing(digest, part):
            names = self._names_of(each.module or digest)  # by device address no module is named
            yield replace(each, answers=names.named_columns(each.answers))


def demangled(symbolizer: Symbolizer) -> Symbolizer:
    """The symbolizer with such answers. Raises ToolMissing where no demangler is installed."""
    return cast("Symbolizer", _Demangled(symbolizer, Demangler()))


class _Demangled:
    """A symbolizer with the verbs of another one; those that the page shows name functions as ``demangler`` does."""

    def __init__(self, symbolizer: Symbolizer, demangler: Demangler) -> None:
        self._symbolizer, self._demangler = symbolizer, demangler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._symbolizer, name)

    def symbolize_one(self, digest: ModuleName, query: Query, path: str | None = None) -> Answer:
        return self._demangler.answers([self._symbolizer.symbolize_one(digest, query, path)])[0]

    def symbolize_column(self, digest: ModuleName, values: AnyColumn, **where: Any) -> Answers:
        return self._columns(self._symbolizer.symbolize_column(digest, values, **where))

    def listing(self, digest: ModuleName, part: ListingPart = WHOLE_MODULE) -> Iterator[Listing]:
        for each in self._symbolizer.listing(digest, part):
            yield replace(each, answers=self._columns(each.answers))

    def names(self, digest: ModuleName, wanted: NameQuery, path: str | None = None) -> Sequence[NamedItem]:
        """What is mangled stands as the linkage name."""
        found = self._symbolizer.names(digest, wanted, path)
        mangled = [each.linkage_name or each.name for each in found]
        readable = self._demangler.names(mangled)
        return [
            replace(each, name=readable[name], linkage_name=name) if name in readable else each
            for each, name in zip(found, mangled, strict=True)
        ]

    def _columns(self, answers: Answers) -> Answers:
        """The answers, as columns, with the functions of those locations that they point to by their readable names."""
        table, numbers = subset(answers.locations, answers.location)
        mangled = np.where(table.linkage_name != 0, table.linkage_name, table.function)
        names = {number: table.strings[number] for number in np.unique(mangled).tolist()}
        readable = self._demangler.names(names.values())
        strings = [*table.strings, *readable.values()]
        place = {name: at for at, name in enumerate(readable, len(table.strings))}
        function = table.function.copy()
        for number, name in names.items():
            if name in place:
                function[mangled == number] = place[name]
        named = replace(table, function=function, strings=strings, shared=False)
        return answers.with_locations(named, location=numbers[answers.location])

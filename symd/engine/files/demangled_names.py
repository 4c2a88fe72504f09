"""A symbolizer whose answers have functions by the names that are written in the source, for what shows them to people:
the verbs, and what they are asked by, stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from symd.api import Symbolizer
from symd.model.addresses import Query
from symd.model.answers import Answer, Answers, subset
from symd.model.arguments import AnyColumn, ModuleName
from symd.model.line_tables import WHOLE_MODULE, Listing, ListingPart
from symd.model.names import NamedItem, NameQuery
from symd.query.demangler import Demangler


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
        return Answers(
            numbers[answers.location],
            answers.text_section,
            answers.offset,
            replace(table, function=function, strings=strings, shared=False),
            answers.text_sections,
            answers.candidates,
            answers.ranges,
        )

"""One damaged file as a client meets it, of a daemon or of an engine in this process: uploaded, and asked about by every question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np

from symd.api import Symbolizer
from symd.errors import SymdError
from symd.model.addresses import ByKernel, BySection, KernelOffset, Query, SectionOffset
from symd.model.answers import Answer
from symd.model.breakpoints import SourceLine
from symd.model.contexts import Context, Load
from symd.model.line_tables import LineLevel, ListingPart
from symd.model.names import Match, NameQuery
from symd.model.summaries import ModuleSummary
from tests.fuzz.wire import CONTRACT

Found = TypeVar("Found")

_SECTION = BySection(1, SectionOffset(16))
"""A place that many an image has, whatever its kernels are called."""


_VALUES = np.array([0, 8, 0x40, 0x1978, 1 << 32, (1 << 32) + 0x40, (1 << 63) + 8, (1 << 64) - 1], np.uint64)
"""Offsets and addresses."""
_FEW = "01"
"""One in eight digests begins with one of these: those are asked what takes a process or several calls."""


@dataclass
class Visit:
    """What the calls about one file ended with. ``remembered`` is an answer about the module, where it was taken as one; ``refusal`` is the last error;
    ``wrong`` says which calls had an end that is not of the contract."""

    taken: bool = False
    refusal: SymdError | None = None
    remembered: tuple[str, Query, Answer] | None = None
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def call(self, what: str, ask: Callable[[], Found]) -> Found | None:
        """What was answered; None for a refusal."""
        try:
            found = ask()
        except SymdError as error:
            self.statuses[error.status] += 1
            self.refusal = error
            if error.status not in CONTRACT:
                self.wrong.append(f"{what}: {error.status}, {error.reason}: {error}")
            return None
        self.statuses["OK"] += 1
        return found


def visit(symbolizer: Symbolizer, data: bytes) -> Visit:
    """Upload the file, and ask about it where it is taken."""
    done = Visit()
    module = done.call("add", partial(symbolizer.add, data))
    if module is not None:
        done.taken = True
        for what, ask in _questions(symbolizer, module):
            done.call(what, ask)
        query = next(_places(module), _SECTION)
        answer = done.call("symbolize", partial(symbolizer.symbolize_one, module.sha256, query))
        if answer is not None:
            done.remembered = module.sha256, query, answer
    return done


def _places(module: ModuleSummary) -> Iterator[Query]:
    for each in module.objects[:2]:
        for kernel in each.kernels[:2]:
            yield ByKernel(kernel.name, KernelOffset(0))
            yield ByKernel(kernel.name, KernelOffset(kernel.size // 2))


def _questions(symbolizer: Symbolizer, module: ModuleSummary) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every question about a module, each with its name."""
    digest = module.sha256
    paths = [each.path for each in module.objects[:2]]
    places = [*_places(module), _SECTION]
    yield "module", partial(symbolizer.module, digest)
    yield "symbolize", lambda: list(symbolizer.symbolize(digest, places))
    for level in LineLevel:
        yield "lines", partial(_all, partial(symbolizer.lines, digest, None, level))
    for match in Match:
        yield "names", partial(_all, partial(symbolizer.names, digest, NameQuery("*", match)))
    for query in places[:3]:
        yield "variables", partial(symbolizer.variables, digest, query)
    files = ["kernel.cl", "raycast.cl"]
    yield "sources", partial(symbolizer.sources, digest, files)
    for file in files:
        yield "locate", partial(symbolizer.locate, digest, SourceLine(file, 12))
    for path in paths:
        yield "object_data", partial(symbolizer.object_data, digest, path)
    for kernel in (None, *(kernel.name for each in module.objects[:2] for kernel in each.kernels[:1])):
        yield "columns", partial(_column, symbolizer, digest, kernel)
    if "core" in module.format:
        yield "core", partial(symbolizer.core, digest)
    if digest[0] in _FEW:
        yield "listing", partial(_all, partial(symbolizer.listing, digest, ListingPart(within=kernel)))
        yield "context", partial(_loaded, symbolizer, module)


def _column(symbolizer: Symbolizer, digest: str, kernel: str | None) -> list[Answer]:
    return list(symbolizer.symbolize_column(digest, _VALUES, kernel=kernel))


def _loaded(symbolizer: Symbolizer, module: ModuleSummary) -> list[Answer]:
    """Device addresses, where the module's objects were loaded."""
    context = symbolizer.contexts.add(Context(process=1))
    loads = [
        Load(module.sha256, 1, load_base=number << 32, path=each.path) for number, each in enumerate(module.objects[:2])
    ]
    symbolizer.contexts.record(context, loads)
    try:
        return [each.answer for each in symbolizer.contexts.symbolize(context, _VALUES, 2)]
    finally:
        symbolizer.contexts.remove(context)


def _all(ask: Callable[[], object]) -> int:
    found = ask()
    return sum(1 for _ in islice(found, 5000))  # type: ignore[call-overload,misc] # whichever it is, it is iterable

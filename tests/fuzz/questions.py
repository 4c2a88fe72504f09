"""Everything that a user could ask of some bytes, in one function: it returns, or raises what a user must never see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np

from symd.config import Limits
from symd.debuginfo import separate_files
from symd.engine.reading import OpenedModule
from symd.errors import NotFound, SymdError
from symd.formats.budget import Budget
from symd.formats.spirv_rules import check
from symd.index import Index
from symd.index.module import build_index
from symd.model.addresses import (
    ByAddress,
    ByKernel,
    BySection,
    KernelOffset,
    ObjectAddress,
    Query,
    SectionOffset,
    parse_query,
)
from symd.model.breakpoints import SourceLine, parse_source_line
from symd.model.columns import U64
from symd.model.names import Match, NameQuery
from symd.model.variables import Visible
from symd.query.breakpoints import locate
from symd.query.line_tables import lines, ptx_table
from symd.query.names import find_names
from symd.query.source_files import from_module
from symd.query.symbolize import symbolize, symbolize_column
from tests.query.asked import symbolize_one, variables, visible_in

LIMITS = Limits()
REFUSED = {"INVALID_ARGUMENT", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}
"""The statuses by which a refusal is the input's fault."""
_FEW = 4
"""Kernels, files and objects that the dearer questions are asked of."""


T = TypeVar("T")


class BadRefusal(AssertionError):
    """An error of the tree that does not fit bad bytes."""


def ask_everything(data: bytes) -> bool:
    """Whether the bytes were taken as a module. Raises whatever is not a fitting refusal."""
    _try(lambda: check(data))
    _try(lambda: separate_files.slim(data, Budget(LIMITS)))
    _try(lambda: _written_queries(data))
    index = _try(lambda: Index(build_index(data, LIMITS)))
    if index is None:
        return False
    _tables(index)
    _addresses(index)
    _names(index)
    _module_again(index, data)
    return True


def _try(ask: Callable[[], T]) -> T | None:
    """The answer, or None for a refusal that fits."""
    try:
        return ask()
    except SymdError as error:
        if error.status not in REFUSED or not error.message:
            raise BadRefusal(f"{type(error).__name__}, {error.status}: {error}") from error
        return None


def _tables(index: Index) -> None:
    assert index.summary.format
    assert index.locations is not None
    for path in [None, *index.objects[:_FEW]]:
        for table in lines(index, path):
            assert len(table) == len(table.line)
            for column in (table.kernel, table.function, table.file):
                assert all(table.strings[number] is not None for number in np.unique(column).tolist())


def _addresses(index: Index) -> None:
    """Columns, batches and single queries of each kind; one query has the same answer in all of them."""
    for name, entries in islice(index.kernels.items(), 16):
        values = _some(entries[0].size)
        column = list(symbolize_column(index, values, kernel=name))
        queries = [ByKernel(name, KernelOffset(value)) for value in values.tolist()]
        assert list(symbolize(index, queries)) == column
        assert symbolize_one(index, queries[0]) == column[0]
    for place in index.sections[:16]:
        sections = symbolize_column(index, _some(4096), section=place.section_index, path=place.path)
        addresses = symbolize_column(index, _some(4096) + np.uint64(place.address))
        assert len(list(sections)) == len(list(addresses)) == len(sections)


def _some(size: int) -> U64:
    edges = np.array([0, 1, size, (1 << 64) - 1], np.uint64)
    return np.unique(np.concatenate([edges, np.linspace(0, min(size, 1 << 40), 12).astype(np.uint64)]))


def _names(index: Index) -> None:
    for match in Match:
        _all(find_names(index, NameQuery("*", match)))
    _all(find_names(index, NameQuery("*[!v]?*", Match.GLOB)))
    for file in {table.strings[number] for table in lines(index) for number in table.file[:_FEW].tolist()} - {""}:
        for line in (1, 10, (1 << 32) - 1):
            locate(index, SourceLine(file, line))
            locate(index, SourceLine(file, line), every_address=True)


def _all(found: Iterable[object]) -> None:
    for _ in islice(found, 5000):
        pass


def _module_again(index: Index, data: bytes) -> None:
    """The questions for which a module is opened again: variables, embedded sources, PTX."""
    opened = OpenedModule("0" * 64, data, LIMITS)
    codes = opened.objects
    files = [index.strings[number] for number in np.unique(index.rows.file).tolist()[:_FEW]]
    _try(lambda: from_module(codes, files))
    for code in codes[:_FEW]:
        _try(partial(ptx_table, code))
    for number, query in enumerate(_sample_queries(index)):
        with suppress(NotFound):
            found = _try(partial(variables, index, query, partial(_visible, opened)))
            if number % _FEW == 1:
                assert found == _try(partial(variables, index, query, partial(visible_in, codes)))


def _visible(module: OpenedModule, path: str, section: int, offset: int) -> Visible | str:
    """As a process that reads modules answers it: debug data stays open from question to question."""
    return module.visible(path, ((section, offset),))[0]


def _sample_queries(index: Index) -> list[Query]:
    found: list[Query] = [ByAddress(ObjectAddress(0))]
    for name, entries in islice(index.kernels.items(), _FEW):
        found += [ByKernel(name, KernelOffset(part * entries[0].size // 3)) for part in range(3)]
    return found + [BySection(place.section_index, SectionOffset(64)) for place in index.sections[:_FEW]]


def _written_queries(data: bytes) -> None:
    """The bytes as text that somebody typed."""
    text = data[:200].decode("latin-1")
    for written in (
        text,
        f"{text}+0x10",
        f"({text})+1",
        text[:8],
        f"({text[:6]})+0x{text[6:10]}",
        f"{text}:{len(data)}",
    ):
        _try(partial(parse_query, written))
        _try(partial(parse_source_line, written))

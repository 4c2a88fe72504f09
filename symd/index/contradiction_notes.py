"""What a module's notes say of debug data that contradicts itself: where, how much of the text, and what wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from symd.debuginfo import leaves_out_calls
from symd.index.distinct import runs
from symd.index.locations import Stretches
from symd.index.module_tables import DecodedObject, TextSections
from symd.model.answers import Reason
from symd.model.code import CodeObject, RelocationScheme, Vendor
from symd.model.summaries import ModuleSummary

MAX_PLACES = 4
"""The most places that a note names."""
_REASONS = (Reason.CONTRADICTORY, Reason.INFERRED, Reason.NO_LINE)
_TORN = "functions contradict each other: code of one lies in the range of another"
_CALLS = "the table of inlined calls is inconsistent here, or says nothing of them"
_UNTOLD = "lines alone say nothing of calls that the compiler inlined, which may have these lines"
_UNNAMED = "inlined calls have the name of the function around them, as a compiler leaves it that makes one debug function of all: they have none here"
_ROWS = "line rows reach into scopes in which they do not begin, or begin with lines of other functions or with none of their source"


def noted(
    summary: ModuleSummary, objects: Sequence[DecodedObject], texts: TextSections, found: Stretches
) -> ModuleSummary:
    """The summary with a note for each code object and each kind of contradiction."""
    if not len(found.start):
        return summary
    described = list(summary.objects)
    for each in _kinds(texts, found):
        if each.object < len(described):
            code, was = objects[each.object].code, described[each.object]
            described[each.object] = was._replace(notes=(*was.notes, _note(each, code)))
    return summary._replace(objects=tuple(described))


class _Kind(NamedTuple):
    """What one kind of contradiction takes of the text of a code object: bytes by how they are answered (``_REASONS``),
    ``places`` (section number, first and last offset), neighbors joined, of which the first are ``shown``."""

    object: int
    torn: bool
    unnamed: bool
    sizes: tuple[int, ...]
    places: int
    shown: list[tuple[int, int, int]]


def _kinds(texts: TextSections, found: Stretches) -> Iterator[_Kind]:
    """Object by object, what is torn first."""
    section = np.searchsorted(texts.base, found.start, side="right") - 1
    order = np.lexsort((found.unnamed, ~found.torn, texts.object[section]))
    section, (start, stop, reason, torn, unnamed) = section[order], (column[order] for column in found)
    code_object = texts.object[section]
    edges = runs(code_object, torn, unnamed)
    size = (stop - start).astype(np.int64)
    sums = [np.add.reduceat(np.where(reason == one, size, 0), edges).tolist() for one in _REASONS]
    new = np.append(True, (start[1:] != stop[:-1]) | (section[1:] != section[:-1]))
    new[edges] = True
    first = np.flatnonzero(new)
    last = np.append(first, len(new))[1:] - 1
    begin = np.searchsorted(first, edges)
    count = np.diff(begin, append=len(first))
    shown = np.flatnonzero(np.arange(len(first)) - np.repeat(begin, count) < MAX_PLACES)
    base = texts.base[section[first[shown]]]
    columns = (texts.number[section[first[shown]]], start[first[shown]] - base, stop[last[shown]] - base)
    places = zip(*(column.tolist() for column in columns), strict=True)
    groups = (
        *(column[edges].tolist() for column in (code_object, torn, unnamed)),
        zip(*sums, strict=True),
        count.tolist(),
    )
    for code_object_number, is_torn, is_unnamed, sizes, number in zip(*groups, strict=True):
        some = list(islice(places, min(number, MAX_PLACES)))
        yield _Kind(code_object_number, is_torn, is_unnamed, sizes, number, some)


def _note(found: _Kind, code: CodeObject) -> str:
    sizes = zip(found.sizes, _REASONS, strict=True)
    answered = ", ".join(f"{size} bytes {reason.name}" for size, reason in sizes if size)
    what = _TORN if found.torn else _UNNAMED if found.unnamed else _CALLS if _has_calls_in_rows(code) else _ROWS
    if what is _ROWS and leaves_out_calls(code):
        what = f"{_ROWS}, or {_UNTOLD}"
    cause = " (likely cause: Triton)" if found.unnamed else _cause(code)
    return f"{what}, in {_places(code, found)}; answered so: {answered}{cause}"


def _places(code: CodeObject, found: _Kind) -> str:
    """The first places by section and offset."""
    names = {each.index: each.name for each in code.sections}
    more = found.places - len(found.shown)
    shown = ", ".join(f"{names[number]}+{begin:#x}..{end:#x}" for number, begin, end in found.shown)
    return shown + (f" and {more} more" if more else "")


def _has_calls_in_rows(code: CodeObject) -> bool:
    """Whether inlined calls are in the line table, as NVIDIA's assembler writes them."""
    return code.vendor is Vendor.NVIDIA and not code.debug.has_units


def _cause(code: CodeObject) -> str:
    """Who writes such data, where that is known: docs/contradictions.md has what was measured."""
    if _has_calls_in_rows(code):
        return " (likely cause: NVIDIA's assembler, ptxas, or what wrote its PTX)"
    if code.vendor is not Vendor.INTEL:
        return ""
    version = code.facts.get("zebin_version")
    if version:
        return f" (likely cause: Intel's graphics compiler, writing zebin {version})"
    patch_tokens = code.relocation is RelocationScheme.IGC
    return f" (likely cause: Intel's graphics compiler{', generation 1 (patch tokens)' if patch_tokens else ''})"

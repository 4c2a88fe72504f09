"""What a module's notes say of debug data that contradicts itself: where, how much of the text, and what wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from symd.index.distinct import runs
from symd.index.format import Column
from symd.index.locations import Stretches
from symd.index.module_tables import DecodedObject, TextSections
from symd.model.answers import Reason
from symd.model.code import CodeObject, RelocationScheme, Vendor
from symd.model.columns import I64
from symd.model.summaries import ModuleSummary

MAX_PLACES = 4
"""So many places a note names."""
_TORN = "functions contradict each other: code of one lies in the range of another"
_ROWS = "line rows reach into scopes in which they do not begin, or begin with lines of other functions"


def noted(
    summary: ModuleSummary, objects: Sequence[DecodedObject], texts: TextSections, found: Stretches
) -> ModuleSummary:
    """The summary with a note for each code object and each kind of contradiction."""
    if not len(found.start):
        return summary
    section = np.searchsorted(texts.base, found.start, side="right") - 1
    described = list(summary.objects)
    code_object = texts.object[section]
    edges = runs(code_object)
    for first, stop in pairwise([*edges.tolist(), len(section)]):
        number = int(code_object[first])
        if number >= len(described):
            continue
        code, each = objects[number].code, described[number]
        here = Stretches(*(column[first:stop] for column in found))
        notes = [
            _note(what, code, texts, _chosen(here, at), section[first:stop][at])
            for what, at in ((_TORN, np.flatnonzero(here.torn)), (_ROWS, np.flatnonzero(~here.torn)))
            if len(at)
        ]
        described[number] = each._replace(notes=(*each.notes, *notes))
    return summary._replace(objects=tuple(described))


def _chosen(found: Stretches, at: I64) -> Stretches:
    return Stretches(*(column[at] for column in found))


def _note(what: str, code: CodeObject, texts: TextSections, found: Stretches, section: Column) -> str:
    sizes = (found.stop - found.start).astype(np.int64)
    answered = [
        f"{int(sizes[found.reason == reason].sum())} bytes {reason.name}"
        for reason in (Reason.CONTRADICTORY, Reason.INFERRED)
        if np.any(found.reason == reason)
    ]
    return f"{what}, in {_places(code, texts, found, section)}; answered so: {', '.join(answered)}{_cause(code)}"


def _places(code: CodeObject, texts: TextSections, found: Stretches, section: Column) -> str:
    """The first places by section and offset, neighbours joined."""
    new = np.append(True, (found.start[1:] != found.stop[:-1]) | (section[1:] != section[:-1]))
    first = np.flatnonzero(new)
    last = np.append(first, len(new))[1:] - 1
    names = {each.index: each.name for each in code.sections}
    shown = [
        f"{names[int(texts.number[section[begin]])]}+{int(found.start[begin] - texts.base[section[begin]]):#x}"
        f"..{int(found.stop[end] - texts.base[section[begin]]):#x}"
        for begin, end in zip(first[:MAX_PLACES].tolist(), last[:MAX_PLACES].tolist(), strict=True)
    ]
    more = len(first) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _cause(code: CodeObject) -> str:
    """Who writes such data, where that is known: docs/contradictions.md has what was measured."""
    if code.vendor is not Vendor.INTEL:
        return ""
    version = code.facts.get("zebin_version")
    if version:
        return f" (likely cause: Intel's graphics compiler, writing zebin {version})"
    patch_tokens = code.relocation is RelocationScheme.IGC
    return f" (likely cause: Intel's graphics compiler{', generation 1 (patch tokens)' if patch_tokens else ''})"

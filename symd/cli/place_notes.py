"""What is said of a place that counts from a kernel or a function and lies behind its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from symd.model.addresses import ByKernel, KernelOffset, Query
from symd.model.answers import Answer, Reason
from symd.model.summaries import KernelSummary

if TYPE_CHECKING:
    from symd.engine.files.added_module import OpenModule


def place_note(module: OpenModule, query: Query, answer: Answer, path: str | None) -> str:
    """``elsewhere_note`` of a place in a module; "" for other places."""
    if not isinstance(query, ByKernel) or not may_be_elsewhere(query, answer):
        return ""
    begin = module.symbolizer.symbolize_one(module.digest, ByKernel(query.kernel, KernelOffset(0)), path)
    objects = (each for each in module.summary().objects if each.path == answer.path)
    return elsewhere_note(query, answer, begin, [kernel for each in objects for kernel in each.kernels])


def may_be_elsewhere(query: Query, answer: Answer) -> bool:
    """Whether the place of a query by a kernel's name may lie behind the kernel's end, in other code or in none."""
    is_in_text = answer.section_offset is not None and answer.reason is not Reason.OUTSIDE_TEXT
    return isinstance(query, ByKernel) and query.offset > 0 and is_in_text and _code_of(answer) != query.kernel


def elsewhere_note(query: ByKernel, answer: Answer, begin: Answer, kernels: Sequence[KernelSummary]) -> str:
    """Say that a place lies behind the end of the kernel or function that it counts from, and where; "" where it does
    not. ``begin`` is the answer for the first byte."""
    own, other = _code_of(begin), _code_of(answer)
    sizes = {each.size for each in kernels if each.name in (own, query.kernel)}
    if own == other or begin.section_index != answer.section_index or (sizes and query.offset < max(sizes)):
        return ""
    size = f"{query.kernel} has {max(sizes)} bytes: " if sizes else ""
    if not other and not size:
        return ""
    return f"{size}{query} lies {f'in {other}' if other else 'behind its end, in no code'}"


def _code_of(answer: Answer) -> str:
    """The kernel or the function in whose code a place lies; "" for none."""
    outermost = answer.frames[-1] if answer.frames else None
    return answer.kernel or (outermost and (outermost.linkage_name or outermost.function)) or ""

"""Which instructions does each source line own? The instructions of a code object, each once and in the order of the
code, with the frames that it comes from. What disassembles is given; nothing here runs a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from symd.config import Limits
from symd.errors import BadQuery, KernelNotFound, ObjectNotFound, SymdError, Unsupported
from symd.index import Index
from symd.model.answers import Answers
from symd.model.code import CodeObject
from symd.model.columns import U64
from symd.model.line_tables import Instructions, Listing, ListingPart
from symd.model.summaries import in_spirv
from symd.query import function_names
from symd.query.symbolize import QueryBudget

Disassemble = Callable[[Sequence[CodeObject], str | None, Limits, Callable[[], None]], list[Instructions | SymdError]]
"""For each code object its instructions (of one kernel, where one is named), or why there are none. The last argument is called now and
then, and raises when nobody waits any more."""


def with_kernel_name(index: Index, part: ListingPart, effort: QueryBudget | None = None) -> ListingPart:
    """``part`` with the kernel's name as its symbol has it, for one that ``symbolize`` takes. Raises BadQuery where several
    kernels are called so, KernelNotFound where none is, ObjectNotFound, and what ``effort`` raises."""
    if part.kernel is None or index.kernels_named(part.kernel):
        return part
    if part.path is not None and not index.has_object(part.path):
        raise ObjectNotFound.at(part.path, index.objects)
    effort = effort or QueryBudget()
    places = function_names.starts(index, part.kernel, part.path, effort)
    if places and not any(place.room for place in places):
        raise KernelNotFound(f"{part.kernel!r} has no code", hint="the compiler left no instructions of it")
    kernels = {
        name: place for place in places if place.room and (name := index.candidate(place.section, place.offset).kernel)
    }
    names = sorted(name for name, place in kernels.items() if place in index.kernel_starts(name, part.path))
    if len(names) > 1:
        raise BadQuery(f"several kernels are called {part.kernel!r}", hint=f"write one of {', '.join(names[:8])}")
    if not names:
        raise _no_kernel(index, part.kernel, part.path, sorted(kernels), effort)
    return replace(part, kernel=names[0])


def _no_kernel(index: Index, name: str, path: str | None, around: Sequence[str], effort: QueryBudget) -> KernelNotFound:
    """``around`` are the kernels in whose code a function of that name stands."""
    if around:
        return KernelNotFound(
            f"{name!r} is a function, not a kernel", hint=f"its code stands in {', '.join(around[:8])}"
        )
    (like,) = function_names.suggestions(index, [name], path, effort)
    kernels = list(dict.fromkeys(each.kernel for each in like if each.kernel))
    hint = f"did you mean {' or '.join(kernels)}?" if kernels else "symd names FILE --kind kernel '*' lists them"
    return KernelNotFound(f"there is no kernel {name!r}", hint=hint)


def chosen(codes: Sequence[CodeObject], part: ListingPart) -> list[CodeObject]:
    """The code objects to disassemble. Raises ObjectNotFound, KernelNotFound."""
    if part.path is None:
        found = [code for code in codes if not code.is_compiler_input] or list(codes)
    else:
        found = [code for code in codes if code.path == part.path]
        if not found:
            raise ObjectNotFound.at(part.path, (code.path for code in codes))
    if part.kernel is not None:
        found = [code for code in found if _has(code, part.kernel)]
        if not found:
            spirv = next((code.path for code in codes if part.path is None and _has(code, part.kernel)), None)
            hint = in_spirv(spirv) if spirv else "symd info FILE lists them"
            raise KernelNotFound(f"there is no kernel {part.kernel!r}", hint=hint)
    return [code._replace(target=code.target or part.target) for code in found]


def _has(code: CodeObject, kernel: str) -> bool:
    return any(each.name == kernel for each in code.kernels)


def listings(
    index: Index, codes: Sequence[CodeObject], found: Sequence[Instructions | SymdError], module: str
) -> Iterator[Listing]:
    """A listing for each code object. Raises the first error when there is nothing but errors; ``module``, the resource's name, is told with what
    a disassembler made of its code."""
    errors = [each for each in found if isinstance(each, SymdError)]
    if errors and len(errors) == len(found):
        if "tool" in errors[0].metadata:
            errors[0].metadata["module"] = module
            errors[0].prefix_where(module)
        raise errors[0]
    if not found:
        raise Unsupported("there is no machine code in the module", hint="symd info FILE shows what is")
    sections = {(text.path, text.section_index): number for number, text in enumerate(index.sections)}
    for code, each in zip(codes, found, strict=True):
        if isinstance(each, SymdError):
            nothing = _answers(index, np.zeros(0, np.int64), np.zeros(0, np.uint64))
            yield Listing(code.path, code.target, "", nothing, np.zeros(0, np.uint32), (), str(each))
            continue
        section = np.array([sections[code.path, number] for number in each.section.tolist()], np.int64)
        yield Listing(
            code.path, code.target, each.disassembler, _answers(index, section, each.offset), each.size, each.text
        )


def _answers(index: Index, section: NDArray[np.int64], offset: U64) -> Answers:
    location = index.location_numbers(section, offset)
    return Answers(location, (section + 1).astype(np.uint32), offset, index.locations, index.sections)

"""The instructions of a code object, each once and in the order of the code, with the frames that it comes from. The
disassembler is passed in; nothing here runs a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.config import Limits
from symd.errors import NotFound, ObjectNotFound, SymdError, Unsupported
from symd.index import Index
from symd.model.answers import Answers
from symd.model.code import CodeObject
from symd.model.columns import U64
from symd.model.identities import ObjectPath
from symd.model.line_tables import CodePart, CodeSpan, Instructions, Listing
from symd.query.code_spans import instructions_within, places

Disassemble = Callable[[Sequence[CodeObject], Sequence[CodeSpan] | None, Limits], list[Instructions | SymdError]]
"""For each code object its instructions (of the ranges of code that spans reach into, where there are any), or why
there are none."""


def chosen(
    codes: Sequence[CodeObject], path: str | None, spans: Sequence[CodeSpan] | None, target: str | None
) -> list[CodeObject]:
    """The code objects to disassemble, with ``target`` for those that do not say theirs. Raises ObjectNotFound."""
    if path is not None:
        found = [code for code in codes if code.path == path]
        if not found:
            raise ObjectNotFound.at(path, (code.path for code in codes))
    elif spans is not None:
        paths = {each.path for each in spans}
        found = [code for code in codes if code.path in paths]
    else:
        found = [code for code in codes if not code.is_compiler_input] or list(codes)
    return [code._replace(target=code.target or target) for code in found]


class Disassembled(NamedTuple):
    """A code object at ``path`` for ``target``, and its instructions, or why there are none."""

    path: ObjectPath
    target: str | None
    instructions: Instructions | SymdError


def of_part(found: Disassembled, within: CodePart, spans: Sequence[CodeSpan]) -> Disassembled:
    """What of a code object is meant by ``within``, whose bytes are ``spans``."""
    instructions = found.instructions
    if isinstance(instructions, SymdError):
        return found
    rows = instructions_within(instructions, within, [each for each in spans if each.path == found.path])
    nothing = NotFound("there is no instruction there", where=found.path)
    return found._replace(instructions=nothing if rows is None else instructions.at(rows))


def listings(index: Index, found: Sequence[Disassembled], module: str) -> Iterator[Listing]:
    """A listing for each code object. Raises the first error when there is nothing but errors; ``module``, the
    resource's name, is told with what a disassembler made of its code."""
    errors = [each.instructions for each in found if isinstance(each.instructions, SymdError)]
    if errors and len(errors) == len(found):
        if "tool" in errors[0].metadata:
            errors[0].metadata["module"] = module
            errors[0].prefix_where(module)
        raise errors[0]
    if not found:
        raise Unsupported("there is no machine code in the module")
    sections = index.section_numbers
    for path, target, each in found:
        if isinstance(each, SymdError):
            nothing = _answers(index, np.zeros(0, np.int64), np.zeros(0, np.uint64))
            yield Listing(path, target, "", nothing, np.zeros(0, np.uint32), (), str(each))
            continue
        section = np.array([sections[path, number] for number in each.section.tolist()], np.int64)
        yield Listing(
            path=path,
            target=target,
            disassembler=each.disassembler,
            answers=_answers(index, section, each.offset),
            size=each.size,
            text=_texts(index, section, each),
            code=each.code,
            flow=each.flow,
            targets=each.targets,
        )


def _texts(index: Index, section: NDArray[np.int64], each: Instructions) -> Sequence[str]:
    """The instructions' text, with targets as queries."""
    wanted = [(number, target) for number, targets in enumerate(each.targets) for target in targets]
    if not wanted:
        return each.text
    numbers, targets = np.array(wanted, np.uint64).T
    texts = list(each.text)
    for number, target, query in zip(
        numbers.tolist(), targets.tolist(), places(index, section[numbers.astype(np.int64)], targets), strict=True
    ):
        texts[number] = _LABEL.sub(partial(_named, f"{target:#x}", f"L{target}", query), texts[number])
    return texts


_LABEL = re.compile(r"(?<![\w.])(?:0x[0-9a-f]+|L[0-9]+)(?![\w.])")
"""A target of a jump as LLVM, nvdisasm and IGA write it."""


def _named(number: str, label: str, query: str, hit: re.Match[str]) -> str:
    return query if hit[0] in (number, label) else hit[0]


def _answers(index: Index, section: NDArray[np.int64], offset: U64) -> Answers:
    location, locations = index.located(section, offset)
    return Answers(location, (section + 1).astype(np.uint32), offset, locations, index.sections)

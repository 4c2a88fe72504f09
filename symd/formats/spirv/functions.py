"""Functions and entry points of a SPIR-V module: where each body lies, what it is called, and which of llvm-spirv's two
functions of a kernel holds its code.

Source: SPIR-V 1.6, "Function Instructions" and "Mode-Setting Instructions" (OpEntryPoint)."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import pairwise

from symd.formats.spirv.grammar import Decoration, FunctionParameterAttribute, Op
from symd.formats.spirv.words import Words, text
from symd.model.named_tuples import NamedTuple


class Body(NamedTuple):
    """An OpFunction .. OpFunctionEnd: instruction numbers ``[first, last]``, byte range ``[offset, end)``. ``name`` is the
    linkage name, else the OpName, else ""; a ``declared`` function has no block."""

    id: int
    type: int
    first: int
    last: int
    offset: int
    end: int
    name: str
    parameters: tuple[tuple[int, int], ...]
    """(id, type id) each."""
    declared: bool


class EntryPoint(NamedTuple):
    """An OpEntryPoint. ``body`` holds the code: the function it names, or the one that this function merely calls;
    ``wrapper`` is the former where they differ."""

    model: int
    id: int
    name: str
    number: int
    body: Body | None
    wrapper: Body | None


class SpirvModule:
    """A module split into instructions, with what several rooms ask of it, found once: its functions by id and its entry
    points, each in module order."""

    def __init__(self, words: Words) -> None:
        self.words = words

    @cached_property
    def functions(self) -> dict[int, Body]:
        return bodies(self.words)

    @cached_property
    def entries(self) -> list[EntryPoint]:
        return entry_points(self.words, self.functions)


def bodies(words: Words) -> dict[int, Body]:
    """Every function by id, in module order. One without OpFunctionEnd ends where the next begins."""
    starts, ends, labels = words.where(Op.Function), words.where(Op.FunctionEnd), words.where(Op.Label)
    linkage = _linkage_names(words)
    parameters = words.where(Op.FunctionParameter)
    found = {}
    for first, following in pairwise([*starts, len(words)]):
        ops = words.operands(first)
        if len(ops) < 4:
            continue
        at = bisect_left(ends, first)
        last = ends[at] if at < len(ends) and ends[at] < following else following - 1
        inside = parameters[bisect_left(parameters, first) : bisect_left(parameters, last)]
        pairs = tuple((p[1], p[0]) for p in map(words.operands, inside) if len(p) >= 2)
        label = bisect_left(labels, first)
        declared = not (label < len(labels) and labels[label] < last)
        name = linkage.get(ops[1]) or words.names.get(ops[1], "")
        found[ops[1]] = Body(
            ops[1], ops[3], first, last, words.offset(first), words.offset(last + 1), name, pairs, declared
        )
    return found


def _linkage_names(words: Words) -> dict[int, str]:
    """Exported and imported names by function id (OpDecorate LinkageAttributes)."""
    return {
        ops[0]: text(ops[2:])[0]
        for _, ops in words.each(Op.Decorate)
        if len(ops) > 2 and ops[1] == Decoration.LinkageAttributes
    }


def entry_points(words: Words, functions: dict[int, Body]) -> list[EntryPoint]:
    """Every OpEntryPoint, in order."""
    calls = words.where(Op.FunctionCall)
    found = []
    for number, ops in words.each(Op.EntryPoint):
        if len(ops) < 3:
            continue
        name = text(ops[2:])[0]
        named = functions.get(ops[1])
        called = _only_call(words, calls, functions, named) if named is not None and not named.name else None
        wraps = called is not None and called.name == name and not called.declared
        body, wrapper = (called, named) if wraps else (named, None)
        found.append(EntryPoint(ops[0], ops[1], name, number, body, wrapper))
    return found


def _only_call(words: Words, calls: list[int], functions: dict[int, Body], caller: Body) -> Body | None:
    """The function that ``caller`` calls, when it calls exactly one."""
    inside = calls[bisect_left(calls, caller.first) : bisect_left(calls, caller.last)]
    if len(inside) != 1:
        return None
    ops = words.operands(inside[0])
    return functions.get(ops[2]) if len(ops) > 2 else None


def by_value_parameters(words: Words) -> frozenset[int]:
    """Ids of parameters that clang passes by value through a private pointer (OpDecorate FuncParamAttr ByVal)."""
    meant = [Decoration.FuncParamAttr, FunctionParameterAttribute.ByVal]
    return frozenset(ops[0] for _, ops in words.each(Op.Decorate) if ops[1:3] == meant)

"""A core dump whose C++ names are as they were written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from symd.model.cores import CoreDump, CoreFrame, CoreStack
from symd.query.demangler import Demangler


def readable_frames(dump: CoreDump, demangler: Demangler) -> CoreDump:
    """The functions of frames, as ``symd symbolize -C`` has them. Kernels and symbols stay what one asks by."""
    calls = [frame for stack in dump.stacks for frame in stack.frames]
    demangler.learn_frames(each for call in calls for each in call.frames)
    stacks = [
        replace(stack, frames=tuple(replace(call, frames=demangler.frames(call.frames)) for call in stack.frames))
        for stack in dump.stacks
    ]
    return replace(dump, stacks=tuple(stacks))


def readable_names(dump: CoreDump, demangler: Demangler) -> CoreDump:
    """Every name that people read: the functions of frames, kernels, and symbols that stand where there are no frames."""
    names = demangler.names(_symbols(dump))

    def call_named(call: CoreFrame) -> CoreFrame:
        place = call.place
        if place is None:
            return call
        return replace(call, place=place._replace(function=names.get(place.function, place.function)))

    def stack_named(stack: CoreStack) -> CoreStack:
        kernel = None if stack.kernel is None else names.get(stack.kernel, stack.kernel)
        return replace(stack, kernel=kernel, frames=tuple(map(call_named, stack.frames)))

    return readable_frames(replace(dump, stacks=tuple(map(stack_named, dump.stacks))), demangler)


def _symbols(dump: CoreDump) -> Iterator[str]:
    for stack in dump.stacks:
        yield from (stack.kernel,) if stack.kernel else ()
        yield from (call.place.function for call in stack.frames if call.place is not None)

"""The lines and the variables of a dump's stacks, from the dump's own code objects or from modules that have the same
code and debug data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from symd.cores import (
    CodeIdentity,
    DumpContents,
    PendingMemory,
    StoppedCore,
    WaveRegisters,
    counterpart,
    is_same,
)
from symd.cores.values import counts_from_frame, values_of
from symd.model.addresses import BySection, Query, SectionOffset
from symd.model.answers import Answer
from symd.model.cores import (
    CoreDump,
    CoreFrame,
    CoreImage,
    CorePlace,
    CoreStack,
    CoreValue,
    images_with_frames,
)
from symd.model.variables import Visible

MAX_PLACES = 200
"""Places of one answer whose variables are looked up; stacks with faults come first."""

Symbolize = Callable[[str, Sequence[Query], str], Iterable[Answer]]
"""Module, queries, path of the code object: the answers in order."""
ReadVisible = Callable[[str, str, Sequence[tuple[int, int]]], Sequence[Visible | str]]
"""Module, path of the code object, sections and offsets in them: the variables in scope there, or why they are not
known."""


ReadFrameAddresses = Callable[[str, str, Sequence[tuple[int, int]]], Sequence[tuple[int, int] | None]]
"""Module, path of the code object, sections and offsets in them: the general register that the frame's address counts
from there, and the bytes that are added to it (None: not known)."""


_Found = TypeVar("_Found")


class KeptCode(NamedTuple):
    """A code object of a module: what may answer for the code of a dump."""

    digest: str
    path: str
    identity: CodeIdentity


class _Source(NamedTuple):
    """Who answers for an image. ``identities`` are the image's and that of who answers, where that is not the image
    itself."""

    digest: str
    path: str
    identities: tuple[CodeIdentity, CodeIdentity] | None = None


class CoreAnswering:
    """Adds lines and variables to the stacks of one GPU core dump. ``digest`` is the module that is the dump,
    ``kept`` what other modules have."""

    def __init__(
        self,
        digest: str,
        kept: Sequence[KeptCode],
        symbolize: Symbolize,
        visible: ReadVisible,
        frame_addresses: ReadFrameAddresses,
        contents: DumpContents,
    ) -> None:
        self._digest, self._kept = digest, kept
        self._symbolize, self._visible = symbolize, visible
        self._frame_addresses, self._contents = frame_addresses, contents

    def call_frame_sources(self, stopped: StoppedCore) -> Iterator[tuple[int, str, str]]:
        """The images whose callers another module may tell, where the dump could not: the number of each, and the
        module and path of the code object that has its debug data."""
        if not any(stack.notes for stack in stopped.dump.stacks):
            return
        for number, pair in enumerate(zip(stopped.dump.images, stopped.identities, strict=True)):
            source = self._source(*pair)
            if source is not None and source.digest != self._digest:
                yield number, source.digest, source.path

    def with_lines_and_values(self, stopped: StoppedCore) -> CoreDump:
        """The dump with the lines of its frames and the values of variables."""
        dump = stopped.dump
        found = [self._source(*pair) for pair in zip(dump.images, stopped.identities, strict=True)]
        stopped_in = images_with_frames(dump.stacks)
        images = tuple(
            self._with_source(image, source, identity, asked=number in stopped_in)
            for number, (image, source, identity) in enumerate(zip(dump.images, found, stopped.identities, strict=True))
        )
        sources = {number: source for number, source in enumerate(found) if source is not None}
        answers = self._answer_of_each_place(sources, dump.stacks)
        frames = _Frames(answers)
        values = self._values(sources, images, stopped)
        stacks = tuple(
            replace(stack, frames=tuple(map(frames.with_lines, stack.frames)), values=each)
            for stack, each in zip(dump.stacks, values, strict=True)
        )
        notes = (*dump.notes, *self._modules_with_other_code(stopped.identities))
        return replace(dump, images=images, stacks=stacks, notes=notes)

    def _modules_with_other_code(self, loaded: Sequence[CodeIdentity | None]) -> Iterator[str]:
        """What to say of each module that was given and has the code of no image."""
        images = [each for each in loaded if each is not None]
        for digest in dict.fromkeys(kept.digest for kept in self._kept):
            codes = [kept.identity for kept in self._kept if kept.digest == digest]
            if images and not any(is_same(image, code) for image in images for code in codes):
                yield f"module {digest} has other code{_of_other_targets(codes, images)}"

    def _source(self, image: CoreImage, identity: CodeIdentity | None) -> _Source | None:
        """The dump's own code object where it has debug data, else a kept one with the same code."""
        own = _Source(self._digest, image.path) if image.path is not None else None
        if identity is None or identity.has_debug_data:
            return own
        for kept in self._kept:
            if kept.identity.has_debug_data and is_same(identity, kept.identity):
                return _Source(kept.digest, kept.path, (identity, kept.identity))
        return own

    def _with_source(
        self, image: CoreImage, source: _Source | None, identity: CodeIdentity | None, *, asked: bool
    ) -> CoreImage:
        """The image with who gives its lines, or with a note of why nobody does, where a line of it is ``asked``:
        drivers load code of their own, which has no debug data anywhere."""
        if source is None:
            return image
        by = "" if source.digest == self._digest else source.digest
        if identity is not None and not identity.has_debug_data and not by:
            note = "it has no debug data: give the module that it was built as, with debug data"
            return replace(image, notes=(*image.notes, note)) if asked else image
        return replace(image, answered_by=by, answered_path=source.path)

    def _answer_of_each_place(
        self, sources: dict[int, _Source], stacks: Sequence[CoreStack]
    ) -> dict[CorePlace, Answer]:
        places = {frame.place: None for stack in stacks for frame in stack.frames if frame.place is not None}
        found: dict[CorePlace, Answer] = {}
        for image, source in sources.items():
            asked = _questions(source, [place for place in places if place.image == image])
            answers = self._symbolize(source.digest, [query for _, query in asked], source.path) if asked else ()
            found.update((place, answer) for (place, _), answer in zip(asked, answers, strict=True))
        return found

    def _values(
        self, sources: dict[int, _Source], images: Sequence[CoreImage], stopped: StoppedCore
    ) -> list[tuple[CoreValue, ...]]:
        """The variables of each stack's first wave that registers and memory give a value for."""
        pairs = zip(stopped.dump.stacks, stopped.registers, strict=True)
        at = [_place_of_registers(stack) if known else None for stack, known in pairs]
        wanted = list(dict.fromkeys(place for place in at if place is not None))[:MAX_PLACES]
        visible = self._at_each(sources, wanted, self._visible)
        framed = [place for place, each in visible.items() if isinstance(each, Visible) and counts_from_frame(each)]
        frames = self._at_each(sources, framed, self._frame_addresses)
        memory, positions = PendingMemory(self._contents.memory), PendingMemory(self._contents.positions)

        def value(place: CorePlace | None, known: WaveRegisters | None) -> tuple[CoreValue, ...]:
            seen = visible.get(place) if place is not None else None
            if place is None or known is None or not isinstance(seen, Visible):
                return ()
            bias = _bias(images[place.image])
            return values_of(seen, known, memory.get, bias, positions.get, frames.get(place))

        while True:
            found = [value(place, known) for place, known in zip(at, stopped.registers, strict=True)]
            if not memory.fetch() | positions.fetch():
                return found

    def _at_each(
        self,
        sources: dict[int, _Source],
        places: Sequence[CorePlace],
        ask: Callable[[str, str, Sequence[tuple[int, int]]], Sequence[_Found]],
    ) -> dict[CorePlace, _Found]:
        """What each source says of its places."""
        found: dict[CorePlace, _Found] = {}
        for image, source in sources.items():
            mine = _questions(source, [place for place in places if place.image == image])
            if mine:
                locations = [(int(query.section), int(query.offset)) for _, query in mine]
                answers = ask(source.digest, source.path, locations)
                found.update((place, answer) for (place, _), answer in zip(mine, answers, strict=True))
        return found


def _bias(image: CoreImage) -> int | None:
    """What is added to the addresses of a code object's own variables; a cubin as the driver changed it has device
    addresses."""
    return 0 if image.bias is None and image.text else image.bias


def _of_other_targets(codes: Sequence[CodeIdentity], images: Sequence[CodeIdentity]) -> str:
    """ " (gfx90a, not gfx906)", where no processor of the one is one of the other."""
    theirs, loaded = (
        sorted({each.target.partition(":")[0] for each in some if each.target}) for some in (codes, images)
    )
    if not theirs or not loaded or set(theirs) & set(loaded):
        return ""
    return f" ({', '.join(theirs)}, not {', '.join(loaded)})"


def _questions(source: _Source, places: Sequence[CorePlace]) -> list[tuple[CorePlace, BySection]]:
    """The places that the source has too, each with the question to ask it."""
    asked = ((place, _question(source, place)) for place in places)
    return [(place, question) for place, question in asked if question is not None]


def _question(source: _Source, place: CorePlace) -> BySection | None:
    at: tuple[int, int] | None = (place.section_index, place.section_offset)
    if source.identities is not None:
        at = counterpart(*source.identities, place.section_index, place.section_offset)
    return BySection(at[0], SectionOffset(at[1])) if at is not None else None


class _Frames:
    """Frames with their lines. Stacks that share a frame share the one with its lines too."""

    def __init__(self, answers: dict[CorePlace, Answer]) -> None:
        self._answers = answers
        self._made: dict[int, tuple[CoreFrame, CoreFrame]] = {}
        """Frames made so far, by the id of the frame without lines, which is kept so that the id stays its own."""

    def with_lines(self, frame: CoreFrame) -> CoreFrame:
        known = self._made.get(id(frame))
        if known is None:
            known = self._made[id(frame)] = frame, self._make(frame)
        return known[1]

    def _make(self, frame: CoreFrame) -> CoreFrame:
        answer = self._answers.get(frame.place) if frame.place is not None else None
        return frame if answer is None else replace(frame, reason=answer.reason, frames=answer.frames)


def _place_of_registers(stack: CoreStack) -> CorePlace | None:
    """Where the registers of a stack are as the dump has them: at its PC, of which an error's place is in the same
    function, or a frame of its own."""
    frame = next((each for each in stack.frames if each.kind == "pc"), None)
    if frame is not None:
        return frame.place
    raised = stack.frames[0] if stack.frames else None
    if raised is None or raised.place is None:
        return None
    moved = stack.pc - raised.address
    offset, inside = raised.place.section_offset + moved, raised.place.function_offset + moved
    return raised.place._replace(section_offset=offset, function_offset=inside) if offset >= 0 else None

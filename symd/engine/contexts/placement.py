"""Loads as clients send them, checked and given every segment's address and size; which of them lie over another one,
as what the later of two loads covers is gone, address by address; and device addresses in the forms that tools write:
whole, canonical, truncated, or counted in units larger than bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.engine.contexts.timeline import Timeline
from symd.errors import BadQuery, InvalidInput, KernelNotFound, LimitExceeded, ModuleNotFound, ObjectNotFound
from symd.index import Index
from symd.model.addresses import ByAddress, ByKernel, BySection, DeviceAddress, ObjectAddress, Query
from symd.model.columns import I64, U64
from symd.model.contexts import CONTEXT_HINT, WHOLE_ADDRESS, AddressForm, Context, Load, Segment, Unload
from symd.model.identities import ObjectPath, is_digest
from symd.model.texts import checked_text, of_kind
from symd.query.code_spans import function_extents

WIDTHS = (48, 57, 64)
"""``Context.address_bits``: canonical of 4 or of 5 page levels, or as they are."""


def checked_form(form: AddressForm) -> AddressForm:
    """Raises ``BadQuery`` for an invalid form."""
    if not (0 <= form.shift < 32 <= form.known_bits <= 64):
        raise BadQuery(
            f"no address is written with shift {form.shift} and {form.known_bits} bits",
            hint="shift is 0 to 31, and 32 to 64 bits of the address are known",
        )
    return form


def shifted(values: U64, form: AddressForm) -> tuple[U64, NDArray[np.bool_]]:
    """The addresses that numbers stand for, and whether they fit the bits that are known."""
    if form == WHOLE_ADDRESS:
        return values, np.ones(len(values), np.bool_)
    addresses = values << np.uint64(form.shift)
    fits = addresses >> np.uint64(form.shift) == values
    if form.known_bits < 64:
        fits &= addresses < np.uint64(1 << form.known_bits)
    return addresses, fits


def reduced(addresses: U64, width: int) -> tuple[U64, NDArray[np.bool_]]:
    """Addresses without their sign extension above ``width`` bits, and whether they are addresses of that width:
    extended by their sign or by zeros."""
    if width == 64:
        return addresses, np.ones(len(addresses), np.bool_)
    low = addresses & np.uint64((1 << width) - 1)
    return low, (low == addresses) | (extended(low, width) == addresses)


def extended(addresses: U64, width: int) -> U64:
    """Reduced addresses in canonical form: their topmost bit repeated."""
    if width == 64:
        return addresses
    room = np.uint64(64 - width)
    canonical: U64 = ((addresses << room).view(np.int64) >> room.astype(np.int64)).view(np.uint64)
    return canonical


LARGEST = 1 << 32
"""Bytes of a segment."""
MAX_SEGMENTS = 100_000
"""Segments of a load."""
MAX_CONTEXT_TEXT = 4096
"""Characters of a key, a name, a path, an attribute."""
MAX_TOLD = 200_000
"""Segments of loads that are told together: a load with a base has one for each text section of its module."""
MAX_TEXTS = 1 << 24
"""Characters of the names and paths that the segments of loads that are told together have: a load's path is in
each of its segments."""
MAX_ATTRIBUTES = 100
TIMES = 1 << 63
"""Times are below this."""
_TOP = 1 << 64

OpenIndex = Callable[[], Index]
"""Opens the index of the module that is loaded."""


def checked_context(context: Context) -> Context:
    """Raises ``BadQuery`` when it says what cannot be."""
    of_kind(context, Context, CONTEXT_HINT)
    texts = [context.host, context.device, context.clock, *context.attributes, *context.attributes.values()]
    if any(len(text) > MAX_CONTEXT_TEXT for text in texts) or len(context.attributes) > MAX_ATTRIBUTES:
        raise BadQuery(f"a context has at most {MAX_ATTRIBUTES} attributes, and texts of {MAX_CONTEXT_TEXT} characters")
    if not 0 <= context.process < TIMES:
        raise BadQuery(f"{context.process} is not the number of a process")
    if context.address_bits not in WIDTHS:
        raise BadQuery(f"addresses of {context.address_bits} bits are not known", hint="address_bits is 48, 57 or 64")
    return context


def checked_unload(unload: Unload) -> Unload:
    """Raises ``BadQuery``."""
    if not unload.key:
        raise BadQuery("an unload names no load", hint="give the key of the load")
    _check_text(unload.key)
    _check_time(unload.time)
    return unload


def placed(load: Load, width: int, opener: OpenIndex) -> Load:
    """The load with its segments, in a context whose addresses have ``width`` bits; with none where nobody knows any.
    The module is opened only where it must say where its text is or how long; it need not be known otherwise.

    Raises ``BadQuery`` for times, addresses and sizes that cannot be, or when segments overlap; ``ModuleNotFound``,
    ``ObjectNotFound`` and ``KernelNotFound`` where they are needed and not there.
    """
    _check_life(load)

    def opened() -> Index:
        try:
            return opener()
        except ModuleNotFound as error:
            error.hint = "add the module first, or say each segment with its size"
            raise

    if load.load_base is not None and load.segments:
        raise BadQuery("a load has either segments or a base", where=load.module)
    if len(load.segments) > MAX_SEGMENTS:
        raise BadQuery(f"a load has {len(load.segments)} segments, at most {MAX_SEGMENTS} are taken")
    if load.load_base is None and not load.segments:
        return replace(load, path=None)
    if load.load_base is not None:
        segments = _at_base(load.load_base, load.path, opened())
    else:
        sizer = _Sizer(opened)
        segments = [sizer.sized(_named(each, load.path)) for each in load.segments]
    _check_segments(segments, width, load.module)
    return replace(load, segments=tuple(segments), load_base=None, path=None)


class SegmentBudget:
    """Bounds the segments of loads that come together, and the characters of their names and paths, before any is
    written."""

    def __init__(self) -> None:
        self._segments = self._texts = 0

    def take(self, segments: Sequence[Segment]) -> None:
        """Count the segments of one load. Raises ``LimitExceeded`` where all together are too many."""
        self._segments += len(segments)
        self._texts += sum(len(each.path or "") + len(_name(each.start)) for each in segments)
        self._check("segments", self._segments, MAX_TOLD)
        self._check("segment_texts", self._texts, MAX_TEXTS)

    def _check(self, name: str, size: int, most: int) -> None:
        if size > most:
            what = "segments" if name == "segments" else "characters of names and paths of their segments"
            raise LimitExceeded(
                f"loads that are told together have {size} {what}, at most {most} are taken",
                hint="tell fewer loads at a time",
                metadata={"limit": name, "value": str(most)},
            )


def _check_life(load: Load) -> None:
    if not is_digest(load.module):
        raise BadQuery(
            f"{load.module[:80]!r} is not the SHA-256 of a module", hint="give 64 lower-case hexadecimal digits"
        )
    _check_text(load.key)
    if load.path is not None:
        _check_path(load.path)
    _check_time(load.time)
    if load.unload_time is not None:
        _check_time(load.unload_time)
        if load.unload_time <= load.time:
            raise BadQuery(
                f"a load at {load.time} cannot end at {load.unload_time}", hint="give times in the order they came"
            )


def _check_time(time: int) -> None:
    if not 0 <= time < TIMES - 1:
        raise BadQuery(f"{time} is not a time", hint="times are nanoseconds, from 0 to 2^63 - 2")


def _check_text(text: str) -> None:
    checked_text(text, "a key or name", "give the key of a load")
    if len(text) > MAX_CONTEXT_TEXT:
        raise BadQuery(f"a key or name has {len(text)} characters, at most {MAX_CONTEXT_TEXT} are taken")


def _check_path(path: str) -> None:
    checked_text(path, "a code object's path", "leave it out where the module is the code object")
    if len(path) > MAX_CONTEXT_TEXT:
        raise BadQuery(f"a code object's path has {len(path)} characters, at most {MAX_CONTEXT_TEXT} are taken")


def _named(segment: Segment, path: ObjectPath | None) -> Segment:
    return replace(segment, path=path) if segment.path is None and path is not None else segment


def _at_base(base: int, path: str | None, index: Index) -> list[Segment]:
    """One segment a text section; SPIR-V has no place in device memory."""
    if not 0 <= base < _TOP:
        raise BadQuery(f"{base} is not a load base", hint="it is taken modulo 2^64: write a negative one as 2^64 less")
    _check_object(index, path)
    places = [(index.sections[number], index.section_size(number)) for number in index.chosen_sections(path).tolist()]
    segments = [
        Segment(DeviceAddress((base + where.address) % _TOP), size, ByAddress(ObjectAddress(where.address)), where.path)
        for where, size in places
        if size and where.section is not None
    ]
    if not segments:
        raise InvalidInput("there is no text to load", hint="name the code object that was loaded")
    return segments


class _Sizer:
    """Finds how many bytes there are from a place to the end of its function or section."""

    def __init__(self, opener: OpenIndex) -> None:
        self._index = cache(opener)
        self._texts = cache(self._table)

    def sized(self, segment: Segment) -> Segment:
        """The segment with its size. Raises ``BadQuery`` when nothing, or more than one thing, could be meant."""
        if segment.size:
            return segment
        sizes = self._sizes(segment.start, segment.path)
        if not sizes:
            raise KernelNotFound(
                f"the module has no code at {segment.start}",
                hint="name a function or a section that it has (FindNames lists them), or give the segment's size",
            )
        if len(sizes) > 1 or sizes[0] <= 0:
            raise BadQuery(
                f"{segment.start} is in several functions or sections, or behind the end of one",
                hint="give the segment's size, or its code object",
            )
        return replace(segment, size=sizes[0])

    def _sizes(self, place: Query, path: str | None) -> list[int]:
        texts = self._texts(path)
        match place:
            case ByKernel(kernel, offset):
                found = function_extents(self._index(), kernel, path)
                return [size - offset for section, _, size in found if section in texts.sizes]
            case BySection(section, offset):
                return [texts.sizes[number] - offset for number in texts.by_section.get(section, ())]
            case ByAddress(address):
                count, number, at = self._index().address_map(path).resolve(np.array([address], np.uint64))
                size = texts.sizes[int(number[0])] - int(at[0]) if count[0] == 1 else 0
                return [size] * int(count[0])

    def _table(self, path: str | None) -> _TextSections:
        index = self._index()
        _check_object(index, path)
        texts = _TextSections({}, {})
        for number in index.chosen_sections(path).tolist():
            where = index.sections[number]
            if where.section is None:
                continue  # SPIR-V has no place in device memory
            texts.sizes[number] = index.section_size(number)
            for name in (where.section, where.section_index):
                if name is not None:
                    texts.by_section.setdefault(name, []).append(number)
        return texts


class _TextSections(NamedTuple):
    """The text sections that may be meant: their sizes by number, and their numbers by name and by index."""

    sizes: dict[int, int]
    by_section: dict[str | int, list[int]]


def _check_object(index: Index, path: str | None) -> None:
    if path is not None and not index.has_object(path):
        raise ObjectNotFound.at(path, index.objects)


def _check_segments(segments: Sequence[Segment], width: int, module: str) -> None:
    """Addresses are of that width, and no two segments share one."""
    for each in segments:
        _check_place(each.start)
        if each.path is not None:
            _check_path(each.path)
        if not 0 <= each.address < _TOP or not 0 < each.size <= LARGEST:
            raise BadQuery(
                f"{each.size} bytes at {each.address:#x} are not a segment", hint="a segment has 1 byte to 4 GiB"
            )
    addresses, valid = reduced(np.array([each.address for each in segments], np.uint64), width)
    ends = [start + each.size for start, each in zip(addresses.tolist(), segments, strict=True)]
    if not valid.all() or max(ends) > 1 << width:
        raise BadQuery(f"a segment does not lie within addresses of {width} bits", where=module)
    for (start, end), (after, _) in pairwise(sorted(zip(addresses.tolist(), ends, strict=True))):
        if after < end:
            hint = "where kernels are placed one by one, give the address of each"
            paths = sorted({each.path or "" for each in segments})
            if len(paths) > 1:
                named = f'"{paths[-1][:80]}", the object of symd daemon record and the path of a Load'
                hint = f"name the code object that was loaded, such as {named}; {hint}"
            raise BadQuery(f"two segments of one load overlap at {max(start, after):#x}", where=module, hint=hint)


def _check_place(place: Query) -> None:
    number = place.address if isinstance(place, ByAddress) else place.offset
    name = place.section if isinstance(place, BySection) else None
    if not 0 <= number < _TOP or (isinstance(name, int) and not 0 <= name < LARGEST):
        raise BadQuery(f"{place} does not fit", hint="offsets have 64 bits, section numbers 32")
    _check_text(_name(place))


def _name(place: Query) -> str:
    """The text that names a place's kernel or section; "" where none does."""
    name = place.kernel if isinstance(place, ByKernel) else place.section if isinstance(place, BySection) else ""
    return name if isinstance(name, str) else ""


@dataclass(frozen=True, slots=True)
class LoadCover:
    """The segments that lie over those of one load, in a context whose addresses have ``width`` bits: of loads that
    began while it lived, or together with it. ``own`` and ``over`` are numbers of rows of the timeline."""

    timeline: Timeline
    width: int
    own: I64
    over: I64

    @classmethod
    def of(cls, timeline: Timeline, width: int, number: int) -> LoadCover:
        """What lies over the load with that number."""
        own = timeline.rows_of(number)
        over = timeline.rows_over(own)
        if len(over):
            column = timeline.column
            began = column("time")[over]
            is_later = (began >= column("time")[own[0]]) & (began < column("until")[own[0]])
            over = over[is_later & (column("load")[over] != number)]
        return cls(timeline, width, own, over)

    def at(self, address: int) -> Sequence[int]:
        """The numbers of the loads that cover a device address of the load with something else than it has there."""
        if not len(self.over):
            return ()
        low = reduced(np.array([address], np.uint64), self.width)[0]
        own, over = self._holding(self.own, low), self._holding(self.over, low)
        target, bias = self.timeline.column("target"), self.timeline.column("bias")
        is_same = np.zeros(len(over), np.bool_)
        for each in own.tolist():
            is_same |= (target[over] == target[each]) & (bias[over] == bias[each])
        numbers: list[int] = self.timeline.column("load")[over[~is_same]].tolist()
        return numbers

    def _holding(self, rows: I64, address: U64) -> I64:
        start, last = self.timeline.column("start")[rows], self.timeline.column("last")[rows]
        return rows[(start <= address) & (address <= last)]


def covered_loads(timeline: Timeline, number: int) -> list[int]:
    """The numbers of the loads that were recorded before the one with that number, and that it lies over: those that
    lived when it began. Lowest first."""
    own = timeline.rows_of(number)
    under = timeline.rows_over(own)
    if not len(under):
        return []
    column = timeline.column
    began = column("time")[own[0]]
    lived = (column("time")[under] <= began) & (column("until")[under] > began) & (column("load")[under] < number)
    found: list[int] = np.unique(column("load")[under[lived]]).tolist()
    return found

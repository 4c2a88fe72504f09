"""Frames at places of several modules, or in device memory at given times.

The map of a context names the module at each device address. All addresses of one module are answered together, and the
answers of several modules are put together as one batch with the table entries that they point to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.core.sorting import distinct
from symd.engine.contexts.placement import checked_form, extended, reduced, shifted
from symd.engine.contexts.timeline import NONE, FoundSegment, Timeline
from symd.errors import MODULE_ERRORS, BadQuery, LimitExceeded, ModuleNotFound, ObjectNotFound
from symd.index import Index
from symd.index.format import Strings
from symd.index.lookup import parts_of
from symd.model.addresses import (
    LATEST_TIME,
    ByAddress,
    ByDevice,
    ByKernel,
    BySection,
    DeviceAddress,
    KernelOffset,
    ObjectAddress,
    Query,
    SectionOffset,
)
from symd.model.answers import (
    Answers,
    Candidate,
    CodeRanges,
    Locations,
    Reason,
    TextSection,
    concat,
    of_reasons,
    subset,
    used_strings,
)
from symd.model.arguments import ColumnQuestion
from symd.model.cancellation import check_cancelled
from symd.model.columns import I32, I64, U8, U32, U64, in_groups, no_numbers
from symd.model.contexts import WHOLE_ADDRESS, AddressForm, DeviceAnswers, DeviceCandidate, DevicePlace, Origin, Times
from symd.model.identities import Digest, ObjectPath
from symd.model.texts import utf8_size
from symd.query.code_spans import check_ranged, ranged
from symd.query.symbolize import CandidateBudget, NameSearchBudget, symbolize_origins

MAX_TEXTS = 96 << 20
"""Bytes of the names and paths of one batch, as UTF-8, each once a module: a module may make them of any length,
and a context may have many modules."""


class AnswerTableBuilder:
    """A batch of ``size`` answers, at first all in no text and for no reason. ``location`` may be set to Reason
    numbers: the table begins with these."""

    def __init__(self, size: int) -> None:
        self.location = np.zeros(size, np.uint32)
        self._text_section = np.zeros(size, np.uint32)
        self._offset = np.zeros(size, np.uint64)
        self._tables: list[Locations] = [of_reasons()]
        self._text_sections: list[TextSection] = []
        self._candidates: dict[int, tuple[Candidate, ...]] = {}
        self._ranges: dict[int, CodeRanges] = {}
        self._room = MAX_TEXTS

    def add(self, numbers: I64 | slice, answers: Answers) -> None:
        """Put one module's answers in where ``numbers`` says. Raises ``LimitExceeded`` where their texts have no
        room."""
        table = answers.locations
        if isinstance(table.strings, Strings) and table.strings.text_bytes > self._room:  # before they are read
            self._check_room(table.strings.sizes(used_strings(table, answers.location)))
        part, renumbered = subset(table, answers.location)
        self._room -= sum(map(utf8_size, part.strings))
        self._check_room(0)
        self.location[numbers] = sum(map(len, self._tables)) + renumbered[answers.location]
        self._tables.append(part)
        self._add_text_sections(numbers, answers)
        for query, candidates in answers.candidates.items():
            self._candidates[query if isinstance(numbers, slice) else int(numbers[query])] = candidates
        for query, ranges in answers.ranges.items():
            self._ranges[query if isinstance(numbers, slice) else int(numbers[query])] = ranges

    def answers(self) -> Answers:
        """The batch."""
        table, _ = concat(self._tables)
        columns = self.location, self._text_section, self._offset
        return Answers(*columns, table, self._text_sections, self._candidates, self._ranges)

    def _check_room(self, size: int) -> None:
        if size > self._room:
            raise LimitExceeded(
                f"the answers have more than {MAX_TEXTS} bytes of names and paths",
                hint="ask for fewer addresses at a time",
                metadata={"limit": "answer_texts", "value": str(MAX_TEXTS)},
            )

    def _add_text_sections(self, numbers: I64 | slice, answers: Answers) -> None:
        used = np.unique(answers.text_section)
        used = used[used != 0]
        if len(used):
            place = len(self._text_sections) + 1 + np.searchsorted(used, answers.text_section)
            self._text_section[numbers] = np.where(answers.text_section != 0, place, 0)
            self._offset[numbers] = answers.offset
            self._text_sections += [answers.text_sections[number - 1] for number in used.tolist()]


OpenIndexOf = Callable[[str], Index]
"""Opens the index of a module by its digest."""
_UINT64_BITS = 64
_ORIGIN_SHIFT = 32
MIN_VALUES = 1 << 14
"""Values from which on it is worth while to find those that are the same."""
WORK = 1 << 26
"""Truncated addresses of a batch, times the places each could stand for."""


class ContextMap(NamedTuple):
    """What is known of a context: where everything was when, how many bits its addresses have, and as of when an
    address without a time is meant."""

    timeline: Timeline
    width: int
    now: int


@dataclass(frozen=True, slots=True)
class _Meant:
    """What the numbers of a question mean: for each the number of its target, ``NONE`` where it has none for a
    ``reason``, and what is asked for there. ``address`` is whole."""

    targets: Sequence[Origin]
    target: I32 | U32
    value: U64
    address: U64
    reason: U8
    candidates: dict[int, tuple[DeviceCandidate, ...]]


def symbolize_question(
    question: ColumnQuestion,
    context: Callable[[str], ContextMap],
    opener: OpenIndexOf,
    own: str = "",
    *,
    with_ranges: bool = False,
) -> DeviceAnswers:
    """Answers for the values of ``question``, whatever they count from: device addresses each as of its time.

    Reasons beside those of the module: OUTSIDE_TEXT (nothing was ever mapped there), UNLOADED (something was, before or
    later), AMBIGUOUS, UNKNOWN_MODULE (what was there is not in the store), MALFORMED (it is, and cannot be read); of
    the module ``own`` the errors are raised instead. Raises ``LimitExceeded`` when truncated addresses could stand for
    too many places.
    """
    if with_ranges:
        check_ranged(len(question.values))
    meant = _meaning_of(question, context)
    return _answered(meant, opener, own, with_ranges=with_ranges)


def without_repeats(question: ColumnQuestion) -> tuple[ColumnQuestion, U32] | None:
    """The question about each place once, and for each value the number of its place in that: the samples of a profile
    lie at few places. None where that would gain nothing, and for values of more than 32 bits that have several
    origins."""
    values, origin = question.values, question.origin
    if len(values) < MIN_VALUES or isinstance(question.times, np.ndarray):
        return None
    key = values
    if origin is not None:
        if int(values.max()) >> _ORIGIN_SHIFT:
            return None
        key = origin.astype(np.uint64)
        key <<= np.uint64(_ORIGIN_SHIFT)
        key |= values
    number = np.empty(len(values), np.uint32)
    found = distinct(np.ascontiguousarray(key), number)
    if found is None:
        return None
    once = np.frombuffer(found, np.uint64)
    if origin is None:
        return question._replace(values=once), number
    low = once & np.uint64((1 << _ORIGIN_SHIFT) - 1)
    return question._replace(values=low, origin=(once >> np.uint64(_ORIGIN_SHIFT)).astype(np.uint32)), number


def _meaning_of(question: ColumnQuestion, context: Callable[[str], ContextMap]) -> _Meant:
    """What the numbers mean in modules. Raises ``ContextNotFound`` and ``LimitExceeded``."""
    values, origins = question.values, question.origins
    reason = np.zeros(len(values), np.uint8)
    if not any(origin.context for origin in origins):
        return _Meant(origins, question.numbers, values, values, reason, {})
    target, value, address = question.numbers.astype(np.int32), values.copy(), values
    targets, candidates = [*origins], _NamedCandidates()
    for number, origin in enumerate(origins):
        if not origin.context:
            continue
        form, known = checked_form(origin.form), context(origin.context)
        rows = None if len(origins) == 1 else np.flatnonzero(question.numbers == number)
        count = len(values) if rows is None else len(rows)
        _check_work(known, form, count)
        for part in parts_of(count):
            check_cancelled()
            at = part if rows is None else rows[part]
            times = question.times[at] if isinstance(question.times, np.ndarray) else question.times
            found = _found(known, values[at], _as_of(times, known.now, part.stop - part.start), form)
            of_part = known.timeline.targets_of(found.row) + len(targets)
            of_part[found.row < 0] = NONE
            target[at], reason[at] = of_part, found.reason
            value[at] = known.timeline.values_of(found.row, found.address)
            if form != WHOLE_ADDRESS or known.width < _UINT64_BITS:
                address = values.copy() if address is values else address
                address[at] = _full_width(found.address, known.width)
            candidates.add(known, part.start if rows is None else rows[part], found)
        targets += known.timeline.targets
    return _Meant(targets, target, value, address, reason, candidates.by_query)


def _full_width(addresses: U64, width: int) -> U64:
    """Addresses in canonical form; one that is none as it is."""
    low, valid = reduced(addresses, width)
    return extended(low, width) if valid.all() else np.where(valid, extended(low, width), addresses)


def place_of(query: ByDevice, context: Callable[[str], ContextMap]) -> DevicePlace:
    """What one device address means in which module."""
    column = np.array([query.address], np.uint64)
    meant = _meaning_of(ColumnQuestion(column, (Origin(context=query.context),), None, query.time), context)
    address, number = DeviceAddress(int(meant.address[0])), int(meant.target[0])
    if number < 0:
        return DevicePlace(address, Reason(int(meant.reason[0])), candidates=meant.candidates.get(0, ()))
    target = meant.targets[number]
    return DevicePlace(address, None, Digest(target.module), _path(target), _place(target, int(meant.value[0])))


def _as_of(times: Times, now: int, count: int) -> I64:
    """The time as of which each of ``count`` device addresses is meant, in nanoseconds of the context's clock: ``now``
    for those without one. Raises ``BadQuery``."""
    if isinstance(times, np.ndarray):
        return np.where(times >= LATEST_TIME, now, times)
    if times is not None and not 0 <= times <= LATEST_TIME + 1:
        raise BadQuery(f"{times} is not a time", hint="times are nanoseconds, from 0 to 2^63 - 2")
    return np.full(count, now if times is None or times >= LATEST_TIME else times, np.int64)


def _check_work(known: ContextMap, form: AddressForm, count: int) -> None:
    """Raises ``LimitExceeded`` where so many truncated addresses could stand for too many places."""
    ways = len(known.timeline.windows(form.known_bits)) if form.known_bits < known.width else 1
    if ways * count > WORK:
        raise LimitExceeded(
            f"each truncated address could stand for {ways} places",
            hint="send smaller batches, or more bits of the addresses",
            metadata={"limit": "truncated", "value": str(WORK)},
        )


def _found(known: ContextMap, values: U64, times: I64, form: AddressForm) -> FoundSegment:
    """Whole addresses are looked up at once; what the form or the context's width cannot say was never mapped."""
    timeline, width, _ = known
    addresses, fits = shifted(values, form)
    if form.known_bits < width:
        return _without(timeline.find_truncated(addresses, times, form.known_bits), fits)
    low, valid = reduced(addresses, width)
    found = _without(timeline.find(low, times), fits & valid)
    return found if valid.all() else replace(found, address=np.where(valid, low, addresses))


def _without(found: FoundSegment, fits: NDArray[np.bool_]) -> FoundSegment:
    """What was found, but for questions that do not fit."""
    if not fits.all():
        found.row[~fits] = NONE
        found.reason[~fits] = Reason.OUTSIDE_TEXT
        for number in [each for each in found.several if not fits[each]]:
            del found.several[number]
    return found


def _answered(meant: _Meant, opener: OpenIndexOf, own: str, *, with_ranges: bool) -> DeviceAnswers:
    """Answer what is in a module, module after module."""
    targets = meant.targets
    used = np.zeros(len(targets) + 1, np.bool_)  # the last one stands for no target
    for part in parts_of(len(meant.target)):
        used[meant.target[part]] = True
    modules: dict[Digest, list[int]] = {}
    for number in np.flatnonzero(used[:-1]).tolist():
        modules.setdefault(Digest(targets[number].module), []).append(number)
    is_one = len(modules) == 1
    if is_one and not used[-1]:
        module = np.broadcast_to(np.uint32(1), len(meant.target))
    else:
        numbers = np.zeros(len(used), np.uint32)
        for number, members in enumerate(modules.values(), 1):
            numbers[members] = number
        module = numbers[meant.target]
    reason, budget = meant.reason.copy(), NameSearchBudget()
    found: list[tuple[I64 | slice, Answers]] = []
    for digest, members, rows in zip(modules, modules.values(), _rows_of_each(module, len(modules)), strict=True):
        check_cancelled()
        try:
            index = opener(digest)
            if digest == own:
                _check_objects(index, [targets[each] for each in members])
        except (ModuleNotFound, *MODULE_ERRORS) as error:
            if digest == own:
                raise
            reason[rows] = Reason.UNKNOWN_MODULE if isinstance(error, ModuleNotFound) else Reason.MALFORMED
            continue
        of_module = symbolize_origins(index, targets, members, meant.target[rows], meant.value[rows], budget)
        found.append((rows, ranged(index, of_module) if with_ranges else of_module))
    answers = _beside(found[0][1], found[0][0], reason) if is_one and found else _together(found, reason)
    return DeviceAnswers(answers, module, meant.address, [*modules], meant.candidates)


def _together(found: Sequence[tuple[I64 | slice, Answers]], reason: U8) -> Answers:
    """Answers of several modules in their rows of a batch."""
    batch = AnswerTableBuilder(len(reason))
    batch.location[:] = reason
    for rows, answers in found:
        batch.add(rows, answers)
    return batch.answers()


def _check_objects(index: Index, origins: Sequence[Origin]) -> None:
    """Raises ``ObjectNotFound``."""
    for each in origins:
        if each.path is not None and not index.has_object(each.path):
            raise ObjectNotFound.at(each.path, index.objects)


def _rows_of_each(module: U32, count: int) -> Iterator[I64 | slice]:
    """The rows of module 1, those of module 2, ..."""
    if count > 1:
        narrow = module.astype(np.uint16) if count < 1 << 16 else module  # which takes less time to put in order
        yield from (rows for number, rows in in_groups(narrow) if number)
    elif count:
        yield slice(None) if module.strides == (0,) else np.flatnonzero(module)


def _beside(answers: Answers, rows: I64 | slice, reason: U8) -> Answers:
    """The answers in ``rows`` of a batch whose other queries have a reason alone: each table of locations begins with
    the reasons."""
    if isinstance(rows, slice):
        return answers
    location, section, offset = reason.astype(np.uint32), no_numbers(len(reason)), np.zeros(len(reason), np.uint64)
    location[rows], section[rows], offset[rows] = answers.location, answers.text_section, answers.offset
    candidates = {int(rows[number]): each for number, each in answers.candidates.items()}
    ranges = {int(rows[number]): each for number, each in answers.ranges.items()}
    return Answers(location, section, offset, answers.locations, answers.text_sections, candidates, ranges)


class _NamedCandidates:
    """What ambiguous addresses of a batch could mean, by their numbers, of as many as are named."""

    def __init__(self) -> None:
        self.by_query: dict[int, tuple[DeviceCandidate, ...]] = {}
        self._budget = CandidateBudget()

    def add(self, known: ContextMap, numbers: int | I64, found: FoundSegment) -> None:
        """Name those of a part of the batch: ``numbers`` has the number of each question, or that of the first."""
        timeline, width, _ = known
        for slot, meanings in sorted(found.several.items()):
            if self._budget.is_spent:
                return
            rows = np.array([row for row, _ in meanings], np.int64)
            low = np.array([address for _, address in meanings], np.uint64)
            values = timeline.values_of(rows, low).tolist()
            targets = [timeline.targets[number] for number in timeline.targets_of(rows).tolist()]
            self.by_query[slot + numbers if isinstance(numbers, int) else int(numbers[slot])] = tuple(
                DeviceCandidate(DeviceAddress(address), Digest(target.module), _path(target), _place(target, value))
                for address, target, value in zip(_full_width(low, width).tolist(), targets, values, strict=True)
            )
            self._budget.count(len(meanings))


def _path(target: Origin) -> ObjectPath | None:
    return None if target.path is None else ObjectPath(target.path)


def _place(target: Origin, value: int) -> Query:
    if target.kernel is not None:
        return ByKernel(target.kernel, KernelOffset(value))
    if target.section is not None:
        return BySection(target.section, SectionOffset(value))
    return ByAddress(ObjectAddress(value))

"""Which frames were at these device addresses at these times? The map says which module held each address, and all
addresses of one module are answered together.

Answers of several modules as answers to one batch: of each table only what its answers point to is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from symd.engine.contexts.placement import extended, reduced, shifted
from symd.engine.contexts.timeline import NONE, FoundSegment, Target, Timeline, in_groups
from symd.errors import OF_ONE_MODULE, LimitExceeded, ModuleNotFound
from symd.index import Index
from symd.index.format import Strings
from symd.model.addresses import (
    ByAddress,
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
    Locations,
    Reason,
    TextSection,
    concat,
    of_reasons,
    subset,
    used_strings,
)
from symd.model.columns import I64, U64
from symd.model.contexts import AddressForm, DeviceAnswers, DeviceCandidate
from symd.model.identities import Digest
from symd.model.waiting import never_cancelled
from symd.query.symbolize import Part, symbolize_parts

MAX_TEXTS = 96 << 20
"""Bytes of the names and paths of one batch, as UTF-8, each once a module: whoever made a module says how long they
are, and a context may have many modules."""


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
        self._room = MAX_TEXTS

    def add(self, numbers: NDArray[np.int64], answers: Answers) -> None:
        """Put one module's answers in where ``numbers`` says. Raises ``LimitExceeded`` where their texts have no room."""
        table = answers.locations
        if isinstance(table.strings, Strings) and table.strings.text_bytes > self._room:  # before they are read
            self._check_room(table.strings.sizes(used_strings(table, answers.location)))
        part, renumbered = subset(table, answers.location)
        self._room -= sum(map(_bytes, part.strings))
        self._check_room(0)
        self.location[numbers] = sum(map(len, self._tables)) + renumbered[answers.location]
        self._tables.append(part)
        self._add_text_sections(numbers, answers)
        for query, candidates in answers.candidates.items():
            self._candidates[int(numbers[query])] = candidates

    def answers(self) -> Answers:
        """The batch."""
        table, _ = concat(self._tables)
        return Answers(self.location, self._text_section, self._offset, table, self._text_sections, self._candidates)

    def _check_room(self, size: int) -> None:
        if size > self._room:
            raise LimitExceeded(
                f"the answers have more than {MAX_TEXTS} bytes of names and paths",
                hint="ask for fewer addresses at a time",
                metadata={"limit": "answer_texts", "value": str(MAX_TEXTS)},
            )

    def _add_text_sections(self, numbers: NDArray[np.int64], answers: Answers) -> None:
        used = np.unique(answers.text_section)
        used = used[used != 0]
        if len(used):
            place = len(self._text_sections) + 1 + np.searchsorted(used, answers.text_section)
            self._text_section[numbers] = np.where(answers.text_section != 0, place, 0)
            self._offset[numbers] = answers.offset
            self._text_sections += [answers.text_sections[number - 1] for number in used.tolist()]


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


WORK = 1 << 26
"""Truncated addresses of a batch, times the places each could stand for."""


def symbolize_device(
    timeline: Timeline,
    width: int,
    values: U64,
    times: I64,
    form: AddressForm,
    opener: Callable[[str], Index],
    check_cancelled: Callable[[], None] = never_cancelled,
) -> DeviceAnswers:
    """Answers for ``values``, written in ``form``, each as of its time, in a context whose addresses have ``width`` bits.

    Reasons beside those of the module: OUTSIDE_TEXT (nothing was ever mapped there), UNLOADED (something was, before or
    later), AMBIGUOUS, UNKNOWN_MODULE (what was there is not in the store), MALFORMED (it is, and cannot be read).
    Raises ``LimitExceeded`` when truncated addresses could stand for too many places. ``check_cancelled`` is called now and then, and raises
    when nobody waits any more.
    """
    addresses, fits = shifted(values, form)
    found = _found(timeline, width, addresses, times, form, check_cancelled)
    batch = AnswerTableBuilder(len(values))
    batch.location[:] = np.where(fits, found.reason, Reason.OUTSIDE_TEXT)
    held = np.flatnonzero(fits & (found.row >= 0))
    modules, numbers = _answer(timeline, found, held, batch, opener, check_cancelled)
    module = np.zeros(len(values), np.uint32)
    module[held] = numbers
    several = {number: meanings for number, meanings in sorted(found.several.items()) if fits[number]}
    candidates = _candidates(timeline, width, several)
    _, valid = reduced(found.address, width)
    whole = np.where(valid, extended(found.address, width), found.address)
    return DeviceAnswers(batch.answers(), module, whole, modules, candidates)


def _found(
    timeline: Timeline, width: int, addresses: U64, times: I64, form: AddressForm, check_cancelled: Callable[[], None]
) -> FoundSegment:
    """Whole addresses are looked up at once; one wider than the form was never mapped."""
    if form.known_bits >= width:
        low, valid = reduced(addresses, width)
        found = timeline.find(low, times, check_cancelled)
        found.row[~valid] = NONE
        low[~valid] = addresses[~valid]
        found.reason[~valid] = Reason.OUTSIDE_TEXT
        for number in [each for each in found.several if not valid[each]]:
            del found.several[number]
        return found
    ways = len(timeline.windows(form.known_bits))
    if ways * len(addresses) > WORK:
        raise LimitExceeded(
            f"each truncated address could stand for {ways} places",
            hint="send smaller batches, or more bits of the addresses",
            metadata={"limit": "truncated", "value": str(WORK)},
        )
    return timeline.find_truncated(addresses, times, form.known_bits, check_cancelled)


def _answer(
    timeline: Timeline,
    found: FoundSegment,
    held: I64,
    batch: AnswerTableBuilder,
    opener: Callable[[str], Index],
    check_cancelled: Callable[[], None],
) -> tuple[list[Digest], I64]:
    """Answer what is held by a module, module after module; the modules, and for each question its number plus one."""
    targets = timeline.targets_of(found.row[held])
    modules: dict[Digest, list[tuple[Target, I64]]] = {}
    for number, where in in_groups(targets):
        target = timeline.targets[number]
        modules.setdefault(target.module, []).append((target, where))
    owner = np.zeros(len(held), np.int64)
    values = timeline.values_of(found.row[held], found.address[held])
    for number, (digest, groups) in enumerate(modules.items(), 1):
        everywhere = np.concatenate([where for _, where in groups])
        owner[everywhere] = number
        check_cancelled()
        try:
            index = opener(digest)
        except ModuleNotFound:
            batch.location[held[everywhere]] = Reason.UNKNOWN_MODULE
            continue
        except OF_ONE_MODULE:
            batch.location[held[everywhere]] = Reason.MALFORMED
            continue
        batch.add(held[everywhere], symbolize_parts(index, _parts(groups, values), len(everywhere)))
    return list(modules), owner


def _parts(groups: Sequence[tuple[Target, I64]], values: U64) -> list[Part]:
    """Groups that follow one another in the module's batch."""
    parts, first = [], 0
    for target, where in groups:
        numbers = np.arange(first, first + len(where))
        parts.append(Part(numbers, values[where], target.kernel, target.section, target.path))
        first += len(where)
    return parts


def _candidates(
    timeline: Timeline, width: int, several: Mapping[int, Sequence[tuple[int, int]]]
) -> dict[int, tuple[DeviceCandidate, ...]]:
    """By the number of each ambiguous address what it could mean."""
    pairs = [pair for meanings in several.values() for pair in meanings]
    rows = np.array([row for row, _ in pairs], np.int64)
    low = np.array([address for _, address in pairs], np.uint64)
    targets = map(timeline.targets.__getitem__, timeline.targets_of(rows).tolist())
    made = (
        DeviceCandidate(DeviceAddress(whole), target.module, target.path, _place(target, value))
        for whole, target, value in zip(
            extended(low, width).tolist(), targets, timeline.values_of(rows, low).tolist(), strict=True
        )
    )
    return {number: tuple(islice(made, len(meanings))) for number, meanings in several.items()}


def _place(target: Target, value: int) -> Query:
    if target.kernel is not None:
        return ByKernel(target.kernel, KernelOffset(value))
    if target.section is not None:
        return BySection(target.section, SectionOffset(value))
    return ByAddress(ObjectAddress(value))

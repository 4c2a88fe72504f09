"""The protocols of profile formats to read and to write, the outcome of a rewrite (new bytes, and a report of what was
and was not done), and a budget for one profile: what was read of it and is kept, and what was written into it.

The budget is needed because a small file expands, and an answer of many frames is written wherever its address occurs.
gzip is bounded on the way in and has no time stamp on the way out, so that equal profiles are equal bytes."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from symd.config import MIB, Limits
from symd.errors import LimitExceeded, Malformed
from symd.formats.budget import beyond, exceeded
from symd.model.answers import Reason
from symd.profiles.json_text import WHERE
from symd.profiles.resolver import Resolver
from symd.profiles.samples import TIMES, SampledProfile, Task, Value, ValueType

Progress = Callable[[str, int, int], None]
"""Called now and then with what is being done, how much of it is done, and how much there is."""


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """The default: nobody is told."""


@dataclass(frozen=True, slots=True)
class Options:
    """Budgets against hostile profiles, and who is told how far it is. ``stored`` is how many bytes a gzipped profile
    has as it is stored."""

    limits: Limits = field(default_factory=Limits)
    progress: Progress = no_progress
    stored: int | None = None


class Weight(NamedTuple):
    """The sum of the values of a profile, and of its samples whose leaf has no frames; ``unit`` is what they count."""

    unit: str
    total: Value
    left: Value


@dataclass(frozen=True, slots=True)
class Report:
    """What became of the addresses of a profile.

    ``unit`` says what is counted ("locations", "rows", ...); ``total`` is ``already`` (had symbols, left alone) plus
    ``resolved`` plus all of ``unresolved`` (left as they were, by reason). ``approximate`` of the resolved have the
    nearest earlier line of their function. ``notes`` are sentences for the user. ``weight`` says how much of the
    profile's values the unresolved ones have; None where nothing is left, or the format's samples are not read.
    """

    format: str
    unit: str
    total: int
    already: int
    resolved: int
    approximate: int = 0
    unresolved: Mapping[Reason, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    weight: Weight | None = None


@dataclass(frozen=True, slots=True)
class Symbolized:
    """A profile with frames in it, and what was done about each address. ``data`` is the same object as the input
    where nothing was added."""

    data: bytes = field(repr=False)
    report: Report


def weighed_columns(profile: SampledProfile) -> Sequence[int]:
    """The numbers of the values that are summed to a sample's weight: all where they have one unit, else the one that
    is shown first."""
    is_summable = len({kind.unit for kind in profile.value_types}) == 1
    return range(len(profile.value_types)) if is_summable else (profile.default,)


def weight_of(profile: SampledProfile) -> Weight:
    """The weight of a profile: the sum of all values where they have one unit, such as counters of events, else of
    those that are shown first."""
    columns, shown = weighed_columns(profile), profile.value_types[profile.default]
    total: Value = 0
    left: Value = 0
    for sample in profile.samples:
        value = sum(sample.values[at] for at in columns)
        total += value
        if not (sample.stack and profile.addresses[sample.stack[0]].frames):
            left += value
    return Weight((shown.unit if len(columns) > 1 else shown.name) or "samples", total, left)


class ProfileFormat(Protocol):
    """The names that every format module has."""

    NAME: str

    def claims(self, data: bytes) -> bool:
        """Whether the bytes look like this format. Never raises."""
        ...

    def symbolize(self, data: bytes, resolver: Resolver, options: Options) -> Symbolized:
        """Add what the modules know to the profile. Raises Malformed, Unsupported, LimitExceeded."""
        ...


@dataclass(slots=True)
class Tally:
    """A report while it is being counted."""

    already: int = 0
    resolved: int = 0
    approximate: int = 0
    unresolved: Counter[Reason] = field(default_factory=Counter)

    def count(self, reason: Reason, *, resolved: bool, number: int = 1) -> None:
        """``number`` addresses had this answer."""
        if not resolved:
            self.unresolved[reason] += number
            return
        self.resolved += number
        self.approximate += number if reason is Reason.APPROXIMATE else 0

    def report(self, name: str, unit: str, notes: tuple[str, ...] = ()) -> Report:
        unresolved = dict(sorted(self.unresolved.items()))
        total = self.already + self.resolved + sum(unresolved.values())
        return Report(name, unit, total, self.already, self.resolved, self.approximate, unresolved, notes)


PROFILE_RECORDS = 4_000_000
"""Fields, samples, rows and frames that are read of one profile; of a gzipped one so many for each MiB that is stored:
records of nothing compress so well that their number alone says little."""
_SHARE = 12
"""Any gzipped one may have this part of them: what compresses no further has all."""
MEMBERS_A_RECORD = 16
"""JSON values that count as one record: what is read of a sample or a record has about as many."""
BYTES_A_RECORD = 32
"""Bytes of protocol buffers that count as one record before they are read."""


class ProfileBudget:
    """Counts what one profile of ``size`` bytes has cost, against ``limits``."""

    def __init__(self, options: Options, size: int) -> None:
        self.limits = options.limits
        self._most_records = most = PROFILE_RECORDS
        if options.stored is not None:
            self._most_records = min(most, max(most // _SHARE, options.stored * most // MIB))
        self._records = 0
        self._bytes = size

    def read(self, number: int = 1) -> None:
        """Count fields, samples, rows or frames that are read. Raises LimitExceeded."""
        self.check(number)
        self._records += number

    @property
    def left(self) -> int:
        """How many more fields, samples, rows or frames may be read."""
        return self._most_records - self._records

    def check(self, number: int) -> None:
        """Raise LimitExceeded where so many more could not be read."""
        most = self._most_records
        if self._records + number > most:
            raise beyond("profile_records", most, f"has more than {most} fields or samples", WHERE)

    def read_json(self, text: str, begin: int, end: int) -> None:
        """Count the JSON values of ``text[begin:end]``, which are about to be read. Raises LimitExceeded."""
        self.read(1 + text.count(",", begin, end) // MEMBERS_A_RECORD)

    def read_message(self, size: int) -> None:
        """Count protocol buffers of ``size`` bytes, which are about to be read. Raises LimitExceeded."""
        self.read(size // BYTES_A_RECORD)

    def read_table(self, rows: int, columns: int) -> None:
        """Count the values of a table that is about to be kept, which a small file may name one by one. Raises
        LimitExceeded."""
        self.read(rows * columns // MEMBERS_A_RECORD)

    def written(self, size: int) -> None:
        """Count bytes or characters that are about to be written. Raises LimitExceeded."""
        self._bytes += size
        most = self.limits.profile_size
        if self._bytes > most:
            raise exceeded("profile_size", most, f"takes more than profile_size = {most} bytes with its frames", WHERE)


MAGIC = b"\x1f\x8b"
EXPANDED_PIECE_BYTES = 1 << 24
"""Bytes expanded at a time, after each of which the budget is looked at."""
PROFILE_RATIO = 100
"""Bytes that a byte of a compressed profile may expand to."""
_ALWAYS = 1 << 20
"""Bytes that any file may expand to: a few equal lines compress better than a profile does."""


def compressed(data: bytes) -> bool:
    return data.startswith(MAGIC)


def expand(data: bytes, limits: Limits) -> bytes:
    """Every member, one after another. Raises Malformed, and LimitExceeded before the memory is spent."""
    left, too_large = expansion_budget(len(data), limits)
    pieces: list[bytes] = []
    while data:
        machine = zlib.decompressobj(wbits=31)
        while not machine.eof:
            try:
                piece = machine.decompress(data, min(left + 1, EXPANDED_PIECE_BYTES))
            except zlib.error as error:
                raise Malformed(f"gzip data is damaged: {error}", where="the profile") from error
            data = machine.unconsumed_tail
            left -= len(piece)
            if left < 0:
                raise too_large
            if not piece and not data and not machine.eof:
                raise Malformed(
                    "gzip data ends too early",
                    where="the profile",
                    hint="the file is cut off: copy it again, or let the profiler that writes it end first",
                )
            pieces.append(piece)
        data = machine.unused_data
    return b"".join(pieces)


def expansion_budget(stored: int, limits: Limits) -> tuple[int, LimitExceeded]:
    """The bytes that so many stored ones may expand to, and the error of those that would be more."""
    most, by_ratio = limits.profile_size, max(_ALWAYS, stored * PROFILE_RATIO)
    if most < by_ratio:
        what = f"expands to more than profile_size = {most} bytes"
        return most, exceeded("profile_size", most, what, "the profile")
    what = f"{stored} bytes expand to more than {by_ratio}"
    return by_ratio, beyond("profile_ratio", PROFILE_RATIO, what, "the profile")


def compress(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)


NANOSECONDS = {"nanoseconds": 1, "ns": 1, "microseconds": 10**3, "us": 10**3, "milliseconds": 10**6, "ms": 10**6} | {
    "seconds": 10**9,
    "s": 10**9,
}
"""Units of time, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The bytes of the other format, and sentences on what it could not take."""

    data: bytes = field(repr=False)
    notes: tuple[str, ...] = ()


class Export(Protocol):
    """The names that every module of a format to write has."""

    NAME: str

    def export(self, profile: SampledProfile, spending: ProfileBudget) -> Exported:
        """The profile in this format. Raises LimitExceeded."""
        ...


def columns_with_values(profile: SampledProfile) -> list[int]:
    """The columns of values that are not all 0; where all are, the one that is shown first."""
    return [at for at, total in enumerate(profile.totals()) if total] or [profile.default]


def series_name(kind: ValueType, task: Task, *, several: bool) -> str:
    """A title for the samples of one value type and task."""
    values = f"{kind.name} [{kind.unit}]" if kind.unit else kind.name
    who = task.name or " ".join(
        text
        for text in (f"process {task.process}" if task.process else "", f"thread {task.thread}" if task.thread else "")
        if text
    )
    return f"{values}, {who}" if several and who else values


def whole(value: Value) -> int:
    """The nearest whole number of 64 bits: formats of integers."""
    return max(-TIMES, min(round(value), TIMES - 1))


def rounding_notes(profile: SampledProfile) -> tuple[str, ...]:
    """What to say where a format of whole numbers gets others."""
    broken = any(isinstance(value, float) and not value.is_integer() for one in profile.samples for value in one.values)
    return ("values are rounded to whole numbers",) if broken else ()

"""The protocol of a profile format, the outcome of a rewrite (new bytes, and a report of everything that was and was
not done), and a budget for one profile: what was read of it and is kept, and what was written into it.

The budget is needed because a small file expands, and an answer of many frames is written wherever its address occurs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from symd.config import MIB, Limits
from symd.formats.budget import beyond, exceeded
from symd.model.answers import Reason
from symd.profiles.json_text import WHERE
from symd.profiles.resolver import Resolver
from symd.profiles.samples import SampledProfile, Value

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


def weight_of(profile: SampledProfile) -> Weight:
    """The weight of a profile: the sum of all values where they have one unit, such as counters of events, else of
    those that are shown first."""
    types = profile.value_types
    is_summable = len({kind.unit for kind in types}) == 1
    columns = range(len(types)) if is_summable else (profile.default,)
    shown = types[profile.default]
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
        self._records += number
        most = self._most_records
        if self._records > most:
            raise beyond("profile_records", most, f"has more than {most} fields or samples", WHERE)

    def read_json(self, text: str, begin: int, end: int) -> None:
        """Count the JSON values of ``text[begin:end]``, which are about to be read. Raises LimitExceeded."""
        self.read(1 + text.count(",", begin, end) // MEMBERS_A_RECORD)

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

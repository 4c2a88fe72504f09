"""What every format to write offers, and what more than one of them needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from symd.profiles.profile_format import ProfileBudget
from symd.profiles.samples import SampledProfile, Task, Value, ValueType

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


class ExportNumbering:
    """Values in the order in which they came, each with its number: the tables that formats refer to."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}

    def number(self, value: object) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)


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
    """The nearest whole number: formats of integers."""
    return value if isinstance(value, int) else round(value)


def rounding_notes(profile: SampledProfile) -> tuple[str, ...]:
    """What to say where a format of whole numbers gets others."""
    broken = any(isinstance(value, float) and not value.is_integer() for one in profile.samples for value in one.values)
    return ("values are rounded to whole numbers",) if broken else ()

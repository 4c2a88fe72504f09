"""What one module may cost while it is opened and decoded: how many elements and code objects, how deep, how many bytes
after decompression, how many line rows and debugging entries, and how much work that leaves nothing behind."""

from __future__ import annotations

from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import LimitExceeded
from symd.model.code import CodeObject
from symd.model.light_typing import Self

_ALWAYS = 1_000_000
"""Steps that reading any file may take: about a second."""
_ALWAYS_EXPANDED = 16 << 20
"""Bytes that the compressed parts of any file may expand to."""
_HEADER_ENTRIES = 32
"""A unit or a line table of nothing takes as long as so many entries."""
_ELEMENT_STEPS = 400
"""An element or a code object of nothing takes as long as so many steps."""
NESTING_DEPTH = 8
"""Containers inside containers."""
EXPANSION_RATIO = 100
"""Bytes that compressed parts may expand to for each byte of the module's file; ``_ALWAYS_EXPANDED`` are always
taken."""
BOUNDS = {
    "shared_facts": (1_000_000, "arguments and attributes of other kernels"),
    "core_rows": (8_000_000, "rows of tables"),
    "core_waves": (1_000_000, "saved waves"),
    "core_call_frames": (200_000, "entries of call frame information"),
    "core_frames": (200_000, "calls in different stacks"),
    "core_stacks": (20_000, "different stacks"),
}
"""What is counted by name, and how many there may be: arguments and attributes that kernels of one module have because
another kernel of the same code has them; and of one GPU core dump the rows of a CUDA program's tables, the saved waves
of a ROCm program and entries of ``.debug_frame`` of its code objects, the different stacks after equal ones are put
together, and the calls of all of these."""


class WorkBudget:
    """Counts steps: a step is what takes about a microsecond, whether anything comes of it or not. A reader that goes
    through something one value at a time counts each; one that goes through many at once counts a share of the bytes.

    ``stored`` is the size of the module's file in bytes, which bounds them: what a small file expands to, or refers to
    again and again, is not read to its end. No file that says each thing once comes near.
    """

    def __init__(self, limits: Limits, stored: int) -> None:
        self._ratio = limits.work_ratio
        self._most_steps = max(_ALWAYS, stored * limits.work_ratio)
        self._steps = 0

    @property
    def steps(self) -> int:
        """What was spent so far."""
        return self._steps

    @property
    def steps_left(self) -> int:
        return self._most_steps - self._steps

    def spend(self, steps: int, where: str) -> None:
        """Count steps of work that are taken, or about to be; ``where`` is what an error names. Raises
        LimitExceeded."""
        total = self._steps + steps  # asked some ten times of each small object: as few calls as can be
        if total > self._most_steps:
            raise self._too_much(where)
        self._steps = total

    def _too_much(self, where: str) -> LimitExceeded:
        what = f"takes more than {self._most_steps} steps to read, which its size does not explain (work_ratio = {self._ratio})"
        return exceeded("work_ratio", self._ratio, what, where)


class Budget(WorkBudget):
    """Counts what opening one module has spent so far; every excess is a ``LimitExceeded`` that names the limit.

    ``containers.unpack`` counts what it opens and checks the depth. A reader counts the elements of a table before it
    walks it, where the file alone says how many there are, and charges what it is about to decompress; slices of the
    file itself cost nothing, and are checked against the file's length by the reader. Every reader calls its argument
    ``budget``, even one that needs none of this. Without ``stored`` the file has what any file may have.
    """

    def __init__(self, limits: Limits, stored: int = 0) -> None:
        super().__init__(limits, stored)
        self.limits = limits
        self._most_expanded = max(_ALWAYS_EXPANDED, stored * EXPANSION_RATIO)
        self._objects = 0
        self._expanded = 0
        self._counts: dict[str, int] = {}

    def check_depth(self, depth: int, where: str) -> None:
        """Check that ``depth`` containers may be open around ``where``. Raises LimitExceeded."""
        if depth > NESTING_DEPTH:
            raise beyond("nesting_depth", NESTING_DEPTH, f"lies in more than {NESTING_DEPTH} containers", where)

    def count_elements(self, where: str, number: int = 1) -> None:
        """Count elements or code objects that were found. Raises LimitExceeded."""
        self._objects += number
        if self._objects > self.limits.object_count:
            raise _over("object_count", self.limits.object_count, where)
        self.spend(number * _ELEMENT_STEPS, where)

    def count(self, name: str, number: int = 1, where: str = "") -> None:
        """Count things of one of the ``BOUNDS``. Raises LimitExceeded."""
        most, what = BOUNDS[name]
        self._counts[name] = count = self._counts.get(name, 0) + number
        if count > most:
            raise beyond(name, most, f"has more than {most} {what}", where)

    def charge_expansion(self, expanded: int, where: str) -> None:
        """Count a compressed part that is about to become ``expanded`` bytes. Raises LimitExceeded."""
        self._expanded += expanded
        if self._expanded > self.limits.expansion:
            raise _over("expansion", self.limits.expansion, where)
        if self._expanded > self._most_expanded:
            what = f"compressed parts expand to more than {EXPANSION_RATIO} bytes for each byte of the file"
            raise beyond("expansion_ratio", EXPANSION_RATIO, what, where)


class DebugBudget(WorkBudget):
    """Counts the line rows and debugging entries that were decoded of one module, each of which takes memory, and the
    steps that this and everything else in its debug data took.

    ``stored`` is the size of the module's file in bytes.
    """

    def __init__(self, limits: Limits, stored: int) -> None:
        super().__init__(limits, stored)
        self._most = limits.debug_entries
        self._count = 0

    @classmethod
    def of(cls, code: CodeObject, limits: Limits = DEFAULT_LIMITS) -> Self:
        """The budget of the module of one code object, of which nothing was decoded yet."""
        return cls(limits, code.stored or len(code.data))

    def check(self, number: int, where: str) -> None:
        """Check that ``number`` more line rows and debugging entries may be decoded. Raises LimitExceeded."""
        if self._count + number > self._most:
            what = f"has more than {self._most} line rows and debugging entries (debug_entries = {self._most})"
            raise exceeded("debug_entries", self._most, what, where)
        if self._steps + number > self._most_steps:
            raise self._too_much(where)

    def count(self, number: int, where: str) -> None:
        """Count line rows and debugging entries that are decoded. Raises LimitExceeded."""
        self.check(number, where)
        self._count += number
        self._steps += number

    def trial(self) -> DebugBudget:
        """A budget of its own that has counted as much, for work that may have to be done again otherwise."""
        trial = object.__new__(type(self))
        trial.__dict__.update(self.__dict__)
        return trial

    def accept(self, trial: DebugBudget) -> None:
        """Count what ``trial`` has counted, in place of what was counted here."""
        self._count, self._steps = trial._count, trial._steps

    def count_header(self, where: str) -> None:
        """Count a unit or a line table, which costs as much as many entries. Raises LimitExceeded."""
        self.count(_HEADER_ENTRIES, where)


def exceeded(name: str, value: int, what: str, where: str = "") -> LimitExceeded:
    """The error of a file that passes the limit ``name``; ``what`` is a sentence that says so."""
    error = beyond(name, value, what, where)
    error.hint = f"raise the limit {name} if the file is to be trusted"
    return error


def beyond(name: str, value: int, what: str, where: str = "") -> LimitExceeded:
    """The error of a bound that is no limit of an operator's: it names the bound, without a hint to raise it."""
    return LimitExceeded(what, where=where, metadata={"limit": name, "value": str(value)})


def _over(name: str, value: int, where: str) -> LimitExceeded:
    return exceeded(name, value, f"passes the limit {name} = {value}", where)

"""What a profile holds, in one form for every writer: stacks with values, whatever the format they were read from;
frames and places as profiles write them, as text and as JSON; and the columns of tables (``symd.model.data_frames``).
Nothing is looked up here: what an address of a profile means was written into it before
(``symd.profiles.symbolize``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.model.answers import Frame
from symd.model.data_frames import DataColumn, DataColumns
from symd.model.texts import counted

if TYPE_CHECKING:
    from symd.model.data_frames import ArrowTable, DataFrame


Value = int | float
ADDRESSES = 1 << 64
PROCESSES = 1 << 31
TIMES = 1 << 63
"""Limits of what a profile may call an address, a process, a time or a count."""


class ValueType(NamedTuple):
    """What the values of one column count, in the words of the profile ("samples", "count"; "Active", "Events")."""

    name: str
    unit: str


class SampleExtent(NamedTuple):
    """A function's code: ``size`` bytes from the address ``begin`` on."""

    begin: int
    size: int
    name: str


class SampledModule(NamedTuple):
    """A file, or a part of one, that addresses lie in: device or process addresses ``[start, limit)`` hold its bytes
    from ``offset`` on. Empty and 0 where the profile does not say. ``functions`` are those that are known of it, in the
    order of their addresses. ``identity`` is what else the profile calls it, such as the number of a code object."""

    name: str = ""
    build_id: str = ""
    start: int = 0
    limit: int = 0
    offset: int = 0
    functions: tuple[SampleExtent, ...] = ()
    identity: str = ""


class SampledAddress(NamedTuple):
    """One entry of a stack. ``frames`` are innermost first, and of several all but the last are inlined. Where there
    are none, ``label`` is how the profile calls the place. ``module`` is a number in the profile's modules."""

    label: str
    frames: tuple[Frame, ...] = ()
    address: int | None = None
    module: int | None = None


class Task(NamedTuple):
    """The process and thread that samples belong to; 0 where the profile does not say."""

    process: int = 0
    thread: int = 0
    name: str = ""


class Sample(NamedTuple):
    """A sample of a profile. ``stack`` are numbers of addresses, leaf first; ``values`` one for each value type.
    ``time`` is in nanoseconds, of the clock that the profile uses; None where it has none."""

    stack: tuple[int, ...]
    values: tuple[Value, ...]
    time: int | None = None
    task: int = 0
    labels: tuple[tuple[str, str | int], ...] = ()


@dataclass(slots=True, repr=False)
class SampledProfile:
    """A whole profile. ``start`` is nanoseconds since 1970, None where nobody says; ``notes`` are sentences about what
    the profile does not carry; ``default`` is the column of values that is shown first."""

    value_types: tuple[ValueType, ...]
    addresses: list[SampledAddress] = field(default_factory=list)
    modules: list[SampledModule] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=lambda: [Task()])
    samples: list[Sample] = field(default_factory=list)
    start: int | None = None
    notes: list[str] = field(default_factory=list)
    default: int = 0

    def totals(self) -> tuple[Value, ...]:
        """The sum of each column of values."""
        columns: Iterable[tuple[Value, ...]] = zip(*(sample.values for sample in self.samples), strict=True)
        return tuple(map(sum, columns)) or (0,) * len(self.value_types)

    def to_pandas(self, *, frames: bool = False) -> DataFrame:
        """A table with a sample a row, or with ``frames`` a frame a row. Raises ToolMissing where pandas is not
        installed."""
        return _columns_of(self, frames=frames).to_pandas()

    def to_arrow(self, *, frames: bool = False) -> ArrowTable:
        """The profile as a table of Apache Arrow: a row for each sample, or with ``frames`` for each frame.
        Raises ToolMissing where pyarrow is not installed."""
        return _columns_of(self, frames=frames).to_arrow()

    def __repr__(self) -> str:
        kinds = ", ".join(f"{total:,} {kind.name}" for kind, total in zip(self.value_types, self.totals(), strict=True))
        return f"<SampledProfile: {counted(len(self.samples), 'sample')}, {kinds}>"


def joined(profiles: Sequence[SampledProfile]) -> SampledProfile:
    """Several profiles as one: each type of value is one column, each task one task."""
    if len(profiles) == 1:
        return profiles[0]
    types = list(dict.fromkeys(kind for one in profiles for kind in one.value_types)) or [ValueType("samples", "count")]
    tasks = list(dict.fromkeys(task for one in profiles for task in one.tasks)) or [Task()]
    starts = [one.start for one in profiles if one.start is not None]
    first = next((one.value_types[one.default] for one in profiles if one.value_types), types[0])
    whole = SampledProfile(tuple(types), tasks=tasks, start=min(starts, default=None), default=types.index(first))
    for one in profiles:
        base, modules = len(whole.addresses), len(whole.modules)
        columns = [types.index(kind) for kind in one.value_types]
        whole.modules += one.modules
        whole.addresses += [
            address if address.module is None else address._replace(module=address.module + modules)
            for address in one.addresses
        ]
        for sample in one.samples:
            values: list[Value] = [0] * len(types)
            for column, value in zip(columns, sample.values, strict=True):
                values[column] = value
            stack = tuple(at + base for at in sample.stack)
            task = tasks.index(one.tasks[sample.task])
            whole.samples.append(sample._replace(stack=stack, values=tuple(values), task=task))
        whole.notes += [note for note in one.notes if note not in whole.notes]
    return whole


def within(number: object, limit: int) -> int | None:
    """The integer, where it is one from 0 to below ``limit``: JSON has others too."""
    return number if type(number) is int and 0 <= number < limit else None


class AddressTable:
    """Addresses of a profile while it is read: equal ones get one number. What is no 64-bit number is no address."""

    def __init__(self, addresses: list[SampledAddress]) -> None:
        self._addresses = addresses
        self._numbers: dict[SampledAddress, int] = {}

    def number(self, address: SampledAddress) -> int:
        if address.address is not None and within(address.address, ADDRESSES) is None:
            address = address._replace(address=None)
        found = self._numbers.get(address)
        if found is None:
            found = self._numbers[address] = len(self._addresses)
            self._addresses.append(address)
        return found


def shown_frames(address: SampledAddress) -> Sequence[Frame]:
    """The frames of an address, innermost first; where it has none, one that bears its label."""
    return address.frames or (Frame(address.label, None, None, 0, 0, inlined=False),)


def shown_name(frame: Frame) -> str:
    """What a reader sees of a frame's function: where nothing names it, its place."""
    place = f"{frame.file}:{frame.line}" if frame.file and frame.line else "(unnamed)"
    return frame.function or frame.linkage_name or place


INLINED = "_[i]"
"""What a frame ends with that was inlined."""
FILE_OFFSET = " (file offset "
"""What is between a module and the offset of a byte of its file."""
UNNAMED = "[unnamed]"
"""A mapping that has neither a name nor a build ID."""
_POSITION = re.compile(r"(.*) \((?:no line|(.*?):([0-9]{1,18})(?::([0-9]{1,18}))?)\)", re.DOTALL)


def place_in_file(file: str, address: int) -> str:
    """``file+0xaddress``, by the last part of the file's path; the address alone where no file is known."""
    name = file.rpartition("/")[2]
    return f"{name}+{address:#x}" if name else f"{address:#x}"


def counted_from(address: SampledAddress) -> str:
    """The kernel or module that an address counts from, as the profile calls it; "" where it does not."""
    label = address.label
    name = label.partition(FILE_OFFSET)[0] if FILE_OFFSET in label else label.rpartition("+0x")[0]
    return name.removeprefix("[").strip('"')


def place_in_module(module: SampledModule | None, address: int) -> str:
    """What an address of a process is called in the module that is mapped there: where its file begins with the mapping
    an object address, else a place in the file, because only the file says which object address that is. The address
    alone where nothing is mapped."""
    if module is None or not (module.start or module.limit):
        return place_in_file("" if module is None else module.name, address)
    if address < module.start or (module.limit and address >= module.limit):
        return f"{address:#x}"
    name = module.name.rpartition("/")[2] or module.build_id or UNNAMED
    place = address - module.start + module.offset
    return f"{name}{FILE_OFFSET}{place:#x})" if module.offset else f"{name}+{place:#x}"


def frame_text(frame: Frame) -> str:
    """``function (file:line)``, marked where it was inlined, on one line and without the signs that part frames."""
    position = f"{frame.file}:{frame.line}" if frame.file else "no line"
    name = shown_name(frame)
    text = f"{name if name == position else f'{name} ({position})'}{INLINED if frame.inlined else ''}"
    return " ".join(text.replace(";", ",").split())


def frame_of_text(text: str) -> Frame | None:
    """The frame that ``function (file:line)`` or ``function (file:line:column)`` says, with ``_[i]`` where it was
    inlined; None where the text says no such thing. A file's name may hold colons and brackets: the last numbers
    count."""
    bare = text.removesuffix(INLINED)
    found = _POSITION.fullmatch(bare)
    if not found:
        return None
    name, file, line, column = found.groups()
    return Frame(name or None, None, file, int(line or 0), int(column or 0), inlined=bare != text)


def frame_of_json(item: Any, *, inlined: bool) -> Frame | None:
    """The frame of symd's published JSON; None where it is none."""
    if not isinstance(item, dict):
        return None
    texts = [item.get(key) for key in ("function", "linkage_name", "file")]
    line, column = item.get("line"), item.get("column")
    if any(text is not None and not isinstance(text, str) for text in texts):
        return None
    if within(line, TIMES) is None or within(column, TIMES) is None:
        return None
    function, linkage, file = texts
    return Frame(function, linkage, file, int(line or 0), int(column or 0), inlined=bool(item.get("inlined", inlined)))


def frames_of_json(items: Any) -> tuple[Frame, ...]:
    """Frames of a list, innermost first; () where the list is none or holds something else."""
    if not isinstance(items, list):
        return ()
    frames = [frame_of_json(item, inlined=at < len(items) - 1) for at, item in enumerate(items)]
    known = tuple(frame for frame in frames if frame is not None)
    return known if len(known) == len(frames) else ()


_NO_FRAME = Frame(None, None, None, 0, 0, inlined=False)


def _columns_of(profile: SampledProfile, *, frames: bool) -> DataColumns:
    """A sample a row: its values, each under its name, with the innermost frame of its leaf and the number of frames of
    its stack (``depth``); or a frame a row, from the leaf's innermost outwards, with the number of its ``sample`` and
    its ``level`` (0: innermost). An entry of a stack that has no frames is one row, which ``label`` names."""
    stacks = [_stack_frames(profile, sample) for sample in profile.samples]
    if not frames:
        whole = _of_samples(profile, profile.samples)
        leaves = [stack[0] if stack else (SampledAddress(""), _NO_FRAME) for stack in stacks]
        depth = {"depth": _numbers([len(stack) for stack in stacks])}
        return DataColumns(whole | _of_frames(profile, leaves) | depth)
    rows = [(number, level) for number, stack in enumerate(stacks) for level in range(len(stack))]
    own = {"sample": _numbers([number for number, _ in rows]), "level": _numbers([level for _, level in rows])}
    whole = _of_samples(profile, [profile.samples[number] for number, _ in rows])
    return DataColumns(own | whole | _of_frames(profile, [each for stack in stacks for each in stack]))


def _stack_frames(profile: SampledProfile, sample: Sample) -> list[tuple[SampledAddress, Frame]]:
    """The frames of a stack, innermost first, each with the address that it is of."""
    entries = [profile.addresses[number] for number in sample.stack]
    return [(entry, frame) for entry in entries for frame in entry.frames or (_NO_FRAME,)]


def _of_samples(profile: SampledProfile, samples: Sequence[Sample]) -> dict[str, DataColumn]:
    """Values, times and tasks."""
    names = _value_names(profile)
    values = {name: _values([sample.values[at] for sample in samples]) for at, name in enumerate(names)}
    tasks = [profile.tasks[sample.task] for sample in samples]
    times = [sample.time for sample in samples]
    return {
        **values,
        "time": _optional(times),
        "process": DataColumn(np.array([task.process for task in tasks], np.int64)),
        "thread": DataColumn(np.array([task.thread for task in tasks], np.int64)),
    }


def _value_names(profile: SampledProfile) -> list[str]:
    """The name of each type of values; with its unit where several have the name, or a column of another kind has."""
    taken = {
        "sample",
        "level",
        "time",
        "process",
        "thread",
        "module",
        "address",
        "label",
        "function",
        "linkage_name",
        "file",
    }
    taken |= {"line", "column", "inlined", "depth"}
    several = {name for name, same in groupby(sorted(kind.name for kind in profile.value_types)) if len([*same]) > 1}
    return [f"{each.name} ({each.unit})" if each.name in several | taken else each.name for each in profile.value_types]


def _of_frames(profile: SampledProfile, rows: Sequence[tuple[SampledAddress, Frame]]) -> dict[str, DataColumn]:
    modules = [None if entry.module is None else profile.modules[entry.module].name for entry, _ in rows]
    known = np.array([frame is not _NO_FRAME for _, frame in rows], np.bool_)
    lines = np.array([frame.line for _, frame in rows], np.uint32)
    columns = np.array([frame.column for _, frame in rows], np.uint32)
    return {
        "module": _texts(modules),
        "address": _optional([entry.address for entry, _ in rows]),
        "label": _texts([entry.label or None for entry, _ in rows]),
        "function": _texts([frame.function for _, frame in rows]),
        "linkage_name": _texts([frame.linkage_name for _, frame in rows]),
        "file": _texts([frame.file for _, frame in rows]),
        "line": DataColumn(lines, missing=~known),
        "column": DataColumn(columns, missing=~known),
        "inlined": DataColumn(np.array([frame.inlined for _, frame in rows], np.bool_)),
    }


def _numbers(values: Sequence[int]) -> DataColumn:
    return DataColumn(np.array(values, np.uint32))


def _optional(values: Sequence[int | None]) -> DataColumn:
    missing: NDArray[np.bool_] = np.array([value is None for value in values], np.bool_)
    return DataColumn(np.array([value or 0 for value in values], np.uint64), missing=missing)


def _values(values: Sequence[Value]) -> DataColumn:
    return DataColumn(np.array(values, np.int64 if all(isinstance(value, int) for value in values) else np.float64))


def _texts(values: Sequence[str | None]) -> DataColumn:
    known: dict[str, int] = {}
    numbers = np.array([known.setdefault(value or "", len(known)) for value in values], np.uint32)
    return DataColumn(numbers, list(known) or [""], np.array([value is None for value in values], np.bool_))

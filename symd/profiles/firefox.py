"""The Firefox Profiler's processed profile format: tables of frames, functions and stacks, and a thread for each value
type and task.

Source: firefox-devtools/profiler, docs-developer/CHANGELOG-formats.md and src/types/profile.ts; written is version 60,
which every later front end upgrades as it loads it. ``shared`` has ``stringArray``, ``stackTable`` {frame, prefix},
``frameTable`` {address, inlineDepth, category, subcategory, func, nativeSymbol, innerWindowID, line, column},
``funcTable`` {name, isJS, relevantForJS, resource, source, lineNumber, columnNumber}, ``resourceTable`` {lib, name,
host, type}, ``nativeSymbols`` {libIndex, address, name, functionSize} and ``sources`` {uuid, filename}. Inlined frames
are frames of one address, inlineDepth 0 outermost. Times are milliseconds after ``meta.startTime``. A library is named
by ``breakpadId``, the debug ID of its build ID, or of its SHA-256 if it has none (``symd.formats.debug_ids``);
addresses count from where its first segment lies at 0, and -1 is none. Where ``meta.symbolicated`` is false the page
asks its symbol server for the names; for a source text it asks by an address of any frame that has the file.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

import numpy as np

from symd.errors import BadQuery
from symd.formats.debug_ids import build_id_of, debug_id
from symd.model.answers import Frame, Reason
from symd.model.names import Match, NameKind, NameQuery
from symd.profiles.placed import AddressPlaces, InstructionPlace
from symd.profiles.profile_format import (
    NANOSECONDS,
    Exported,
    Options,
    ProfileBudget,
    columns_with_values,
    series_name,
)
from symd.profiles.resolver import Resolver
from symd.profiles.samples import (
    ADDRESSES,
    Sample,
    SampledModule,
    SampledProfile,
    SampleExtent,
    Value,
    shown_frames,
    shown_name,
)

NAME = "firefox"
VERSION, GECKO_VERSION = 60, 31
LIBRARY = 1
"""ResourceType.Library."""
CATEGORIES = (
    {"name": "Other", "color": "grey", "subcategories": ["Other"]},
    {"name": "Code", "color": "orange", "subcategories": ["Other"]},
)
CODE = 1
MILLISECOND = 10**6
WRITTEN_A_ROW = 64
"""Letters that a row of a table takes, about."""


def export(profile: SampledProfile, spending: ProfileBudget) -> Exported:
    """Every value type that is not all 0, the one that is shown first in front. Samples without a time stand a
    millisecond apart, in the order of the profile."""
    tables = _Tables(profile, spending)
    times = [sample.time for sample in profile.samples if sample.time is not None]
    timed = bool(times) and len(times) == len(profile.samples)
    base = min(times) if timed else 0
    several = len(profile.tasks) > 1
    threads = []
    for column in sorted(columns_with_values(profile), key=lambda each: each != profile.default):
        for task in range(len(profile.tasks)):
            mine = [
                (sample, (sample.time - base) / MILLISECOND if timed and sample.time is not None else float(at))
                for at, sample in enumerate(profile.samples)
                if sample.task == task and sample.values[column]
            ]
            if mine:
                title = series_name(profile.value_types[column], profile.tasks[task], several=several)
                threads.append(_thread(profile, tables, (column, task, title), sorted(mine, key=lambda one: one[1])))
                spending.written(WRITTEN_A_ROW * len(mine))
    document = {
        "meta": _meta(profile, base if timed else 0, symbolicated=not tables.askable),
        "libs": [_library(module) for module in profile.modules],
        "shared": tables.shared(),
        "threads": threads or [_thread(profile, tables, (0, 0, profile.value_types[profile.default].name), [])],
    }
    notes = () if timed else ("the profile has no times: samples are 1 ms apart, in its order",)
    return Exported(json.dumps(document, ensure_ascii=True).encode(), notes)


class _Tables:
    """The tables that all threads share, with a row a list of cells."""

    def __init__(self, profile: SampledProfile, spending: ProfileBudget) -> None:
        self._profile = profile
        self._spending = spending
        names = ("string", "source", "resource", "func", "frame", "stack", "symbol")
        self._rows: dict[str, dict[tuple[Any, ...], int]] = {name: {} for name in names}
        self._known: dict[tuple[int, ...], int | None] = {}
        self._frames_of: dict[int, list[int]] = {}
        self.askable = False
        """Whether there is an address without frames that a symbol server may know."""

    def stack(self, stack: tuple[int, ...]) -> int | None:
        """The number of the stack's innermost node; None for an empty one."""
        if stack not in self._known:
            node: int | None = None
            for frame in (frame for number in reversed(stack) for frame in self._address(number)):
                node = self._row("stack", (frame, node))
            self._known[stack] = node
        return self._known[stack]

    def _address(self, number: int) -> list[int]:
        """The numbers of the frames of an address, outermost first."""
        if number not in self._frames_of:
            frames = reversed(shown_frames(self._profile.addresses[number]))
            self._frames_of[number] = [self._frame(number, depth, frame) for depth, frame in enumerate(frames)]
        return self._frames_of[number]

    def _row(self, table: str, row: tuple[Any, ...]) -> int:
        """The number of a row, which a table has once."""
        rows = self._rows[table]
        if row not in rows:
            rows[row] = len(rows)
            self._spending.written(WRITTEN_A_ROW)
        return rows[row]

    def _string(self, text: str) -> int:
        self._spending.written(len(text))
        return self._row("string", (text,))

    def _frame(self, number: int, depth: int, frame: Frame) -> int:
        address = self._profile.addresses[number]
        library, place = address.module, -1
        if library is not None and address.address is not None:
            place = _address_in(self._profile.modules[library], address.address)
            self.askable |= place >= 0 and not address.frames and bool(_debug_id(self._profile.modules[library]))
        source = self._row("source", (self._string(frame.file),)) if frame.file else None
        resource = -1
        if library is not None:
            name = self._string(_file_name(self._profile.modules[library]))
            resource = self._row("resource", (library, name))
        function = self._row("func", (self._string(shown_name(frame)), resource, source, frame.start_line or None))
        symbol = self._symbol(library, place) if library is not None and place >= 0 else None
        row = (place, depth, function, frame.line or None, frame.column or None, symbol)
        return self._row("frame", row)

    def _symbol(self, library: int, place: int) -> int | None:
        """The number of the function that the address lies in; None where that is not known."""
        functions = self._profile.modules[library].functions
        at = bisect_right(functions, place, key=attrgetter("begin")) - 1
        if at < 0 or place >= functions[at].begin + functions[at].size:
            return None
        begin, size, name = functions[at]
        return self._row("symbol", (library, begin, self._string(name), size))

    def shared(self) -> dict[str, Any]:
        frames = "address", "inlineDepth", "func", "line", "column", "nativeSymbol"
        functions = "name", "resource", "source", "lineNumber"
        return {
            "stringArray": [text for (text,) in self._rows["string"]],
            "sources": self._table("source", ("filename",), uuid=None),
            "stackTable": self._table("stack", ("frame", "prefix")),
            "frameTable": self._table("frame", frames, category=CODE, subcategory=0, innerWindowID=0),
            "funcTable": self._table("func", functions, isJS=False, relevantForJS=False, columnNumber=None),
            "resourceTable": self._table("resource", ("lib", "name"), host=None, type=LIBRARY),
            "nativeSymbols": self._table("symbol", ("libIndex", "address", "name", "functionSize")),
        }

    def _table(self, name: str, columns: Sequence[str], **same: object) -> dict[str, Any]:
        """A table column by column; in those of ``same`` all rows have that value."""
        rows = list(self._rows[name])
        cells = {column: [row[at] for row in rows] for at, column in enumerate(columns)}
        return {"length": len(rows), **cells, **{column: [value] * len(rows) for column, value in same.items()}}


def _thread(
    profile: SampledProfile, tables: _Tables, series: tuple[int, int, str], samples: list[tuple[Sample, float]]
) -> dict[str, Any]:
    column, number, title = series
    task, kind = profile.tasks[number], profile.value_types[column]
    unit = NANOSECONDS.get(kind.unit.lower())
    weight_type = "tracing-ms" if unit else "bytes" if kind.unit.lower() == "bytes" else "samples"
    stacks = [tables.stack(sample.stack) for sample, _ in samples]
    return {
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": title,
        "isMainThread": False,
        "pid": str(task.process),
        "tid": task.thread,
        "processName": task.name or "Samples",
        "samples": {
            "length": len(samples),
            "stack": stacks,
            "time": [time for _, time in samples],
            "weight": [_weight(sample.values[column], unit) for sample, _ in samples],
            "weightType": weight_type,
        },
        "markers": {
            name: [] for name in ("data", "name", "startTime", "endTime", "phase", "category")
        } | {"length": 0},
    }  # fmt: skip


def _weight(value: Value, unit: int | None) -> Value:
    """Times in milliseconds, everything else as it is."""
    return value * unit / MILLISECOND if unit else value


def _meta(profile: SampledProfile, base: int, *, symbolicated: bool) -> dict[str, Any]:
    """``base`` is the time of the first sample; the calendar's where the profile says when it began."""
    start = 0 if profile.start is None else max(base, profile.start) / MILLISECOND
    return {
        "interval": 1,
        "startTime": start,
        "processType": 0,
        "product": "symd",
        "importedFrom": "symd",
        "stackwalk": 1,
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": VERSION,
        "symbolicated": symbolicated,
        "categories": list(CATEGORIES),
        "markerSchema": [],
        "usesOnlyOneStackType": True,
        "sourceCodeIsNotOnSearchfox": True,
        "keepProfileThreadOrder": True,
    }


def _file_name(module: SampledModule) -> str:
    return module.name.rpartition("/")[2] or module.build_id or "(unnamed module)"


def _address_in(module: SampledModule, address: int) -> int:
    """The address counted from the start of the library; -1 where the file alone could tell: only a later part of it is
    mapped, or none."""
    return address - module.start if not module.offset and module.start <= address < module.limit else -1


def _debug_id(module: SampledModule) -> str:
    """ "" where the profile names no build ID."""
    try:
        return debug_id(module.build_id) if module.build_id else ""
    except BadQuery:
        return ""


def _library(module: SampledModule) -> dict[str, Any]:
    name = _file_name(module)
    return {
        "arch": "",
        "name": name,
        "path": module.name,
        "debugName": name,
        "debugPath": module.name,
        "breakpadId": _debug_id(module),
        "codeId": module.build_id or None,
    }


FUNCTIONS: Final = 1 << 16
"""Functions of a code object that are told."""
NOTHING: Final = SampleExtent(0, 0, "")
CodeObject = tuple[str, str]
"""Digest of the module, path of the code object in it."""


def by_code_id(profile: SampledProfile, resolver: Resolver, options: Options) -> SampledProfile:
    """The profile with code objects in place of modules, as far as they are known here: each address becomes an object
    address in its code object, which stands as a module that fills all addresses. Where an object address does not name
    the place, there is the code object alone, so that a function has one wherever its samples are. Other addresses stay
    as they are. Modules without addresses are left out. Raises what the symbolizer raises."""
    everywhere = AddressPlaces(profile, resolver, options).places
    places = {number: place for number, place in everywhere.items() if not isinstance(place, Reason)}
    named = _that_addresses_name(places, resolver)
    modules = _Modules(profile.modules, resolver)
    addresses = []
    for number, address in enumerate(profile.addresses):
        place = places.get(number)
        if place is not None:
            told = place.address if number in named else None
            addresses.append(address._replace(address=told, module=modules.of_code(place, address.module)))
        elif address.module is not None:
            addresses.append(address._replace(module=modules.of_profile(address.module)))
        else:
            addresses.append(address)
    return replace(profile, addresses=addresses, modules=modules.used)


class _Modules:
    """``used`` are those of the profile that are left, and code objects, each with the number that it gets when it is
    used first."""

    def __init__(self, modules: Sequence[SampledModule], resolver: Resolver) -> None:
        self.used: list[SampledModule] = []
        self._modules, self._resolver = modules, resolver
        self._numbers: dict[int | CodeObject, int] = {}

    def of_profile(self, number: int) -> int:
        if number not in self._numbers:
            self._numbers[number] = len(self.used)
            self.used.append(self._modules[number])
        return self._numbers[number]

    def of_code(self, place: InstructionPlace, number: int | None) -> int:
        """``number`` is the profile's module that the place was found by; its name is kept."""
        code = place.digest, place.path
        if code not in self._numbers:
            self._numbers[code] = len(self.used)
            told = self._modules[number].name if number is not None else ""
            name = told or self._resolver.file_name(place.digest)
            functions = _functions(self._resolver, *code)
            self.used.append(SampledModule(name, _identity(self._resolver, *code), 0, ADDRESSES, 0, functions))
        return self._numbers[code]


def _that_addresses_name(places: Mapping[int, InstructionPlace], resolver: Resolver) -> set[int]:
    """The numbers of the places that are found again by their object address: not those in unlinked code, where several
    sections begin at 0."""
    of_objects: dict[CodeObject, list[tuple[int, InstructionPlace]]] = {}
    for number, place in places.items():
        of_objects.setdefault((place.digest, place.path), []).append((number, place))
    found = set()
    for (digest, path), entries in of_objects.items():
        column = np.array([place.address for _, place in entries], np.uint64)
        answers = resolver.symbolizer.symbolize_column(digest, column, path=path)
        for (number, place), section, offset in zip(
            entries, answers.text_section.tolist(), answers.offset.tolist(), strict=True
        ):
            index = answers.text_sections[section - 1].section_index if section else None
            if (index, offset) == (place.section_index, place.offset):
                found.add(number)
    return found


def _identity(resolver: Resolver, digest: str, path: str) -> str:
    [code] = [item for item in resolver.summary(digest).objects if item.path == path]
    return build_id_of(code) or code.sha256


def _functions(resolver: Resolver, digest: str, path: str) -> tuple[SampleExtent, ...]:
    """Kernels and functions with code of their own; of several at one address the longest."""
    wanted = NameQuery("*", Match.GLOB, frozenset({NameKind.KERNEL, NameKind.FUNCTION}))
    found: dict[int, SampleExtent] = {}
    for item in resolver.symbolizer.names(digest, wanted, path)[:FUNCTIONS]:
        if item.address is not None and item.size and item.size > found.get(item.address, NOTHING).size:
            found[item.address] = SampleExtent(item.address, item.size, item.name)
    return tuple(sorted(found.values()))

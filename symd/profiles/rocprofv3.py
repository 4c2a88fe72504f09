"""rocprofv3's PC sampling JSON: samples gain an index into a table of frames, and empty source comments are filled.
Each sample is one wave at one instruction, at a time; a stochastic one has as labels the kind of instruction and the
reason why nothing was issued.

Source: ROCprofiler-SDK documentation, "Using PC sampling" and rocprofv3-schema.json (ROCm 6.4 to 7): below
``rocprofiler-sdk-tool`` (one object a process) ``code_objects`` have ``code_object_id``, ``uri``, ``load_base`` and
``load_delta``; ``buffer_records`` have ``pc_sample_host_trap`` and ``pc_sample_stochastic``, whose samples have
``record.pc.code_object_id``, ``record.pc.code_object_offset`` and ``inst_index``; ``strings.pc_sample_comments`` has a
source line for each ``inst_index``. rocprofiler_pc_t: the offset counts from ``load_base``; in the ELF's own addresses
it is ``load_base`` + offset - ``load_delta``. Object id 0 stands for code of no object.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from symd.errors import Malformed, SymdError
from symd.formats.containers.file_part import parse_uri
from symd.model.answers import Reason
from symd.model.json.answers import frames_text
from symd.profiles import json_text
from symd.profiles.addresses import AddressBatch, ResolvedAddress
from symd.profiles.json_text import Edit, JsonCursor, Span
from symd.profiles.profile_format import Options, ProfileBudget, Symbolized, Tally
from symd.profiles.resolver import IdentifiedModule, LookupTarget, Resolver
from symd.profiles.samples import (
    ADDRESSES,
    PROCESSES,
    TIMES,
    AddressTable,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    Task,
    ValueType,
    frames_of_json,
    place_in_file,
    within,
)

NAME = "rocprofv3-json"
ROOT = "rocprofiler-sdk-tool"
SAMPLES = ("pc_sample_host_trap", "pc_sample_stochastic")
TABLE = "symd_frames"
"""Added to ``strings``: a list of stacks, each a list of frames, innermost first."""
INDEX = "symd_frames_index"
"""Added to a sample: the index of its frames in the list ``symd_frames``."""
PROGRESS_SAMPLES = 1 << 14
"""Progress is told once in so many samples."""

_HEAD = re.compile(rb'\s*\{\s*"' + ROOT.encode() + rb'"')


def claims(data: bytes) -> bool:
    return bool(_HEAD.match(data[:4096]))


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add frames to the samples whose code object is known: by its id (``PID/ID`` or ``ID``) or its URI as the user
    named it, or through the URI where reading it is allowed. What a ``memory://`` URI named is gone with the process:
    the report says so, and the samples stay."""
    text = json_text.decode(data)
    spending = ProfileBudget(options, len(data))
    spending.read_json(text, 0, len(text))
    tally = Tally()
    notes: list[str] = []
    edits: list[Edit] = []
    for process in _processes(JsonCursor(text), options):
        tally.already += process.already
        objects = _CodeObjectTargets(process, resolver)
        added = _edits(process, objects, resolver, options, tally)
        spending.written(sum(len(new) for _, new in added))
        edits += added
        notes += objects.notes
    report = tally.report(NAME, "samples", tuple(notes))
    return Symbolized(json_text.encode(json_text.with_edits(text, edits)) if edits else data, report)


class RocprofSample(NamedTuple):
    """A sample without frames. ``owner`` and ``offset`` are its pc, None where that cannot be read."""

    span: Span
    inst_index: Any
    owner: int | None
    offset: int


@dataclass(slots=True)
class StringsMember:
    """What is in ``strings``: its span in the text (None: there is none), the comments, and the table of an earlier
    run."""

    span: Span | None = None
    empty: bool = True
    comments: list[tuple[Any, Span]] = field(default_factory=list)
    table: Span | None = None
    table_length: int = 0


@dataclass(slots=True)
class RocprofProcess:
    """One process's part of the file."""

    pid: Any = None
    objects: dict[Any, dict[str, Any]] = field(default_factory=dict)
    strings: StringsMember = field(default_factory=StringsMember)
    samples: list[RocprofSample] = field(default_factory=list)
    already: int = 0


def _processes(cursor: JsonCursor, options: Options) -> list[RocprofProcess]:
    """Every process; older versions write one object instead of a list."""
    found = []
    for key in cursor.members():
        if key != ROOT:
            continue
        if cursor.peek() == "{":
            found.append(_process(cursor, options))
        elif cursor.peek() == "[":
            found += [_process(cursor, options) for _ in cursor.elements() if cursor.peek() == "{"]
    return found


def _process(cursor: JsonCursor, options: Options) -> RocprofProcess:
    process = RocprofProcess()
    for key in cursor.members():
        if key == "metadata":
            metadata = cursor.value()
            process.pid = metadata.get("pid") if isinstance(metadata, dict) else None
        elif key == "code_objects":
            items = cursor.value()
            objects = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
            process.objects = {_hashable(item.get("code_object_id")): item for item in objects}
        elif key == "strings" and cursor.peek() == "{":
            process.strings = _strings(cursor)
        elif key == "buffer_records" and cursor.peek() == "{":
            for kind in cursor.members():
                if kind in SAMPLES and cursor.peek() == "[":
                    _read_samples(cursor, process, options)
    return process


def _hashable(number: Any) -> int | None:
    return number if type(number) is int else None


def _strings(cursor: JsonCursor) -> StringsMember:
    found = StringsMember()
    begin = cursor.at
    for key in cursor.members():
        found.empty = False
        start = cursor.at
        if key == "pc_sample_comments" and cursor.peek() == "[":
            found.comments = [(cursor.value(), Span(at, cursor.at)) for at in cursor.elements()]
        elif key == TABLE:
            table = cursor.value()
            if not isinstance(table, list):
                raise Malformed(f"{TABLE!r} is not a list", where=json_text.WHERE)
            found.table, found.table_length = Span(start, cursor.at), len(table)
    found.span = Span(begin, cursor.at)
    return found


def _read_samples(cursor: JsonCursor, process: RocprofProcess, options: Options) -> None:
    for number, begin in enumerate(cursor.elements()):
        if number % PROGRESS_SAMPLES == 0:
            options.progress("reading samples", begin, len(cursor.text))
        sample = cursor.value()
        if isinstance(sample, dict) and INDEX in sample:
            process.already += 1
            continue
        span = Span(begin, cursor.at)
        try:
            pc = sample["record"]["pc"]
            owner, offset = _hashable(pc["code_object_id"]), _hashable(pc["code_object_offset"])
            process.samples.append(
                RocprofSample(span, sample.get("inst_index"), None if offset is None else owner, offset or 0)
            )
        except (TypeError, KeyError, IndexError):
            process.samples.append(RocprofSample(span, None, None, 0))


class _CodeObjectTargets:
    """Finds the target of a code object id of one process, each id once."""

    def __init__(self, process: RocprofProcess, resolver: Resolver) -> None:
        self.batch = AddressBatch()
        self.notes: list[str] = []
        self._process = process
        self._resolver = resolver
        self._targets: dict[int, tuple[LookupTarget | Reason, int]] = {}

    def handle(self, sample: RocprofSample) -> int:
        """The handle of a sample's address; MALFORMED where the sample has none, or nothing can be added to its
        process."""
        owner = sample.owner
        if owner is None or not self._process.strings.span:
            return self.batch.add(Reason.MALFORMED)
        if owner not in self._targets:
            self._targets[owner] = self._target(owner)
        target, bias = self._targets[owner]
        return self.batch.add(target, bias + sample.offset)

    def _target(self, owner: int) -> tuple[LookupTarget | Reason, int]:
        """(target, what to add to offsets) of a code object."""
        item = self._process.objects.get(owner, {})
        base, delta, uri = _hashable(item.get("load_base")), _hashable(item.get("load_delta")), item.get("uri")
        uri = uri if isinstance(uri, str) else ""
        found = self._resolver.module_of(f"{self._process.pid}/{owner}", str(owner), *filter(None, [uri]))
        if found is Reason.UNKNOWN_MODULE:
            found = self._at_uri(owner, uri) or found
        if isinstance(found, Reason):
            return found, 0
        if base is None or delta is None:
            self.notes.append(f"code object {owner} has no load_base and load_delta: its samples cannot be placed")
            return Reason.MALFORMED, 0
        return LookupTarget(found.digest, path=found.path), base - delta

    def _at_uri(self, owner: int, uri: str) -> IdentifiedModule | None:
        try:
            if uri:
                parse_uri(uri)
            found = self._resolver.at_uri(uri) if uri else None
        except SymdError as error:
            self.notes.append(f"code object {owner}: {error}")
            return None
        if found is None and owner:
            name = f"code object {owner} ({uri})" if uri else f"code object {owner}"
            self.notes.append(f"no module was given for {name}")
        return found


def _edits(
    process: RocprofProcess, objects: _CodeObjectTargets, resolver: Resolver, options: Options, tally: Tally
) -> list[Edit]:
    """What to change in the text of one process, in no order."""
    handles = [objects.handle(sample) for sample in process.samples]
    answers = objects.batch.ask(resolver, options.progress)
    written = [frames_text(answer.frames) if answer.frames else "" for answer in answers]
    table: dict[str, int] = {}
    comments: dict[int, Edit] = {}
    edits: list[Edit] = []
    for sample, handle in zip(process.samples, handles, strict=True):
        tally.count(answers[handle].reason, resolved=bool(written[handle]))
        if written[handle]:
            number = table.setdefault(written[handle], process.strings.table_length + len(table))
            edits.append(json_text.appended(sample.span, INDEX, str(number), empty=False))
            _comment(sample.inst_index, answers[handle], process.strings, comments)
    return [*edits, *comments.values(), *_table(process.strings, table)]


def _comment(inst: Any, answer: ResolvedAddress, strings: StringsMember, edits: dict[int, Edit]) -> None:
    """Fill an empty comment with the innermost line, in rocprofv3's own spelling ``file:line``."""
    frame = answer.frames[0]
    if type(inst) is not int or not 0 <= inst < len(strings.comments) or not (frame.file and frame.line):
        return
    old, span = strings.comments[inst]
    if old == "":
        edits[inst] = (span, json.dumps(f"{frame.file}:{frame.line}"))


def _table(strings: StringsMember, new: dict[str, int]) -> list[Edit]:
    """The table of frames, added or prolonged."""
    if not new or not strings.span:
        return []
    content = ", ".join(new)
    if not strings.table:
        return [json_text.appended(strings.span, TABLE, f"[{content}]", empty=strings.empty)]
    at = strings.table.end - 1
    return [(Span(at, at), f"{', ' if strings.table_length else ''}{content}")]


_PREFIX = re.compile("^ROCPROFILER_PC_SAMPLING_INSTRUCTION_(NOT_ISSUED_REASON|TYPE)_")


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of every process. Raises Malformed."""
    text = json_text.decode(data)
    spending.read_json(text, 0, len(text))
    cursor = JsonCursor(text)
    found = SampledProfile((ValueType("samples", "count"),), tasks=[])
    addresses = AddressTable(found.addresses)
    for key in cursor.members():
        if key == ROOT:
            whole = cursor.value()
            for process in whole if isinstance(whole, list) else [whole]:
                if isinstance(process, dict):
                    _read_process(process, found, addresses)
    found.tasks = found.tasks or [Task()]
    if found.samples:
        found.notes.append("times are those of rocprofv3's clock, not of the calendar")
    return found


def _read_process(process: dict[str, Any], found: SampledProfile, addresses: AddressTable) -> None:
    pid = _member(process, "metadata").get("pid")
    found.tasks.append(Task(within(pid, PROCESSES) or 0))
    modules: dict[Any, int] = {}
    for item in _list(process.get("code_objects")):
        number, uri = item.get("code_object_id"), item.get("uri")
        base, size = item.get("load_base"), item.get("load_size")
        base, end = within(base, ADDRESSES), within(base + size if type(base) is type(size) is int else None, ADDRESSES)
        if type(number) is int and base is not None and end is not None:
            modules[number] = len(found.modules)
            found.modules.append(
                SampledModule(uri if isinstance(uri, str) else "", "", base, end, identity=str(number))
            )
    table = _member(process, "strings").get(TABLE)
    stacks = [frames_of_json(frames) for frames in table] if isinstance(table, list) else []
    records = _member(process, "buffer_records")
    for kind in SAMPLES:
        for item in _list(records.get(kind)):
            _sample(item, modules, stacks, found, addresses)


def _sample(
    item: dict[str, Any], modules: dict[Any, int], stacks: list[Any], found: SampledProfile, addresses: AddressTable
) -> None:
    record = _member(item, "record")
    pc = _member(record, "pc")
    owner, offset, time = pc.get("code_object_id"), pc.get("code_object_offset"), record.get("timestamp")
    if type(owner) is not int or type(offset) is not int:
        return
    module = modules.get(owner)
    name = found.modules[module].name if module is not None else ""
    index = item.get(INDEX)
    frames = stacks[index] if type(index) is int and 0 <= index < len(stacks) else ()
    start = found.modules[module].start if module is not None else 0
    label = place_in_file(name or (f"code object {owner}" if owner else ""), offset)
    number = addresses.number(SampledAddress(label, frames, start + offset, module))
    at = within(time, TIMES)
    found.samples.append(Sample((number,), (1,), at, len(found.tasks) - 1, tuple(_labels(record))))


def _labels(record: dict[str, Any]) -> list[tuple[str, str | int]]:
    named = {
        "stall_reason": _member(record, "snapshot").get("stall_reason"),
        "instruction_type": record.get("inst_type"),
        "dispatch_id": record.get("dispatch_id"),
    }
    labels: list[tuple[str, str | int]] = []
    for key, value in named.items():
        if isinstance(value, str):
            labels.append((key, _PREFIX.sub("", value)))
        elif isinstance(value, int) and within(value, TIMES) is not None:
            labels.append((key, value))
    return labels


def _member(item: dict[str, Any], key: str) -> dict[str, Any]:
    found = item.get(key)
    return found if isinstance(found, dict) else {}


def _list(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []

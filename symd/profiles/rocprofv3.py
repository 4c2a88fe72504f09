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

import re
from typing import Any

from symd.errors import Malformed, SymdError
from symd.formats.containers.uri import parse_uri
from symd.model.answers import Frame, Reason
from symd.model.json.answers import frame_json, frames_text
from symd.profiles import json_text
from symd.profiles.addresses import AddressBatch, PlacedMapping
from symd.profiles.profile_format import Options, ProfileBudget, Symbolized, Tally
from symd.profiles.resolver import IdentifiedModule, LookupTarget, Resolver, module_file_name
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
    spending = ProfileBudget(options, len(data))
    document = _document(data, spending)
    tally = Tally()
    notes: list[str] = []
    for process in _processes(document):
        notes += _symbolize_process(_Process(process), resolver, options, tally, spending)
    report = tally.report(NAME, "samples", tuple(notes))
    return Symbolized(json_text.written(document) if tally.resolved else data, report)


def _document(data: bytes, spending: ProfileBudget) -> Any:
    text = json_text.decode(data)
    spending.read_json(text, 0, len(text))
    return json_text.only_value(text)


def _processes(document: Any) -> list[dict[str, Any]]:
    """Every process; older versions write one object instead of a list."""
    whole = document.get(ROOT) if isinstance(document, dict) else None
    return json_text.objects(whole if isinstance(whole, list) else [whole])


class _Process:
    """One process's part of the file. ``strings`` is None where nothing can be added."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self.pid = json_text.member(whole, "metadata").get("pid")
        items = json_text.objects(whole.get("code_objects"))
        self.objects = {_integer(item.get("code_object_id")): item for item in items}
        strings = whole.get("strings")
        self.strings: dict[str, Any] | None = strings if isinstance(strings, dict) else None
        self.table = [] if self.strings is None else self.strings.get(TABLE, [])
        if not isinstance(self.table, list):
            raise Malformed(f"{TABLE!r} is not a list", where=json_text.WHERE)
        records = json_text.member(whole, "buffer_records")
        lists = (records.get(kind) for kind in SAMPLES)
        self.samples = [sample for samples in lists if isinstance(samples, list) for sample in samples]


def _integer(number: Any) -> int | None:
    return number if type(number) is int else None


def _symbolize_process(
    process: _Process, resolver: Resolver, options: Options, tally: Tally, spending: ProfileBudget
) -> list[str]:
    """Add frames to the samples of one process; notes on what is not known."""
    targets = _CodeObjectTargets(process, resolver)
    pending = []
    for number, sample in enumerate(process.samples):
        if number % PROGRESS_SAMPLES == 0:
            options.progress("reading samples", number, len(process.samples))
        if isinstance(sample, dict) and INDEX in sample:
            tally.already += 1
        else:
            pending.append((sample, targets.handle(sample)))
    answers = targets.batch.ask(resolver, options.progress)
    numbers: dict[tuple[Frame, ...], int] = {}
    for sample, handle in pending:
        answer = answers[handle]
        tally.count(answer.reason, resolved=bool(answer.frames))
        if answer.frames:
            if answer.frames not in numbers:
                numbers[answer.frames] = len(process.table)
                process.table.append([frame_json(frame) for frame in answer.frames])
                spending.written(len(frames_text(answer.frames)))
            sample[INDEX] = numbers[answer.frames]
            spending.written(len(INDEX))
            _fill_comment(sample.get("inst_index"), answer.frames[0], process.strings or {})
    if numbers and process.strings is not None:
        process.strings[TABLE] = process.table
    return targets.notes


def _fill_comment(inst: Any, frame: Frame, strings: dict[str, Any]) -> None:
    """Fill an empty comment with the innermost line, in rocprofv3's own spelling ``file:line``."""
    comments = strings.get("pc_sample_comments")
    if not isinstance(comments, list) or within(inst, len(comments)) is None:
        return
    if comments[inst] == "" and frame.file and frame.line:
        comments[inst] = f"{frame.file}:{frame.line}"


class _CodeObjectTargets:
    """Finds the target of a code object id of one process, each id once."""

    def __init__(self, process: _Process, resolver: Resolver) -> None:
        self.batch = AddressBatch()
        self.notes: list[str] = []
        self._process = process
        self._resolver = resolver
        self._targets: dict[int, PlacedMapping | Reason] = {}

    def handle(self, sample: Any) -> int:
        """The handle of a sample's address; MALFORMED where the sample has none, or nothing can be added to its
        process."""
        pc = json_text.member(json_text.member(sample, "record"), "pc")
        owner, offset = _integer(pc.get("code_object_id")), _integer(pc.get("code_object_offset"))
        if owner is None or offset is None or self._process.strings is None:
            return self.batch.add(Reason.MALFORMED)
        if owner not in self._targets:
            self._targets[owner] = self._target(owner)
        return self.batch.add(self._targets[owner], offset)

    def _target(self, owner: int) -> PlacedMapping | Reason:
        """Where a code object is loaded."""
        item = self._process.objects.get(owner, {})
        base, delta, uri = _integer(item.get("load_base")), _integer(item.get("load_delta")), item.get("uri")
        uri = uri if isinstance(uri, str) else ""
        found = self._resolver.module_of(f"{self._process.pid}/{owner}", str(owner), *filter(None, [uri]))
        if found is Reason.UNKNOWN_MODULE:
            found = self._at_uri(owner, uri) or found
        if isinstance(found, Reason):
            return found
        if base is None or delta is None:
            self.notes.append(f"code object {owner} has no load_base and load_delta: its samples cannot be placed")
            return Reason.MALFORMED
        return PlacedMapping(LookupTarget(found.digest, path=found.path), base - delta)

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


_PREFIX = re.compile("^ROCPROFILER_PC_SAMPLING_INSTRUCTION_(NOT_ISSUED_REASON|TYPE)_")


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of every process. Raises Malformed."""
    found = SampledProfile((ValueType("samples", "count"),), tasks=[])
    addresses = AddressTable(found.addresses)
    for process in _processes(_document(data, spending)):
        _read_process(process, found, addresses)
    found.tasks = found.tasks or [Task()]
    if found.samples:
        found.notes.append("times are those of rocprofv3's clock, not of the calendar")
    return found


def _read_process(process: dict[str, Any], found: SampledProfile, addresses: AddressTable) -> None:
    pid = json_text.member(process, "metadata").get("pid")
    found.tasks.append(Task(within(pid, PROCESSES) or 0))
    modules: dict[Any, int] = {}
    for item in json_text.objects(process.get("code_objects")):
        number, uri = item.get("code_object_id"), item.get("uri")
        base, size = item.get("load_base"), item.get("load_size")
        base, end = within(base, ADDRESSES), within(base + size if type(base) is type(size) is int else None, ADDRESSES)
        if type(number) is int and base is not None and end is not None:
            modules[number] = len(found.modules)
            found.modules.append(
                SampledModule(uri if isinstance(uri, str) else "", "", base, end, identity=str(number))
            )
    table = json_text.member(process, "strings").get(TABLE)
    stacks = [frames_of_json(frames) for frames in table] if isinstance(table, list) else []
    records = json_text.member(process, "buffer_records")
    for kind in SAMPLES:
        for item in json_text.objects(records.get(kind)):
            _sample(item, modules, stacks, found, addresses)


def _sample(
    item: dict[str, Any], modules: dict[Any, int], stacks: list[Any], found: SampledProfile, addresses: AddressTable
) -> None:
    record = json_text.member(item, "record")
    pc = json_text.member(record, "pc")
    owner, offset, time = pc.get("code_object_id"), pc.get("code_object_offset"), record.get("timestamp")
    if type(owner) is not int or type(offset) is not int:
        return
    module = modules.get(owner)
    name = module_file_name(found.modules[module].name) if module is not None else ""
    index = item.get(INDEX)
    frames = stacks[index] if type(index) is int and 0 <= index < len(stacks) else ()
    start = found.modules[module].start if module is not None else 0
    label = place_in_file(name or (f"code object {owner}" if owner else ""), offset)
    number = addresses.number(SampledAddress(label, frames, start + offset, module))
    at = within(time, TIMES)
    found.samples.append(Sample((number,), (1,), at, len(found.tasks) - 1, tuple(_labels(record))))


def _labels(record: dict[str, Any]) -> list[tuple[str, str | int]]:
    named = {
        "stall_reason": json_text.member(record, "snapshot").get("stall_reason"),
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

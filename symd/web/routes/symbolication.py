"""The symbolication API that profilers' pages call: ``/symbolicate/v5`` (Mozilla's Tecken, samply), ``/source/v1`` and ``/asm/v1`` (samply).

Layouts: samply's API.md and Tecken's symbolication.html. A module is named by its debug ID (``symd.debug_ids``); offsets in it are object addresses. Where a
module holds several code objects that an address may mean, it has no symbol: each has a debug ID of its own."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from symd.answers_json import to_json
from symd.debug_ids import NamedObject
from symd.errors import BadQuery, LimitExceeded, SymdError
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.answers import Answer, Frame
from symd.model.code import CodeKind
from symd.model.listings import Listing, ListingPart
from symd.model.names import Match, NameKind, NameQuery
from symd.web.json_members import a_hexadecimal, a_list, a_number, a_text, an_object, parsed
from symd.web.site import Asked, Effort, Reply, Site, WebRoute, json_reply

ORIGINS: Final = ("https://profiler.firefox.com", "http://localhost:4242")
"""Pages that may read the answers: the Firefox Profiler's, and one that is served by its developers' own build."""
BODY_BYTES: Final = 16 << 20
JOBS: Final = 10
"""Jobs of one request, as many as Tecken takes."""
ADDRESSES: Final = 1 << 18
"""Addresses of one request, those of all stacks together."""
MODULES: Final = 1 << 14
"""Modules in the memory map of a job."""
FUNCTIONS: Final = 1 << 16
"""Functions of a module whose extents are looked up."""
LARGEST_CODE: Final = 1 << 20
"""Bytes of code in one answer of ``/asm/v1``."""

Library = tuple[str, str]
"""Debug name and debug ID."""


def _symbolicate(site: Site, asked: Asked) -> Reply:
    request = an_object(parsed(asked.body), "the request")
    jobs = a_list(request["jobs"], "jobs") if "jobs" in request else [request]
    if len(jobs) > JOBS:
        raise LimitExceeded(f"{len(jobs)} jobs, at most {JOBS} are taken")
    read = [_job(an_object(job, "a job")) for job in jobs]
    if sum(len(stack) for job in read for stack in job.stacks) > ADDRESSES:
        raise LimitExceeded(f"more than {ADDRESSES} addresses", hint="ask in several requests")
    if sum(len(job.stacks) for job in read) > ADDRESSES:
        raise LimitExceeded(f"more than {ADDRESSES} stacks", hint="ask in several requests")
    return Reply(_joined(_written(site, read), site.limits.response_bytes))


def _joined(pieces: Iterator[str], most: int) -> bytes:
    """The bytes of an answer's JSON, written as they are made: what they are made of is larger. Raises LimitExceeded."""
    written = bytearray()
    for piece in pieces:
        written += piece.encode("utf-8", "backslashreplace")
        if len(written) > most:
            raise LimitExceeded(
                f"the answer has more than {most} bytes",
                hint="ask in several requests; response_bytes may be raised where the daemon is started",
                metadata={"limit": "response_bytes", "value": str(most)},
            )
    return bytes(written)


def _written(site: Site, jobs: Sequence[_Job]) -> Iterator[str]:
    yield '{"results": ['
    for number, job in enumerate(jobs):
        yield ", " if number else ""
        yield from _result(site, job)
    yield "]}"


class _Job(NamedTuple):
    libraries: list[Library]
    stacks: list[list[tuple[int, int]]]


def _job(job: dict[str, Any]) -> _Job:
    libraries = [_library(each) for each in a_list(job.get("memoryMap"), "memoryMap")]
    if len(libraries) > MODULES:
        raise LimitExceeded(f"{len(libraries)} modules, at most {MODULES} are taken")
    stacks = [
        [_frame(frame, len(libraries)) for frame in a_list(stack, "a stack")]
        for stack in a_list(job.get("stacks"), "stacks")
    ]
    return _Job(libraries, stacks)


def _library(value: Any) -> Library:
    match a_list(value, "an entry of memoryMap"):
        case [name, identity]:
            return a_text(name, "a debug name"), a_text(identity, "a debug ID")
        case _:
            raise BadQuery("an entry of memoryMap has a debug name and a debug ID")


def _frame(value: Any, libraries: int) -> tuple[int, int]:
    match a_list(value, "a frame"):
        case [module, offset]:
            number = a_number(module, "the module of a frame")
            if number >= libraries:
                raise BadQuery(f"a frame names module {number} of {libraries}")
            return number, a_number(offset, "the offset of a frame")
        case _:
            raise BadQuery("a frame has a module and an offset")


def _result(site: Site, job: _Job) -> Iterator[str]:
    offsets: dict[int, dict[int, None]] = {}
    for stack in job.stacks:
        for module, offset in stack:
            offsets.setdefault(module, {})[offset] = None
    known = site.names.of_debug_ids({job.libraries[module][1] for module in offsets})
    symbols: dict[int, _Symbols] = {}
    found: dict[str, bool] = {}
    errors: dict[str, list[dict[str, str]]] = {}
    for module, wanted in offsets.items():
        name, identity = job.libraries[module]
        key = f"{name}/{identity}"
        try:
            one = _one(site, known[identity] if identity in known else site.names.of_debug_id(identity))
            found[key] = one is not None
            if one is not None:
                symbols[module] = _Symbols(site, one, [*wanted])
        except SymdError as error:
            found[key] = False
            errors[key] = [{"name": error.reason, "message": str(error)}]
    yield '{"stacks": ['
    for number, stack in enumerate(job.stacks):
        yield ", [" if number else "["
        for at, (module, offset) in enumerate(stack):
            shown = {"frame": at, "module": job.libraries[module][0], "module_offset": hex(offset)}
            if module in symbols:
                shown |= symbols[module].of(offset)
            yield f"{', ' if at else ''}{to_json(shown)}"
        yield "]"
    yield f'], "found_modules": {to_json(found)}'
    yield f', "module_errors": {to_json(errors)}}}' if errors else "}"


def _one(site: Site, found: Sequence[NamedObject]) -> NamedObject | None:
    """Of several that have one name the first that is shown here."""
    return next((each for each in found if site.shows(each.digest)), None)


class _Symbols:
    """The symbols of a module at some offsets: columns, of which an object is made when it is written. Raises what asking for them raises."""

    def __init__(self, site: Site, module: NamedObject, offsets: Sequence[int]) -> None:
        self._rows = {offset: row for row, offset in enumerate(offsets)}
        self._answers = site.symbolizer.symbolize_column(module.digest, np.array(offsets, np.uint64), path=module.path)
        self._extents = _Extents(site, module)

    def of(self, offset: int) -> dict[str, Any]:
        """What is known of one of the offsets; nothing where no function is."""
        answer = self._answers[self._rows[offset]]
        if not any(frame.function or frame.linkage_name for frame in answer.frames):
            return {}
        return _symbol(answer, self._extents)


def _symbol(answer: Answer, extents: _Extents) -> dict[str, Any]:
    """The function whose code it is, with its own position; ``inlines`` are the calls inside it, innermost first."""
    *inlined, outermost = answer.frames
    begin, size = extents.of(answer)
    symbol = {
        "function": outermost.function or outermost.linkage_name or "(unnamed)",
        "function_offset": hex((answer.section_offset or 0) - begin),
        **({"function_size": hex(size)} if size else {}),
        **_position(outermost),
    }
    if inlined:
        symbol["inlines"] = [_inlined(frame) for frame in inlined]
    return symbol


def _inlined(frame: Frame) -> dict[str, Any]:
    name = frame.function or frame.linkage_name
    return {**({"function": name} if name else {}), **_position(frame)}


def _position(frame: Frame) -> dict[str, Any]:
    return {
        **({"file": frame.file} if frame.file else {}),
        **({"line": frame.line} if frame.file and frame.line else {}),
    }


class _Extents:
    """Where the functions with code of their own begin in their sections, and their sizes."""

    def __init__(self, site: Site, module: NamedObject) -> None:
        wanted = NameQuery("*", Match.GLOB, frozenset({NameKind.KERNEL, NameKind.FUNCTION}))
        self._begins: dict[tuple[str, int], dict[int, int]] = {}
        for item in site.symbolizer.names(module.digest, wanted, module.path)[:FUNCTIONS]:
            if item.section_index is not None and item.section_offset is not None:
                section = self._begins.setdefault((item.path, item.section_index), {})
                section[item.section_offset] = max(item.size, section.get(item.section_offset, 0))
        self._sorted = {section: sorted(begins) for section, begins in self._begins.items()}

    def of(self, answer: Answer) -> tuple[int, int]:
        """(section offset, size) of the function that an answer lies in; where nothing is known of it, that it begins here."""
        section = (answer.path or "", answer.section_index or 0)
        offset = int(answer.section_offset or 0)
        begins = self._sorted.get(section, [])
        at = bisect_right(begins, offset) - 1
        if at < 0:
            return offset, 0
        size = self._begins[section][begins[at]]
        return (begins[at], size) if not size or offset < begins[at] + size else (offset, 0)


def _source(site: Site, asked: Asked) -> Reply:
    request = an_object(parsed(asked.body), "the request")
    identity, file = a_text(request.get("debugId"), "debugId"), a_text(request.get("file"), "file")
    offset = a_hexadecimal(request.get("moduleOffset"), "moduleOffset")
    module = _one(site, site.names.of_debug_id(identity))
    if module is None:
        return json_reply({"error": f"no module has the debug ID {identity[:80]}"})
    answer = site.symbolizer.symbolize_one(module.digest, ByAddress(ObjectAddress(offset)), module.path)
    if file not in {frame.file for frame in answer.frames}:
        return json_reply({"error": f"the code at {offset:#x} does not come from {file[:500]}"})
    (found,) = site.sources(module.digest, [file], module.path)
    if found.text is None:
        return json_reply({"error": f"{file[:500]}: {found.problem}"})
    return json_reply({"symbolsLastModified": None, "sourceLastModified": None, "file": file, "source": found.text})


def _assembly(site: Site, asked: Asked) -> Reply:
    request = an_object(parsed(asked.body), "the request")
    start, size = (a_hexadecimal(request.get(name), name) for name in ("startAddress", "size"))
    if size > LARGEST_CODE:
        raise LimitExceeded(f"{size} bytes of code, at most {LARGEST_CODE} are listed")
    module = _one(site, _named(site, request))
    if module is None:
        return json_reply({"error": "no module has that name"})
    first = site.symbolizer.symbolize_one(module.digest, ByAddress(ObjectAddress(start)), module.path)
    if first.section_index is None or first.path is None:
        return json_reply({"error": f"{start:#x} is in no code of the module"})
    begin, end = int(first.section_offset or 0), int(first.section_offset or 0) + size
    if request.get("continueUntilFunctionEnd") is True:
        function, extent = _Extents(site, module).of(first)
        end = max(end, min(function + extent, begin + LARGEST_CODE))
    part = ListingPart(first.path, first.kernel)
    for listing in site.symbolizer.listing(module.digest, part):
        if listing.problem:
            return json_reply({"error": listing.problem})
        return json_reply(_code(listing, first, begin, end, start))
    return json_reply({"error": "there is nothing to list"})


def _named(site: Site, request: Mapping[str, Any]) -> list[NamedObject]:
    """By ``codeId``, which is a build ID or a digest, else by ``debugId``."""
    if request.get("codeId"):
        return site.of_build_id(a_text(request["codeId"], "codeId"))
    return site.names.of_debug_id(a_text(request.get("debugId"), "debugId"))


def _code(listing: Listing, first: Answer, begin: int, end: int, start: int) -> dict[str, Any]:
    instructions: list[list[Any]] = []
    last = begin
    for answer, size, text in zip(listing.answers, listing.size.tolist(), listing.text, strict=True):
        offset = int(answer.section_offset or 0)
        if answer.section_index == first.section_index and begin <= offset < end:
            instructions.append([offset - begin, text])
            last = max(last, offset + size)
    return {
        "startAddress": hex(start),
        "size": hex(last - begin),
        "arch": listing.target or CodeKind.MACHINE.value,
        "syntax": [listing.disassembler],
        "instructions": instructions,
    }


ROUTES = tuple(
    WebRoute(path, handle, method="POST", effort=Effort.LARGE, body_limit=BODY_BYTES, origins=ORIGINS)
    for path, handle in (("/symbolicate/v5", _symbolicate), ("/source/v1", _source), ("/asm/v1", _assembly))
)

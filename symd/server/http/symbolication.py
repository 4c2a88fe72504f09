"""The symbolication API that profilers' pages call: ``/symbolicate/v5`` (Mozilla's Tecken, samply), ``/source/v1`` and
``/asm/v1`` (samply).

Layouts: samply's API.md and Tecken's symbolication.html. A module is named by its debug ID
(``symd.formats.debug_ids``); offsets in it are object addresses. Where a module holds several code objects that an
address may mean, it has no symbol: each has a debug ID of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from symd.errors import BadQuery, LimitExceeded, SymdError
from symd.formats.debug_ids import NamedObject
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.answers import Answer, Answers, Frame
from symd.model.cancellation import cancelled_by, check_cancelled
from symd.model.code import CodeKind
from symd.model.columns import U64
from symd.model.identities import Digest, ObjectPath
from symd.model.json import to_json
from symd.model.line_tables import Listing, ListingPart
from symd.model.names import Match, NameKind, NameQuery
from symd.server.http.site import CostClass, HttpRequest, Reply, Site, WebRoute, json_reply

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
MAX_CODE: Final = 1 << 20
"""Bytes of code in one answer of ``/asm/v1``."""
VALUES: Final = 1_500_000
"""Values of one request, counted by commas, colons and brackets: reading takes up to 100 bytes for each, and holds up
everybody else meanwhile."""
_HEXADECIMAL: Final = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_SHOWN: Final = 80

Library = tuple[str, str]
"""Debug name and debug ID."""


def _symbolicate(site: Site, asked: HttpRequest) -> Reply:
    request = an_object(parsed(asked.body), "the request")
    jobs = a_list(request["jobs"], "jobs") if "jobs" in request else [request]
    if len(jobs) > JOBS:
        raise _beyond("jobs", JOBS, f"{len(jobs)} jobs, at most {JOBS} are taken")
    read = [_job(an_object(job, "a job")) for job in jobs]
    if sum(len(stack) for job in read for stack in job.stacks) > ADDRESSES:
        raise _beyond("addresses", ADDRESSES, f"more than {ADDRESSES} addresses")
    if sum(len(job.stacks) for job in read) > ADDRESSES:
        raise _beyond("addresses", ADDRESSES, f"more than {ADDRESSES} stacks")
    modules = _ModuleLookup(site, _offsets(read))
    return Reply(_joined(_json_pieces(modules, read), site.limits.response_bytes))


def _joined(pieces: Iterator[str], most: int) -> bytes:
    """The bytes of an answer's JSON, joined as its pieces are made, because the values that they are made of take more
    memory. Raises LimitExceeded."""
    written = bytearray()
    for piece in pieces:
        check_cancelled()
        written += piece.encode("utf-8", "backslashreplace")
        if len(written) > most:
            raise LimitExceeded(
                f"the answer has more than {most} bytes",
                hint="ask in several requests; response_bytes may be raised where the daemon is started",
                metadata={"limit": "response_bytes", "value": str(most)},
            )
    return bytes(written)


def _json_pieces(modules: _ModuleLookup, jobs: Sequence[_Job]) -> Iterator[str]:
    # {"results": [{"stacks": [[{"frame": 0, "module": "NAME", "module_offset": "0x40", and of a known function
    #     "function": "NAME", "function_offset": "0x10", "function_size": "0x80", "file": "PATH", "line": 1,
    #     "inlines": [{"function": "NAME", "file": "PATH", "line": 1}]}]],
    #   "found_modules": {"NAME/DEBUG ID": true}, "module_errors": {"NAME/DEBUG ID": [{"name", "message"}]}}]}
    yield '{"results": ['
    for number, job in enumerate(jobs):
        yield ", " if number else ""
        yield from _result(modules, job)
    yield "]}"


class _Job(NamedTuple):
    libraries: list[Library]
    stacks: list[list[tuple[int, int]]]


def _job(job: dict[str, Any]) -> _Job:
    libraries = [_library(each) for each in a_list(job.get("memoryMap"), "memoryMap")]
    if len(libraries) > MODULES:
        raise _beyond("modules", MODULES, f"{len(libraries)} modules, at most {MODULES} are taken")
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


def _result(modules: _ModuleLookup, job: _Job) -> Iterator[str]:
    found: dict[str, bool] = {}
    errors: dict[str, list[dict[str, str]]] = {}
    for module in dict.fromkeys(module for stack in job.stacks for module, _ in stack):
        name, identity = job.libraries[module]
        key = f"{name}/{identity}"
        error = modules.error(identity)
        found[key] = error is None and modules.has(identity)
        if error is not None:
            errors[key] = [{"name": error.reason, "message": str(error)}]
    yield '{"stacks": ['
    for number, stack in enumerate(job.stacks):
        yield ", [" if number else "["
        for at, (module, offset) in enumerate(stack):
            name, identity = job.libraries[module]
            shown = {"frame": at, "module": name, "module_offset": hex(offset), **modules.symbol(identity, offset)}
            yield f"{', ' if at else ''}{to_json(shown)}"
        yield "]"
    yield f'], "found_modules": {to_json(found)}'
    yield f', "module_errors": {to_json(errors)}}}' if errors else "}"


def _offsets(jobs: Sequence[_Job]) -> dict[str, dict[int, None]]:
    """The offsets that are asked about, by debug ID."""
    found: dict[str, dict[int, None]] = {}
    for job in jobs:
        for stack in job.stacks:
            for module, offset in stack:
                found.setdefault(job.libraries[module][1], {})[offset] = None
    return found


def _first_visible(site: Site, found: Sequence[NamedObject]) -> NamedObject | None:
    """The first of several objects of one name that this site shows; None where it shows none."""
    return next((each for each in found if site.shows(each.digest)), None)


Code = tuple[Digest, ObjectPath | None]
"""A module, or a code object in it."""


class _ModuleLookup:
    """The modules and symbols that a request asks about. Each debug ID is looked up once, and each module once, however
    often it is named."""

    def __init__(self, site: Site, offsets: Mapping[str, Mapping[int, None]]) -> None:
        self._site = site
        self._codes: dict[str, Code] = {}
        self._errors: dict[str, SymdError] = {}
        self._resolve_debug_ids(offsets)
        wanted: dict[Code, dict[int, None]] = {}
        for identity, code in self._codes.items():
            wanted.setdefault(code, {}).update(offsets[identity])
        self._symbols: dict[Code, _Symbols | SymdError] = {}
        for code, asked in wanted.items():
            check_cancelled()
            self._symbols[code] = _try_symbols(site, code, [*asked])

    def has(self, identity: str) -> bool:
        """Whether there is a module of this debug ID."""
        return identity in self._codes

    def error(self, identity: str) -> SymdError | None:
        """Why nothing is known of this debug ID; None where nothing went wrong."""
        symbols = self._symbols.get(self._codes[identity]) if identity in self._codes else None
        return symbols if isinstance(symbols, SymdError) else self._errors.get(identity)

    def symbol(self, identity: str, offset: int) -> dict[str, Any]:
        """What is known of one of the offsets; nothing where no function is."""
        symbols = self._symbols.get(self._codes[identity]) if identity in self._codes else None
        return symbols.symbol_at(offset) if isinstance(symbols, _Symbols) else {}

    def _resolve_debug_ids(self, identities: Iterable[str]) -> None:
        named = self._site.names.of_debug_ids(identities)
        for identity in identities:
            try:
                one = _first_visible(
                    self._site, named[identity] if identity in named else self._site.names.of_debug_id(identity)
                )
            except SymdError as error:
                self._errors[identity] = error
                continue
            if one is not None:
                self._codes[identity] = one.digest, one.path


def _try_symbols(site: Site, code: Code, offsets: Sequence[int]) -> _Symbols | SymdError:
    """The symbols at some offsets, or what asking for them raises."""
    try:
        return _Symbols(site, code, offsets)
    except SymdError as error:
        return error


class _Symbols:
    """The symbols of a module at some offsets: columns, of which an object is made when it is written. Raises what
    asking for them raises."""

    def __init__(self, site: Site, code: Code, offsets: Sequence[int]) -> None:
        digest, path = code
        self._rows = {offset: row for row, offset in enumerate(offsets)}
        self._answers = site.symbolizer.symbolize_column(digest, np.array(offsets, np.uint64), path=path)
        self._begins, self._sizes = _Extents(site, code).of(self._answers)

    def symbol_at(self, offset: int) -> dict[str, Any]:
        """What is known of one of the offsets; nothing where no function is."""
        row = self._rows[offset]
        answer = self._answers[row]
        if not any(frame.function or frame.linkage_name for frame in answer.frames):
            return {}
        return _symbol(answer, int(self._begins[row]), int(self._sizes[row]))


def _symbol(answer: Answer, begin: int, size: int) -> dict[str, Any]:
    """The function whose code it is, with its own position; ``inlines`` are the calls inside it, innermost first."""
    *inlined, outermost = answer.frames
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

    def __init__(self, site: Site, code: Code) -> None:
        digest, path = code
        wanted = NameQuery("*", Match.GLOB, frozenset({NameKind.KERNEL, NameKind.FUNCTION}))
        found: dict[tuple[str, int], dict[int, int]] = {}
        for item in site.symbolizer.names(digest, wanted, path)[:FUNCTIONS]:
            if item.section_index is not None and item.section_offset is not None:
                section = found.setdefault((item.path, item.section_index), {})
                section[item.section_offset] = max(item.size, section.get(item.section_offset, 0))
        self._sections = {section: _columns(functions) for section, functions in found.items()}

    def of(self, answers: Answers) -> tuple[U64, U64]:
        """(section offset, size) of the function that each answer lies in; where nothing is known of it, that it begins
        here."""
        begins = np.where(answers.text_section > 0, answers.offset, np.uint64(0))
        sizes = np.zeros(len(answers), np.uint64)
        for number, text in enumerate(answers.text_sections, 1):
            columns = self._sections.get((text.path, text.section_index))
            if columns is not None:
                rows = np.flatnonzero(answers.text_section == number)
                begins[rows], sizes[rows] = _around(begins[rows], *columns)
        return begins, sizes

    def of_place(self, place: Answer) -> tuple[int, int]:
        """Where the function around one answer begins in its section, and its size."""
        offset = int(place.section_offset or 0)
        columns = self._sections.get((place.path or "", place.section_index or 0))
        if columns is None:
            return offset, 0
        begin, size = _around(np.array([offset], np.uint64), *columns)
        return int(begin[0]), int(size[0])


def _columns(functions: Mapping[int, int]) -> tuple[U64, U64]:
    """Beginnings of functions in their order, and the sizes."""
    begins = sorted(functions)
    return np.array(begins, np.uint64), np.array([functions[begin] for begin in begins], np.uint64)


def _around(offsets: U64, begins: U64, sizes: U64) -> tuple[U64, U64]:
    """(beginning, size) of the function around each offset; the offset itself and 0 where there is none."""
    last = np.searchsorted(begins, offsets, side="right").astype(np.int64) - 1
    begin, size = begins[last], sizes[last]
    inside = (last >= 0) & ((size == 0) | (offsets - begin < size))
    return np.where(inside, begin, offsets), np.where(inside, size, np.uint64(0))


def _source(site: Site, asked: HttpRequest) -> Reply:
    request = an_object(parsed(asked.body), "the request")
    identity, file = a_text(request.get("debugId"), "debugId"), a_text(request.get("file"), "file")
    offset = a_hexadecimal(request.get("moduleOffset"), "moduleOffset")
    module = _first_visible(site, site.names.of_debug_id(identity))
    if module is None:
        return json_reply({"error": f"no module has the debug ID {identity[:80]}"})
    check_cancelled()
    answer = site.symbolizer.symbolize_one(module.digest, ByAddress(ObjectAddress(offset)), module.path)
    if file not in {frame.file for frame in answer.frames}:
        return json_reply({"error": f"the code at {offset:#x} does not come from {file[:500]}"})
    check_cancelled()
    (found,) = site.sources(module.digest, [file], module.path)
    if found.text is None:
        return json_reply({"error": f"{file[:500]}: {found.problem}"})
    return json_reply({"symbolsLastModified": None, "sourceLastModified": None, "file": file, "source": found.text})


def _assembly(site: Site, asked: HttpRequest) -> Reply:
    request = an_object(parsed(asked.body), "the request")
    start, size = (a_hexadecimal(request.get(name), name) for name in ("startAddress", "size"))
    if size > MAX_CODE:
        raise _beyond("code_bytes", MAX_CODE, f"{size} bytes of code, at most {MAX_CODE} are listed")
    module = _first_visible(site, _named(site, request))
    if module is None:
        return json_reply({"error": "no module has that name"})
    check_cancelled()
    first = site.symbolizer.symbolize_one(module.digest, ByAddress(ObjectAddress(start)), module.path)
    if first.section_index is None or first.path is None:
        return json_reply({"error": f"{start:#x} is in no code of the module"})
    check_cancelled()
    begin, end = int(first.section_offset or 0), int(first.section_offset or 0) + size
    if request.get("continueUntilFunctionEnd") is True:
        function, extent = _Extents(site, (module.digest, module.path)).of_place(first)
        end = max(end, min(function + extent, begin + MAX_CODE))
    part = ListingPart(first.path, first.kernel)
    with cancelled_by(asked.check_is_there):
        listing = next(iter(site.symbolizer.listing(module.digest, part)), None)
    if listing is None:
        return json_reply({"error": "there is nothing to list"})
    if listing.problem:
        return json_reply({"error": listing.problem})
    return json_reply(_code(listing, first, begin, end, start))


def _named(site: Site, request: Mapping[str, Any]) -> list[NamedObject]:
    """The objects that a request names by ``codeId`` (a build ID or a digest), else by ``debugId``."""
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


def _beyond(name: str, most: int, message: str) -> LimitExceeded:
    return LimitExceeded(message, hint="ask in several requests", metadata={"limit": name, "value": str(most)})


def parsed(body: bytes) -> Any:
    """The value that a request's body is. Raises BadQuery and LimitExceeded."""
    if sum(map(body.count, (b",", b"[", b":", b"{"))) > VALUES:
        raise _beyond("values", VALUES, f"the request's body has more than {VALUES} values")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadQuery("the request's body is not JSON") from error


def an_object(value: Any, what: str) -> dict[str, Any]:
    """``value`` where it is a JSON object. Raises BadQuery, which calls it ``what``."""
    if not isinstance(value, dict):
        raise BadQuery(f"{what} is not an object")
    return value


def a_list(value: Any, what: str) -> list[Any]:
    """``value`` where it is a JSON array. Raises BadQuery, which calls it ``what``."""
    if not isinstance(value, list):
        raise BadQuery(f"{what} is not a list")
    return value


def a_text(value: Any, what: str) -> str:
    """``value`` where it is a JSON string. Raises BadQuery, which calls it ``what``."""
    if not isinstance(value, str):
        raise BadQuery(f"{what} is not text")
    return value


def a_number(value: Any, what: str) -> int:
    """A number of 64 bits without a sign. Raises BadQuery."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise BadQuery(f"{what} is not a number from 0 to 2^64 - 1")
    return value


def a_hexadecimal(value: Any, what: str) -> int:
    """A number written "0x1f". Raises BadQuery."""
    text = a_text(value, what)
    if not _HEXADECIMAL.fullmatch(text):
        raise BadQuery(f"{what} is not a hexadecimal number such as 0x1f: {text[:_SHOWN]!r}")
    return int(text, 16)


ROUTES = tuple(
    WebRoute(path, handle, method="POST", effort=CostClass.LARGE, body_limit=BODY_BYTES, origins=ORIGINS)
    for path, handle in (("/symbolicate/v5", _symbolicate), ("/source/v1", _source), ("/asm/v1", _assembly))
)

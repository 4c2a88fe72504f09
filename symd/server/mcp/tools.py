"""The questions of an assistant, and answers as short JSON-ready objects: lists are cut, with the number of what was
cut. An address without an exact answer is explained in words, with what to do, by its reason and by the compiler that
made the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from symd import profiles
from symd.api import Symbolizer
from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import BadQuery, LimitExceeded
from symd.model.addresses import parse_query
from symd.model.answers import Answer, Candidate, Frame, Reason
from symd.model.breakpoints import SourceLine, parse_place, parse_source_line
from symd.model.compile_advice import compile_advice
from symd.model.identities import ObjectPath
from symd.model.json.answers import answer_json, located_json, named_item_json, variable_json
from symd.model.line_tables import Listing, ListingPart
from symd.model.names import Match, NameQuery
from symd.model.sources import SourceText
from symd.model.summaries import KernelSummary, ModuleSummary, ObjectSummary
from symd.profiles.hot import HotPlace, hot_lines
from symd.profiles.resolver import NamedModule, Resolver
from symd.profiles.samples import SampledProfile


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an assistant is told about a reason. ``meaning``: what the reason says of this address; ``advice``: what
    to do, one step a sentence."""

    meaning: str
    advice: tuple[str, ...] = ()


_MEANINGS = {
    Reason.EXACT: "A line row covers the address: there is nothing to explain.",
    Reason.APPROXIMATE: "The compiler wrote line 0 here (code that belongs to no line). The line given is the nearest earlier one of the"
    " same function.",
    Reason.INFERRED: "Rows and scopes of the debug data contradict each other here, and the rest of it leaves one reading: the one given.",
    Reason.CONTRADICTORY: "The debug data contradicts itself here. The frames given are sure; a line or a name that is not sure is left out.",
    Reason.NO_LINE: "A function covers the address, and the line table has no row with a line for it.",
    Reason.GAP: "The address lies inside code, between functions: padding, or code that the debug data does not know.",
    Reason.OUTSIDE_TEXT: "The address lies in no code of this module.",
    Reason.NO_DEBUG_INFO: "The code object was compiled without debug information.",
    Reason.DEBUG_DATA_ELSEWHERE: "The debug data was split off when the program was compiled, and that file is not here.",
    Reason.AMBIGUOUS: "Several code objects or sections could be meant.",
    Reason.UNKNOWN_KERNEL: "The module has no kernel, function or code object of that name.",
    Reason.UNKNOWN_MODULE: "No module of that identity is known.",
    Reason.UNLOADED: "The module was not loaded at that time.",
    Reason.MALFORMED: "The code object's debug information breaks the rules of its format.",
    Reason.UNRECOGNIZED: "The daemon is newer than this symd, and gave a reason that this one has no name for.",
}
_ADVICE: dict[Reason, tuple[str, ...]] = {
    Reason.APPROXIMATE: ("Take the line as the neighborhood, not as the place.",),
    Reason.CONTRADICTORY: (
        "symd symbolize --as-written shows what the rows and scopes say, unreconciled.",
        "The page contradictions.md of symd's documentation lists what compilers are known to write.",
    ),
    Reason.NO_LINE: ("Ask for an address a few instructions earlier: the function's other instructions have lines.",),
    Reason.GAP: ("Check the offset: it may count from another start than the one asked by.",),
    Reason.OUTSIDE_TEXT: (
        "Check what the number counts from: an object address, a kernel's first byte (KERNEL+OFFSET) or a section's ((SECTION)+OFFSET).",
        "A device address first has to lose the address that the module was loaded at; symd symbolize --context does that.",
    ),
    Reason.DEBUG_DATA_ELSEWHERE: (
        "Give the debug file, the .dwo file, the .dwp package, the .dbg.spv module of SPIR-V, or their folder with --debug.",
        "symd mcp finds them beside the module and where it was compiled, if they lie below a --source-root.",
    ),
    Reason.AMBIGUOUS: ("Ask again by kernel or section, or name the code object.",),
    Reason.UNKNOWN_KERNEL: ("The tool names, with the pattern '*', lists what there is.",),
    Reason.UNKNOWN_MODULE: ("Add the module, or ask the daemon that has it.",),
    Reason.UNLOADED: ("Ask for a time at which it was loaded; symd contexts lists loads and unloads.",),
    Reason.MALFORMED: (
        "symd verify compares symd's reading with another reader's.",
        "Compile with another version of the compiler.",
    ),
    Reason.UNRECOGNIZED: ("Install the daemon's version of symd here.",),
}
_STRIPPED = "If it was compiled so, it was stripped since: use the file from before, or --debug FILE."


def explanation(answer: Answer, summary: ModuleSummary) -> Explanation:
    """What is behind an answer of this module."""
    meaning = _MEANINGS[answer.reason]
    advice = _ADVICE.get(answer.reason, ())
    if answer.reason is Reason.NO_DEBUG_INFO:
        clauses = compile_advice(summary.objects, answer.path)
        advice = (*(f"{each[:1].upper()}{each[1:]}." for each in clauses), _STRIPPED)
    elif answer.reason is Reason.AMBIGUOUS and answer.candidates:
        advice = (f"Ask again with {query_of(answer.candidates[0])} for the first of the candidates.",)
    elif answer.reason is Reason.UNKNOWN_KERNEL and answer.candidates:
        near = ", ".join(dict.fromkeys(each.function for each in answer.candidates if each.function))
        advice = (f"Did you mean {near}?", *advice) if near else advice
    return Explanation(meaning, advice)


def query_of(candidate: Candidate) -> str:
    """The query that means this candidate alone, and the code object to name with it where the module has several."""
    section = candidate.section or f"#{candidate.section_index}"
    place = f"({section})+{candidate.section_offset:#x}"
    return f"{place} in the code object {candidate.path}" if candidate.path else place


QUERIES = 200
"""Addresses in one question."""
LISTED_OBJECTS = 20
"""Code objects in one answer."""
LISTED_KERNELS = 100
"""Kernels in one answer; several code objects share them."""
KERNELS_OF_AN_OBJECT = 50
"""Kernels of a code object in one answer."""
LISTED_NAMES = 100
"""Names, candidates, places and variables in one answer."""
LISTED_INSTRUCTIONS = 1000
"""Instructions in one answer."""
CHARACTERS = 300
"""Letters of one name, line of source or instruction; C++ knows names of thousands."""


@dataclass(frozen=True, slots=True)
class AskedModule:
    """A module that is in ``symbolizer`` under ``digest``."""

    symbolizer: Symbolizer
    digest: str


OpenModule = Callable[[str], AskedModule]
"""The module that a file's path, or ``modules/SHA256``, names. Raises SymdError."""
ReadSources = Callable[[AskedModule, Sequence[str]], Mapping[str, SourceText]]
"""The texts of source files, by the name that the debug data gives them."""
ReadProfile = Callable[[str], bytes]
"""The bytes of a profile, by its path. Raises SymdError."""


class Tools:
    """The tools, without the protocol. Every method gives a dict that JSON can write and raises ``SymdError``."""

    def __init__(
        self,
        open_module: OpenModule,
        read_sources: ReadSources,
        read_profile: ReadProfile,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._open = open_module
        self._read_sources = read_sources
        self._read_profile = read_profile
        self._limits = limits

    def info(self, file: str) -> dict[str, Any]:
        """What is inside a module: code objects, their debug data, kernels."""
        module = self._open(file)
        summary = module.symbolizer.module(module.digest)
        shown = summary.objects[:LISTED_OBJECTS]
        kernels = min(KERNELS_OF_AN_OBJECT, LISTED_KERNELS // max(1, len(shown)))
        return {
            "format": summary.format,
            "sha256": summary.sha256,
            "objects": [_object(each, kernels) for each in shown],
            **_omitted("objects", summary.objects, LISTED_OBJECTS),
            "notes": [_cut(note) for note in summary.notes[:LISTED_NAMES]],
        }

    def symbolize(self, file: str, queries: Sequence[str], path: str | None = None) -> dict[str, Any]:
        """Frames at addresses, innermost first."""
        _bound("queries", len(queries), QUERIES)
        module = self._open(file)
        answers = module.symbolizer.symbolize(module.digest, [parse_query(text) for text in queries], path)
        return {"answers": [_answer(text, answer) for text, answer in zip(queries, answers, strict=True)]}

    def explain(self, file: str, query: str, path: str | None = None) -> dict[str, Any]:
        """Why an address has no exact answer, and what to do."""
        module = self._open(file)
        answer = module.symbolizer.symbolize_one(module.digest, parse_query(query), path)
        told = explanation(answer, module.symbolizer.module(module.digest))
        return {**_answer(query, answer), "meaning": told.meaning, "advice": list(told.advice)}

    def locate(self, file: str, place: str, path: str | None = None, *, every_address: bool = False) -> dict[str, Any]:
        """Addresses for a breakpoint at a place."""
        where = parse_place(place)
        module = self._open(file)
        found = module.symbolizer.locate(module.digest, where, path, every_address=every_address)
        places = list(islice(located_json(place, found, {}), LISTED_NAMES))
        return {"places": places, **_omitted("places", found.locations, LISTED_NAMES)}

    def variables(self, file: str, query: str, path: str | None = None) -> dict[str, Any]:
        """What is in scope at an address, innermost scope first, and where it lives."""
        module = self._open(file)
        found = module.symbolizer.variables(module.digest, parse_query(query), path)
        shown = found.visible.variables
        told = {} if shown else {"meaning": explanation(found.at, module.symbolizer.module(module.digest)).meaning}
        return {
            "at": _answer(query, found.at),
            "variables": [variable_json(each) for each in shown[:LISTED_NAMES]],
            **_omitted("variables", shown, LISTED_NAMES),
            "simd_width": found.visible.simd_width,
            **told,
        }

    def names(self, file: str, pattern: str) -> dict[str, Any]:
        """Kernels, functions and source files by name; ``*``, ``?`` and ``[...]`` make a pattern."""
        match = Match.GLOB if set("*?[") & set(pattern) else Match.EXACT
        module = self._open(file)
        found = module.symbolizer.names(module.digest, NameQuery(pattern, match))
        shown = [named_item_json(each, _cut(each.name)) for each in found[:LISTED_NAMES]]
        return {"names": shown, **_omitted("names", found, LISTED_NAMES)}

    def listing(
        self, file: str, kernel: str, *, line: str | None = None, first: int = 0, count: int = 100
    ) -> dict[str, Any]:
        """Instructions of one kernel or function, ``count`` from number ``first`` on; with ``line`` only those of that
        source line, inlined or not."""
        _bound("count", count, LISTED_INSTRUCTIONS)
        if first < 0 or count < 0:
            raise BadQuery("first and count are numbers of instructions, from 0 on")
        where = parse_source_line(line) if line is not None else None
        module = self._open(file)
        summary = module.symbolizer.module(module.digest)
        part = ListingPart(within=kernel)
        objects = [
            self._listed(module, listing, summary, where, first, count)
            for listing in islice(module.symbolizer.listing(module.digest, part), LISTED_OBJECTS)
        ]
        return {"objects": objects}

    def hot_lines(
        self, profile: str, modules: Sequence[str], *, value: str | None = None, callers: bool = False, count: int = 20
    ) -> dict[str, Any]:
        """The source lines with the most samples, or the most of another value of the profile. ``modules`` are files,
        or ID=FILE where the profile calls them by an ID. ``callers``: samples of inlined code count for the line of the
        function that it was inlined into."""
        _bound("count", count, LISTED_NAMES)
        _bound("modules", len(modules), LISTED_OBJECTS)
        if not modules:
            raise BadQuery("no module is named", hint="name the modules that the profile is about")
        opened = [self._named(text) for text in modules]
        resolver = Resolver(opened[0][0].symbolizer, [named for _, named in opened])
        options = profiles.Options(self._limits)
        done = profiles.symbolize(self._read_profile(profile), resolver, options)
        sampled = profiles.samples(done.data, options)
        column = _column(sampled, value)
        totals = hot_lines(sampled, column, callers=callers)
        hottest = sorted(
            ((place, total) for place, total in totals.items() if place is not None), key=lambda each: -each[1]
        )
        everything = sum(totals.values())
        texts = self._texts([module for module, _ in opened], [place.file for place, _ in hottest[:count]])
        return {
            "value": sampled.value_types[column].name,
            "unit": sampled.value_types[column].unit,
            "other_values": [kind.name for at, kind in enumerate(sampled.value_types) if at != column],
            "total": everything,
            "without_line": totals.get(None, 0),
            "lines": [
                {
                    "line": f"{place.file}:{place.line}",
                    "function": _cut(place.function),
                    "value": total,
                    "share": round(total / everything, 4) if everything else 0.0,
                    **_text_of(place, texts),
                }
                for place, total in hottest[:count]
            ],
            **_omitted("lines", hottest, count),
            "resolved": done.report.resolved + done.report.already,
            "unresolved": {reason.name: number for reason, number in done.report.unresolved.items()},
            "notes": [_cut(note) for note in done.report.notes[:LISTED_NAMES]],
        }

    def _named(self, text: str) -> tuple[AskedModule, NamedModule]:
        """``FILE`` or ``ID=FILE``; a path has the first "=" behind its first "/"."""
        identity, equals, file = text.partition("=")
        if not equals or "/" in identity:
            identity, file = "", text
        module = self._open(file)
        return module, NamedModule(module.digest, file, identity or None)

    def _texts(self, modules: Sequence[AskedModule], files: Sequence[str]) -> dict[str, list[str]]:
        """The lines of each file, from the first module that has it."""
        wanted = list(dict.fromkeys(files))
        found: dict[str, list[str]] = {}
        for module in modules:
            for file, source in self._read_sources(module, [each for each in wanted if each not in found]).items():
                if source.text is not None:
                    found[file] = source.lines()
        return found

    def _listed(
        self,
        module: AskedModule,
        listing: Listing,
        summary: ModuleSummary,
        where: SourceLine | None,
        first: int,
        count: int,
    ) -> dict[str, Any]:
        head = {"object": listing.path, "target": listing.target}
        if listing.problem:
            return {**head, "problem": listing.problem}
        numbers = [
            number
            for number in range(len(listing))
            if where is None or any(_is_at(frame, where) for frame in listing.answers[number].frames)
        ]
        shown = numbers[first : first + count]
        answers = [listing.answers[number] for number in shown]
        kernels = _kernels_of(summary, listing.path)
        files = list(dict.fromkeys(frame.file for answer in answers for frame in answer.frames if frame.file))
        texts = self._texts([module], files)
        return {
            **head,
            "total": len(numbers),
            "first": first,
            "instructions": [
                _instruction(answer, _cut(listing.text[number]), kernels)
                for number, answer in zip(shown, answers, strict=True)
            ],
            "source": dict(_source_lines(answers, texts)),
        }


def _column(sampled: SampledProfile, value: str | None) -> int:
    """The number of the values of that name; without one of those that are shown first. Raises BadQuery."""
    names = [kind.name for kind in sampled.value_types]
    if not names or (value is not None and value not in names):
        raise BadQuery(f"the profile has no values called {_cut(value or '')!r}", hint=f"it has {', '.join(names)}")
    return names.index(value) if value is not None else sampled.default


def _text_of(place: HotPlace, texts: Mapping[str, Sequence[str]]) -> dict[str, str]:
    lines = texts.get(place.file, ())
    return {"source": _cut(lines[place.line - 1])} if 0 < place.line <= len(lines) else {}


def _object(item: ObjectSummary, kernels: int) -> dict[str, Any]:
    """A code object as JSON, with at most so many ``kernels``."""
    return {
        "object": item.path,
        "format": item.format,
        "target": item.target,
        "debug": item.debug,
        "kernels": [{"name": _cut(kernel.name), "size": kernel.size} for kernel in item.kernels[:kernels]],
        **_omitted("kernels", item.kernels, kernels),
        "notes": [_cut(note) for note in item.notes[:LISTED_NAMES]],
    }


def _answer(query: str, answer: Answer) -> dict[str, Any]:
    frames = tuple(
        frame._replace(function=_cut_name(frame.function), linkage_name=_cut_name(frame.linkage_name))
        for frame in answer.frames[:LISTED_NAMES]
    )
    shown = answer._replace(frames=frames, candidates=answer.candidates[:LISTED_NAMES])
    return {
        **answer_json(query, shown),
        **_omitted("frames", answer.frames, LISTED_NAMES),
        **_omitted("candidates", answer.candidates, LISTED_NAMES),
    }


def _instruction(answer: Answer, text: str, kernels: Mapping[tuple[int, str], KernelSummary]) -> dict[str, Any]:
    """One instruction: how to ask about it, its text, and its line with those of the calls that it was inlined
    through."""
    fields: dict[str, Any] = {"at": _query(answer, kernels), "text": text}
    if answer.frames:
        fields["line"] = _place(answer.frames[0])
        fields["function"] = _cut(answer.frames[0].function or "")
    if len(answer.frames) > 1:
        fields["inlined_into"] = [_place(frame) for frame in answer.frames[1:]]
    if answer.reason is not Reason.EXACT:
        fields["reason"] = answer.reason.name
    return fields


def _query(answer: Answer, kernels: Mapping[tuple[int, str], KernelSummary]) -> str:
    kernel = kernels.get((answer.section_index or 0, answer.kernel or ""))
    offset = answer.section_offset or 0
    if kernel is not None and offset >= kernel.offset:
        return f"{kernel.name}+{offset - kernel.offset:#x}"
    return f"({answer.section or f'#{answer.section_index}'})+{offset:#x}"


def _kernels_of(summary: ModuleSummary, path: ObjectPath) -> dict[tuple[int, str], KernelSummary]:
    return {
        (kernel.section_index, kernel.name): kernel
        for item in summary.objects
        if item.path == path
        for kernel in item.kernels
    }


def _source_lines(answers: Sequence[Answer], texts: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """The text of each line that is spoken of, once, where it is known."""
    for frame in dict.fromkeys(frame for answer in answers for frame in answer.frames):
        lines = texts.get(frame.file or "", ())
        if 0 < frame.line <= len(lines):
            yield _place(frame), _cut(lines[frame.line - 1])


def _place(frame: Frame) -> str:
    return f"{frame.file}:{frame.line}" if frame.file else "no line"


def _is_at(frame: Frame, where: SourceLine) -> bool:
    """Whether a frame is at that line; the file is named by its path or by its last components."""
    return frame.line == where.line and f"/{frame.file or ''}".endswith(f"/{where.file.lstrip('/')}")


def _bound(name: str, number: int, largest: int) -> None:
    if number > largest:
        raise LimitExceeded(f"{name}: {number}, at most {largest}", hint="ask in several parts")


def _omitted(name: str, values: Sequence[object], shown: int) -> dict[str, int]:
    """Says how many were left out, where any were."""
    return {f"{name}_omitted": len(values) - shown} if len(values) > shown else {}


def _cut(text: str) -> str:
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 3]}..."


def _cut_name(name: str | None) -> str | None:
    return None if name is None else _cut(name)

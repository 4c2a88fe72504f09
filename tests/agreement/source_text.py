"""The source text as a judge of answers: does the line that a frame gives stand in the function that it names? LLVM only
repeats what a compiler wrote, so that agreeing with it says nothing of whether that is true.

    python -m tests.agreement.source_text

counts by compiler, at every instruction slot of every sample, answers as written and as symd gives them."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from symd.errors import SymdError
from symd.index import Index
from symd.model.answers import Answer, Frame, Reason
from symd.query.symbolize import symbolize_column
from tests.agreement import ours

SAMPLES = Path(__file__).parents[2] / "samples"
ROOMS = ("kernels", "amdgpu", "cuda", "spirv")
STEPS = {"kernels": 8, "amdgpu": 4, "cuda": 16, "spirv": 4}
"""Instructions start at multiples of so many bytes."""
POSITIONED = (Reason.EXACT, Reason.INFERRED)
"""Reasons of answers that say a line and stand for it."""
_SOURCES = (".cl", ".clcpp", ".cu", ".cuh", ".h", ".hpp", ".hip", ".cpp", ".comp")
_NO_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\\\n]|\\.|\\\n)*", re.MULTILINE)
_HEAD = re.compile(r"(operator\s*(?:\(\s*\)|[^\s\w(]+)|~?[A-Za-z_]\w*)\s*\(|(\])\s*\(")
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "return", "sizeof", "catch", "alignof", "decltype", "defined"}
_BEFORE_BODY = re.compile(
    r"(?:\s|const\b|noexcept\b|mutable\b|override\b|__attribute__\s*\(\(.*?\)\)|->\s*[\w:<>*& ]+|:[^;{}]*)*\{"
)


class Body(NamedTuple):
    """Lines of a source text, from that of a function's name to its closing brace, both included."""

    first: int
    last: int

    def holds(self, line: int) -> bool:
        return self.first <= line <= self.last


class SourceText:
    """The functions that a C or C++ text defines. What a preprocessor makes is known by the line where a macro stands."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.bodies: dict[str, list[Body]] = {}
        self.made: list[tuple[set[str], Body]] = []
        self.lambdas = re.findall(r"\bauto\s+(\w+)\s*=\s*\[", text)
        blank = _DIRECTIVE.sub(_blanked, _NO_TEXT.sub(_blanked, text))
        self._newlines = [at for at, character in enumerate(blank) if character == "\n"]
        end = 0
        for head in _HEAD.finditer(blank):
            name = "operator()" if head[2] else re.sub(r"\s", "", head[1])
            if name in _NOT_FUNCTIONS:
                continue
            closing = _closing(blank, head.end() - 1, "()")
            body = _BEFORE_BODY.match(blank, closing + 1)
            if body:
                last = _closing(blank, body.end() - 1, "{}")
                self.bodies.setdefault(name, []).append(Body(self._line(head.start()), self._line(last)))
                end = max(end, last)
            elif head.start() > end and name.isupper():
                words = set(re.findall(r"\w+", blank[head.end() : closing]))
                self.made.append((words, Body(self._line(head.start()), self._line(closing))))

    def _line(self, at: int) -> int:
        return bisect_left(self._newlines, at) + 1

    def of(self, function: str) -> list[Body]:
        """The bodies of the functions of that name; where it has none, the macros that may have made it."""
        name = simple_name(function)
        found = self.bodies.get(name)
        return found or [body for words, body in self.made if any(word and word in name for word in words)]


def simple_name(function: str) -> str:
    """``fill<float, 3>`` without its template arguments, ``_ZN6signal4keepEf`` as keep, and a mangled lambda as ``operator()``."""
    if re.match(r"_ZZ.*Ul.*E\d*_clE", function):
        return "operator()"
    mangled = re.match(r"_ZN?K?L?(?=\d)", function)
    if mangled:
        at, name = mangled.end(), ""
        while length := re.match(r"\d+", function[at:]):
            begin = at + length.end()
            at = begin + int(length[0])
            name = function[begin:at]
            arguments = re.compile(r"I[^E]*E").match(function, at)
            at = arguments.end() if arguments else at
        return name
    return function if function.startswith("operator") else function.partition("<")[0]


def _blanked(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _closing(text: str, at: int, pair: str) -> int:
    depth = 0
    for position in range(at, len(text)):
        depth += (text[position] == pair[0]) - (text[position] == pair[1])
        if not depth:
            return position
    return len(text) - 1


@cache
def sources() -> Mapping[str, SourceText]:
    """The sources of all samples by the last part of their paths."""
    files = [path for path in SAMPLES.rglob("*") if path.suffix in _SOURCES]
    return {path.name: SourceText(path.read_text()) for path in files}


def judged(frame: Frame, texts: Mapping[str, SourceText]) -> bool | None:
    """Whether the frame's line stands in the function that it names; None where the text does not tell."""
    text = texts.get((frame.file or "").rpartition("/")[2])
    if text is None or not frame.line or frame.function is None:
        return None
    bodies = text.of(frame.function)
    return any(body.holds(frame.line) for body in bodies) if bodies else None


def call_judged(callee: Frame, caller: Frame, texts: Mapping[str, SourceText]) -> bool | None:
    """Whether the line of a call names the function that was inlined there; None where the text does not tell."""
    text = texts.get((caller.file or "").rpartition("/")[2])
    if text is None or not callee.inlined or callee.function is None or not 0 < caller.line <= len(text.lines):
        return None
    name = simple_name(callee.function)
    names = text.lambdas if name == "operator()" else [name]
    if not names:
        return None
    alternatives = "|".join(map(re.escape, names))
    return re.search(rf"(?<!\w)(?:{alternatives})(?!\w)", text.lines[caller.line - 1]) is not None


def answers(found: Index, step: int) -> Iterator[Answer]:
    """The answers at every instruction slot of every text section."""
    for number, text in enumerate(found.sections):
        offsets = np.arange(0, found.section_size(number), step, dtype=np.uint64)
        yield from symbolize_column(found, offsets, section=text.section_index, path=text.path)


class Tally:
    """Answers counted by reason, and those that are wrong: EXACT or INFERRED, with a frame whose line does not stand in its
    function, or a call whose line does not name what is called (``wrong_calls``); ``judged`` have at least one frame of which the text tells,
    ``calls`` counts calls of which it does."""

    def __init__(self, texts: Mapping[str, SourceText] | None = None) -> None:
        self._texts = sources() if texts is None else texts
        self.counts: Counter[str] = Counter()
        self.wrong: Counter[tuple[str | None, int]] = Counter()
        self.wrong_calls: Counter[tuple[str | None, int]] = Counter()
        self._verdicts: dict[Frame, bool | None] = {}

    def add(self, answer: Answer) -> None:
        self.counts[answer.reason.name] += 1
        if answer.reason in POSITIONED:
            verdicts = [self._verdict(frame) for frame in answer.frames]
            self.counts["judged"] += any(verdict is not None for verdict in verdicts)
            for frame, verdict in zip(answer.frames, verdicts, strict=True):
                self.wrong[frame.function, frame.line] += verdict is False
            self.counts["wrong"] += False in verdicts
            for callee, caller in pairwise(answer.frames):
                named = call_judged(callee, caller, self._texts)
                self.counts["calls"] += named is not None
                self.counts["wrong calls"] += named is False
                self.wrong_calls[callee.function, caller.line] += named is False

    def _verdict(self, frame: Frame) -> bool | None:
        if frame not in self._verdicts:
            self._verdicts[frame] = judged(frame, self._texts)
        return self._verdicts[frame]


def sample_names(room: str) -> list[str]:
    """The binaries of a folder of samples."""
    return list(json.loads((SAMPLES / room / "manifest.json").read_text()))


def sample_index(room: str, name: str) -> Index | None:
    """The index of a sample; None where it is no module."""
    try:
        return ours.index((SAMPLES / room / "bin" / name).read_bytes())
    except SymdError:
        return None


def compiler(room: str, name: str) -> str:
    """What made a sample, as far as its name says so."""
    if room != "kernels":
        architecture = re.search(r"sm_(\d+)", name)
        family = f", sm_{architecture[1]}" if architecture else ""
        return {"amdgpu": "clang (AMD)", "cuda": f"nvcc, ptxas (NVIDIA){family}", "spirv": "SPIR-V"}[room]
    if name.endswith(".spv"):
        return "SPIR-V"
    generation = "IGC 2" if "igc2" in name else "IGC 1"
    return f"{generation}, {'not optimised' if 'O0' in name else 'optimised'}"


def main() -> None:
    tallies: dict[tuple[str, str], Tally] = {}
    for room in ROOMS:
        for name in sample_names(room):
            found = sample_index(room, name)
            for reading, index in (("as written", found and found.read(as_written=True)), ("answered", found)):
                tally = tallies.setdefault((compiler(room, name), reading), Tally())
                for answer in answers(index, STEPS[room]) if index else ():
                    tally.add(answer)
    for (made_by, reading), tally in sorted(tallies.items()):
        print(f"{made_by:<30} {reading:<10} {dict(tally.counts)}")


if __name__ == "__main__":
    main()

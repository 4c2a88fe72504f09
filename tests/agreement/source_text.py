"""The source text as a judge of answers: does the line that a frame gives stand in the function that it names? LLVM only
repeats what a compiler wrote, so that agreeing with it says nothing of whether that is true.

    python -m tests.agreement.source_text

counts by compiler, at every instruction slot of every sample, answers as written and as symd gives them: the table of
docs/contradictions.md."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

from symd.errors import SymdError
from symd.index import Index
from symd.model.answers import Answer, Frame, Reason
from symd.query.python_names import PythonNames
from symd.query.symbolize import symbolize_column
from tests.agreement import ours

SAMPLES = Path(__file__).parents[2] / "samples"
ROOMS = ("kernels", "amdgpu", "cuda", "spirv", "slang", "cores", "triton", "cute")
OF_PYTHON = ("triton", "cute")
_STEPS = {"kernels": 8, "cuda": 16}
POSITIONED = (Reason.EXACT, Reason.INFERRED)
"""Reasons of answers that say a line and stand for it."""
_SOURCES = (".cl", ".clcpp", ".cu", ".cuh", ".h", ".hpp", ".hip", ".cpp", ".comp", ".glsl", ".slang", ".py", ".s")
_ALSO_CALLED = {"blend.sycl.cpp": "rtc_0.cpp"}
"""DPC++'s kernel compiler gives names of its own to texts that it is handed."""
_C = Language(tree_sitter_cuda.language())
"""CUDA's C++. HIP, OpenCL C, GLSL and Slang have words besides, which the parser reads over; each function of the samples is found."""


class Body(NamedTuple):
    """Lines of a source text, from that of a function's name to its closing brace, both included."""

    first: int
    last: int

    def holds(self, line: int) -> bool:
        return self.first <= line <= self.last


class SourceText:
    """The functions that a text defines. What a preprocessor makes is known by the line where a macro stands."""

    def __init__(self, text: str, suffix: str = ".cpp") -> None:
        self.lines = text.splitlines()
        self.bodies: dict[str, list[Body]] = {}
        self.lambdas: list[str] = []
        self.macros: dict[str, str] = {}
        self._made: list[Body] = []
        if suffix == ".py":
            self._read_python(ast.parse(text))
        elif suffix == ".s":
            self._read_assembly()
        else:
            self._read(Parser(_C).parse(text.encode()).root_node)
            bodies = [body for found in self.bodies.values() for body in found]
            for number, line in enumerate(self.lines, 1):
                used = re.match(r"\s*(\w+)\s*\(", line)
                if used and used[1] in self.macros and not any(body.holds(number) for body in bodies):
                    self._made.append(Body(number, number))

    def _read(self, node: Node) -> None:
        if node.type == "function_definition":
            self._define(_name(node.child_by_field_name("declarator")), node)
        elif node.type == "lambda_expression":
            self._define(node, node)
        elif node.type in ("preproc_def", "preproc_function_def"):
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            self.macros[_text(name)] = _text(value)
        value = node.child_by_field_name("value") if node.type == "init_declarator" else None
        if value is not None and value.type == "lambda_expression":
            self.lambdas.append(_text(node.child_by_field_name("declarator")))
        for child in node.children:
            self._read(child)

    def _define(self, name: Node | None, whole: Node) -> None:
        if name is not None:
            body = Body(name.start_point.row + 1, whole.end_point.row + 1)
            called = "operator()" if name is whole else re.sub(r"\s", "", _text(name))
            self.bodies.setdefault(called, []).append(body)

    def _read_python(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                self.bodies.setdefault(node.name, []).append(Body(first, node.end_lineno or node.lineno))

    def _read_assembly(self) -> None:
        """From each label to the next."""
        labels = [(at, found[1]) for at, line in enumerate(self.lines, 1) if (found := re.match(r"(\w+):", line))]
        for (first, name), (after, _) in pairwise([*labels, (len(self.lines) + 1, "")]):
            self.bodies[name] = [Body(first, after - 1)]

    def of(self, function: str) -> list[Body]:
        """The bodies of the functions of that name; where it has none, the macros that may have made it."""
        name = simple_name(function)
        return self.bodies.get(name) or [
            body
            for body in self._made
            if any(word in name for word in re.findall(r"\w+", self.lines[body.first - 1])[1:])
        ]

    def said(self, line: int) -> str:
        """A line, and what the macros stand for that it uses."""
        text = self.lines[line - 1]
        return " ".join([text, *(self.macros[word] for word in re.findall(r"\w+", text) if word in self.macros)])


def _name(declarator: Node | None) -> Node | None:
    """The name in the declarator of a function, unqualified."""
    while declarator is not None and declarator.type != "function_declarator":
        inner = [child for child in declarator.named_children if child.type.endswith("declarator")]
        declarator = declarator.child_by_field_name("declarator") or (inner[0] if inner else None)
    name = declarator and declarator.child_by_field_name("declarator")
    while name is not None and name.type in ("qualified_identifier", "template_function"):
        name = name.child_by_field_name("name")
    return name


def _text(node: Node | None) -> str:
    return (node.text or b"").decode() if node else ""


def simple_name(function: str) -> str:
    """``fill<float, 3>`` without its template arguments, ``_ZN6signal4keepEf`` as keep, and a mangled lambda as ``operator()``. So without
    what compilers put around names: ``$kernel$callee`` (ptxas), ``damp(f1;f1;`` (glslang), ``helpers.apart__fp32`` (Triton), ``kernel_cutlass_blend_tensor…`` (CuTe DSL), ``Wave.at`` and ``Wave.$init`` (Slang)."""
    function = re.sub(r"^[$].*[$](?=\w)", "", function.replace("_$_", "."))
    function = re.sub(r"^(\w+)[.][$]init$", r"\1", function)
    function = re.sub(r"^\w+[.](\w+?)(__\w+)?$", r"\1", function)
    function = re.sub(r"^kernel_cutlass_([^_]+)_\w+", r"\1", function)
    function = function.removeprefix("__device_stub_")
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
    return function if function.startswith("operator") else re.split("[<(]", function)[0]


@cache
def sources() -> Mapping[str, SourceText]:
    """The sources of all samples by the last part of their paths."""
    files = [path for room in ROOMS for path in (SAMPLES / room).rglob("*") if path.suffix in _SOURCES]
    return {_ALSO_CALLED.get(path.name, path.name): SourceText(path.read_text(), path.suffix) for path in files}


def text_of(frame: Frame, texts: Mapping[str, SourceText]) -> SourceText | None:
    return texts.get((frame.file or "").rpartition("/")[2])


def judged(frame: Frame, texts: Mapping[str, SourceText]) -> bool | None:
    """Whether the frame's line stands in the function that it names; None where the text does not tell."""
    text = text_of(frame, texts)
    if text is None or not frame.line or frame.function is None:
        return None
    bodies = text.of(frame.function)
    return any(body.holds(frame.line) for body in bodies) if bodies else None


def call_judged(callee: Frame, caller: Frame, texts: Mapping[str, SourceText]) -> bool | None:
    """Whether the line of a call names the function that was inlined there; None where the text does not tell."""
    text = text_of(caller, texts)
    if text is None or not callee.inlined or callee.function is None or not 0 < caller.line <= len(text.lines):
        return None
    name = simple_name(callee.function)
    if name.startswith("_Z"):
        return None
    said = text.said(caller.line)
    if name.startswith("operator") and name != "operator()":
        return name.removeprefix("operator") in said
    names = text.lambdas if name == "operator()" else [name]
    return not set(names).isdisjoint(re.findall(r"\w+", said)) if names else None


def answers(found: Index, step: int) -> Iterator[Answer]:
    """The answers at every instruction slot of every text section."""
    for number, text in enumerate(found.sections):
        offsets = np.arange(0, found.section_size(number), step, dtype=np.uint64)
        yield from symbolize_column(found, offsets, section=text.section_index, path=text.path)


class Tally:
    """Answers counted by reason, and those that are wrong: EXACT or INFERRED, with a frame whose line does not stand in its
    function, or a call whose line does not name what is called (``wrong_calls``); ``judged`` have at least one frame of which the text tells,
    ``calls`` counts calls of which it does. ``untold`` are the functions of frames in texts at hand of which the text does not, ``elsewhere`` the files whose
    texts are not."""

    def __init__(self, texts: Mapping[str, SourceText] | None = None) -> None:
        self._texts = sources() if texts is None else texts
        self.counts: Counter[str] = Counter()
        self.wrong: Counter[tuple[str | None, int]] = Counter()
        self.wrong_calls: Counter[tuple[str | None, int]] = Counter()
        self.untold: Counter[str | None] = Counter()
        self.elsewhere: set[str | None] = set()
        self._verdicts: dict[Frame, bool | None] = {}

    def add(self, answer: Answer) -> None:
        self.counts["slots"] += 1
        self.counts[answer.reason.name] += 1
        if answer.reason in POSITIONED:
            verdicts = [self._verdict(frame) for frame in answer.frames]
            self.counts["judged"] += any(verdict is not None for verdict in verdicts)
            for frame, verdict in zip(answer.frames, verdicts, strict=True):
                self.wrong[frame.function, frame.line] += verdict is False
                is_at_hand = text_of(frame, self._texts) is not None
                self.untold[frame.function] += verdict is None and is_at_hand
                self.elsewhere |= {frame.file} if frame.line and not is_at_hand else set()
            is_wrong = False in verdicts
            for callee, caller in pairwise(answer.frames):
                named = call_judged(callee, caller, self._texts)
                self.counts["calls"] += named is not None
                self.wrong_calls[callee.function, caller.line] += named is False
                is_wrong |= named is False
            self.counts[f"{answer.reason.name} and wrong"] += is_wrong

    def _verdict(self, frame: Frame) -> bool | None:
        if frame not in self._verdicts:
            self._verdicts[frame] = judged(frame, self._texts)
        return self._verdicts[frame]


def sample_names(room: str) -> list[str]:
    """The binaries of a folder of samples."""
    folder = SAMPLES / room / "bin"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def step(room: str, name: str) -> int:
    """Instructions of a sample start at multiples of so many bytes."""
    return 16 if name.endswith((".cubin", ".nvcudmp", ".nvcudmp.gz")) else _STEPS.get(room, 4)


def sample_index(room: str, name: str) -> Index | None:
    """The index of a sample; None where it is no module."""
    try:
        return ours.index((SAMPLES / room / "bin" / name).read_bytes())
    except SymdError:
        return None


def sample_answers(room: str, name: str, *, as_written: bool = False) -> Iterator[Answer]:
    """The answers about a sample, with the names that Python's sources tell; none where it is no module."""
    found = sample_index(room, name)
    if found is not None:
        given = list(answers(found.view(as_written=as_written), step(room, name)))
        yield from given if as_written else PythonNames(_texts).named(given)


def _texts(files: list[str]) -> Mapping[str, str | None]:
    known = {f"/src/{room}-samples/{path.name}": path for room in OF_PYTHON for path in (SAMPLES / room).glob("*.py")}
    return {file: known[file].read_text() for file in files if file in known}


def compiler(room: str, name: str) -> str:
    """What made a sample, as far as its name says so."""
    if name.endswith(".spv"):
        return "SPIR-V"
    if room == "kernels":
        return f"IGC {2 if 'igc2' in name else 1}, {'unoptimized' if 'O0' in name else 'optimized'}"
    if room == "triton":
        return f"Triton ({'NVIDIA' if 'sm_' in name else 'AMD'})"
    if room == "cute":
        return "CuTe DSL"
    if room == "amdgpu" or name.startswith("address_error"):
        return "clang (AMD)"
    return "clang, ptxas (NVIDIA)" if name.startswith("clang/") else "nvcc, ptxas (NVIDIA)"


def main() -> None:
    tallies: dict[tuple[str, bool], Tally] = {}
    for room in ROOMS:
        for name in sample_names(room):
            for as_written in (True, False):
                tally = tallies.setdefault((compiler(room, name), as_written), Tally())
                for answer in sample_answers(room, name, as_written=as_written):
                    tally.add(answer)
    columns = ("judged", "calls", "EXACT", "INFERRED", "CONTRADICTORY")
    heads = ("compiler", "slots", "as written: EXACT", "of these wrong", "as answered: judged", *columns[1:], "wrong")
    print("|", " | ".join(heads), "|")
    print("|---" * len(heads), "|", sep="")
    for made_by in sorted({made_by for made_by, _ in tallies}):
        written, answered = (tallies[made_by, as_written].counts for as_written in (True, False))
        figures = [written[column] for column in ("slots", "EXACT", "EXACT and wrong")]
        figures += [answered[column] for column in columns]
        figures.append(answered["EXACT and wrong"] + answered["INFERRED and wrong"])
        print("|", " | ".join([made_by, *(f"{figure:,}" for figure in figures)]), "|")


if __name__ == "__main__":
    main()

"""One file of a package, and what symd says of it: the part that comparisons look at."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.survey.measured import Done, Usage, run

ROOT = Path(__file__).parents[2]
OBJECTS = 8
"""Code objects of a file whose addresses are asked, those with debug data first."""
ADDRESSES = 256
"""Addresses asked in one code object."""
STEPS = {"cubin": 16, "spirv": 4, "amdgpu": 4}
"""Instructions start at multiples of so many bytes; of 8 in Intel's code."""
OBJECT_SIZE = 64 << 20
"""Code objects above this size are not asked."""


class SurveyError(Exception):
    """symd, or a tool it is compared with, did not do what the survey needs of it."""


@dataclass(frozen=True)
class Compared:
    """``count`` things were the same, except for those that ``differences`` describe; ``newer`` more the other tool is too old
    for."""

    what: str
    count: int
    differences: Sequence[str] = ()
    newer: int = 0


def symd(arguments: Sequence[str | Path], folder: Path, stdin: bytes = b"") -> Done:
    """The command, in a process of its own."""
    return run([sys.executable, "-m", "symd", *arguments], folder, stdin=stdin, environment={"PYTHONPATH": str(ROOT)})


def answered(arguments: Sequence[str | Path], folder: Path, stdin: bytes = b"", codes: Sequence[int] = (0,)) -> Done:
    """The same; another exit code than these is an error."""
    done = symd(arguments, folder, stdin)
    if done.code not in codes:
        said = " ".join(done.errors.split())[-400:]
        raise SurveyError(f"symd {' '.join(map(str, arguments))}: exit code {done.code}: {said}")
    return done


@dataclass
class CodeFile:
    """A code object of the file: its entry in `symd info --json`, and the file that `symd extract` made of it."""

    entry: dict[str, Any]
    path: Path
    _answers: dict[bool, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.entry["object"])

    @property
    def format(self) -> str:
        return str(self.entry["format"])

    @property
    def has_lines(self) -> bool:
        return self.entry["debug"] != "none"

    @cached_property
    def queries(self) -> list[str]:
        """Instruction slots spread over the kernels, the same ones in every run."""
        step = STEPS.get(self.format, 8)
        kernels = [kernel for kernel in self.entry["kernels"] if kernel["size"]]
        chooser = random.Random(str(self.entry["sha256"]))
        slots = []
        for kernel in chooser.sample(kernels, min(len(kernels), ADDRESSES // 8)):
            count = max(1, kernel["size"] // step)
            each = max(8, ADDRESSES // len(kernels))
            chosen = sorted(chooser.sample(range(count), min(count, each)))
            slots += [(kernel["section_index"], kernel["offset"] + number * step) for number in chosen]
        if self.format == "spirv":
            return [f"{offset:#x}" for _, offset in slots]
        return [f"(#{section})+{offset:#x}" for section, offset in slots]

    def answers(self, *, as_written: bool = False) -> list[dict[str, Any]]:
        """The answers to ``queries``, in their order."""
        if as_written not in self._answers:
            reading = ["--as-written"] if as_written else []
            stdin = "".join(f"{query}\n" for query in self.queries).encode()
            done = answered(["symbolize", "--json", *reading, self.path, "-"], self.path.parent, stdin)
            self._answers[as_written] = [json.loads(line) for line in done.output.splitlines()]
            if len(self._answers[as_written]) != len(self.queries):
                raise SurveyError(f"{self.name}: {len(self._answers[as_written])} answers to {len(self.queries)}")
        return self._answers[as_written]


class Case:
    """A file, with everything that symd finds inside it. ``folder`` is for what is made on the way."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        done = answered(["info", "--json", path], folder)
        self.info: dict[str, Any] = json.loads(done.output)
        self.info_usage = done.usage

    @cached_property
    def objects(self) -> list[CodeFile]:
        """Every code object, extracted."""
        target = self.folder / "objects"
        shutil.rmtree(target, ignore_errors=True)
        done = answered(["extract", "--json", self.path, target], self.folder)
        files = {entry["object"]: Path(entry["file"]) for entry in map(json.loads, done.output.splitlines())}
        return [CodeFile(entry, files[entry["object"]]) for entry in self.info["objects"]]

    @cached_property
    def asked(self) -> list[CodeFile]:
        """The code objects whose addresses are asked: spread over the file, with kernels, those with lines first."""
        able = [each for each in self.objects if each.entry["kernels"] and each.entry["size"] < OBJECT_SIZE]
        able.sort(key=lambda each: not each.has_lines)
        lined = sum(each.has_lines for each in able)
        able = able[: lined or None]
        return [able[at * len(able) // OBJECTS] for at in range(OBJECTS)] if len(able) > OBJECTS else able

    @cached_property
    def one_address(self) -> Usage:
        """What one address costs, if there are any."""
        return self.address_of_object() if any(each.queries for each in self.asked) else Usage()

    def address_of_object(self) -> Usage:
        """What one address of a code object costs when the whole file is opened for it. It has the answer that the code
        object alone gives."""
        target = next(each for each in self.asked if each.queries)
        query = target.queries[0]
        chosen = ["--object", target.name] if target.name else []
        done = answered(["symbolize", "--json", *chosen, self.path, query], self.folder)
        found = json.loads(done.output)
        same = ("reason", "frames", "section", "section_offset", "address")
        first = target.answers()[0]
        if [found[key] for key in same] != [first[key] for key in same]:
            raise SurveyError(f"{target.name} {query}: {found} of the whole file, {first} of the code object alone")
        return done.usage

    def reasons(self) -> Counter[str]:
        return Counter(answer["reason"] for each in self.asked for answer in each.answers())

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
